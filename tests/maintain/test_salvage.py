"""`verify` and `salvage`: what is sound, what is lost, and what is not as the manifest says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tfio_store.records.compression import detect

ITEMS = [b"%05d:" % i + random.Random(i).randbytes(i % 300) for i in range(3000)]


@pytest.fixture(params=[None, "GZIP"])
def written(place: Place, request: pytest.FixtureRequest) -> Place:
    with tfs.ShardedWriter(
        place.url("train"),
        num_shards=3,
        compression=request.param,
        storage_options=place.storage_options,
    ) as writer:
        writer.write_batch(ITEMS)
    return place


def options(place: Place) -> dict[str, Any]:
    return {"storage_options": place.storage_options}


def damage(place: Place, name: str, at: float) -> None:
    data = bytearray(place.get(name))
    data[int(len(data) * at)] ^= 0x20
    place.put(name, bytes(data))


FIRST = "train-00000-of-00003.tfrecord"


class TestVerify:
    def test_sound(self, written: Place) -> None:
        seen: list[tfs.results.Progress] = []
        report = tfs.verify(written.url("train"), on_progress=seen.append, **options(written))
        assert report.ok
        assert report.records == 3000
        assert report.nbytes == sum(map(len, ITEMS))
        assert seen[-1].records == 3000
        assert seen[-1].nbytes == report.nbytes + 16 * 3000
        assert seen[-1].whole == 3000

    def test_a_flipped_bit(self, written: Place) -> None:
        damage(written, FIRST, 0.5)
        report = tfs.verify(written.url("train"), **options(written))
        assert not report.ok
        assert report.records < 3000
        assert report.skipped[0].path == written.url(FIRST)
        (problem,) = report.problems
        assert FIRST in problem
        assert "CRC32C" in problem
        assert FIRST in str(report)

    def test_another_size(self, written: Place) -> None:
        written.put(FIRST, written.get(FIRST) + b"x")
        report = tfs.verify(written.url("train"), **options(written))
        assert not report.ok
        assert any("bytes where the manifest says" in problem for problem in report.problems)

    def test_quick_reads_no_file(self, written: Place) -> None:
        where = written.url("train")
        assert tfs.verify(where, quick=True, **options(written)).ok
        damage(written, FIRST, 0.5)
        if not written.root.startswith("s3"):  # which tells the checksum of what it holds
            assert tfs.verify(where, quick=True, **options(written)).ok
        written.put(FIRST, written.get(FIRST)[:-1])
        (problem,) = tfs.verify(where, quick=True, **options(written)).problems
        assert "bytes where the manifest says" in problem
        with pytest.raises(ValueError, match="has none; verify it whole"):
            tfs.verify(written.put("raw", b""), quick=True, **options(written))


class TestSalvage:
    def test_everything_sound_is_copied(self, written: Place) -> None:
        damage(written, FIRST, 0.5)
        report = tfs.salvage(written.url("train"), written.url("saved"), **options(written))
        copied = sorted(tfs.RecordReader(written.url("saved"), **options(written)))
        assert report.records == len(copied)
        assert set(copied) < set(ITEMS)
        assert len(copied) >= len(ITEMS) - 1  # of a compressed block too, the other records
        assert report.skipped
        assert tfs.verify(written.url("saved"), **options(written)).ok

    def test_order_is_kept_in_one_shard(self, written: Place) -> None:
        tfs.salvage(written.url("train"), written.url("saved"), num_shards=1, **options(written))
        copied = list(tfs.RecordReader(written.url("saved"), **options(written)))
        assert copied == list(tfs.RecordReader(written.url("train"), **options(written)))

    def test_the_source_stays_as_it_was(self, written: Place) -> None:
        before = written.get(FIRST)
        tfs.salvage(written.url("train"), written.url("saved"), **options(written))
        assert written.get(FIRST) == before

    def test_the_codec_is_kept_unless_another_is_named(self, written: Place) -> None:
        targets: dict[str, Any] = {"same": {}, "other": {"target_compression": "ZLIB"}}
        for name, options_ in targets.items():
            tfs.salvage(written.url("train"), written.url(name), **options_, **options(written))
        first = [written.get(f"{name}-00000-of-00003.tfrecord") for name in ("same", "other")]
        assert detect(first[0]) == detect(written.get(FIRST))
        assert detect(first[1]) == "ZLIB"

    def test_an_existing_target_is_kept_unless_told_otherwise(self, written: Place) -> None:
        where = (written.url("train"), written.url("saved"))
        tfs.salvage(*where, **options(written))
        with pytest.raises(FileExistsError):
            tfs.salvage(*where, **options(written))
        report = tfs.salvage(*where, if_exists="overwrite", **options(written))
        assert report.records == len(ITEMS)
        saved = tfs.RecordReader(written.url("saved"), **options(written))
        assert len(list(saved)) == len(ITEMS)


def test_schema_and_metadata_stay(tmp_path: Path) -> None:
    """A repaired dataset has the columns that it had."""
    url = f"{tmp_path}/train"
    with tfs.ShardedWriter(url, num_shards=2, metadata={"made": "here"}) as writer:
        writer.write_batch({"x": i} for i in range(100))
    shard = tmp_path / "train-00000-of-00002.tfrecord"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0x20
    shard.write_bytes(data)
    before = tfs.open(url)
    assert before.schema is not None
    assert not tfs.salvage(url, url, if_exists="overwrite").ok
    repaired = tfs.open(url)
    assert repaired.schema == before.schema
    assert repaired.metadata == {"made": "here"}
    assert tfs.verify(url).records == 99
    tfs.salvage(url, url, if_exists="append")
    assert tfs.verify(url).records == 198


# --- not one sound record -------------------------------------------------------------------------


@pytest.mark.parametrize("if_exists", ["error", "overwrite", "append"])
def test_a_source_without_a_sound_record_makes_no_dataset(place: Place, if_exists: Any) -> None:
    text = place.put("text.txt", b"a line of text\nand another one\n")
    words = r"text\.txt: no sound record was found, and nothing was written: .* like plain text"
    for _ in range(2):
        with pytest.raises(tfs.CorruptRecordError, match=words) as caught:
            tfs.salvage(text, place.url("out/t"), if_exists=if_exists, **options(place))
        assert caught.value.offset == 0
        assert place.names() == ["text.txt"]
    with tfs.ShardedWriter(place.url("out/t"), num_shards=1, **options(place)) as writer:
        writer.write(b"kept")
    with pytest.raises(tfs.CorruptRecordError if if_exists != "error" else FileExistsError):
        tfs.salvage(text, place.url("out/t"), if_exists=if_exists, **options(place))
    assert list(tfs.RecordReader(place.url("out/t"), **options(place))) == [b"kept"]


def test_a_repair_in_place_without_a_sound_record_leaves_the_dataset(tmp_path: Path) -> None:
    url = f"{tmp_path}/train"
    with tfs.ShardedWriter(url, num_shards=2) as writer:
        writer.write_batch([b"one", b"two"])
    for shard in tmp_path.glob("train-*"):
        shard.unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(tfs.CorruptRecordError, match=r"nothing was written: .*00000.* is missing"):
        tfs.salvage(url, url, if_exists="overwrite", allow_missing=True)
    assert sorted(tmp_path.iterdir()) == before


def test_a_source_without_records_is_sound(tmp_path: Path) -> None:
    (tmp_path / "empty.tfrecord").touch()
    tfs.ShardedWriter(tmp_path / "none", num_shards=2).close()
    for number, source in enumerate(("empty.tfrecord", "none")):
        report = tfs.salvage(tmp_path / source, tmp_path / f"out{number}")
        assert report.ok
        assert list(tfs.RecordReader(tmp_path / f"out{number}")) == []
