"""`on_corrupt="skip"` says what it skipped, and what is no TFRecord file is an error even then."""

from __future__ import annotations

import gc
import gzip
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tfio_store.records.damage import looks_like

RECORDS = [b"%05d:" % i + bytes(i % 100) for i in range(2000)]


def damaged(path: Path, *places: float, pack: Any = bytes) -> Path:
    data = bytearray(framed(RECORDS))
    for place in places:
        data[int(len(data) * place)] ^= 1
    path.write_bytes(pack(data))
    return path


def said(reader: tfs.RecordReader, count: int | None = None) -> list[str]:
    """The warnings while all (or so many) records are read and the reader is closed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with reader:
            for _ in zip(range(10**9 if count is None else count), reader, strict=False):
                pass
    return [str(each.message) for each in caught if each.category is tfs.errors.DataLossWarning]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_one_warning_for_each_file_with_counts_and_bytes(tmp_path: Path, pack: Any) -> None:
    first = damaged(tmp_path / "a", 0.2, 0.5, pack=pack)
    sound = damaged(tmp_path / "b", pack=pack)
    third = damaged(tmp_path / "c", 0.9, pack=pack)
    one, two = said(tfs.RecordReader([first, sound, third], on_corrupt="skip"))
    assert str(first) in one
    assert "2 damaged regions skipped" in one
    assert "bytes" in one
    assert str(third) in two
    assert "1 damaged region skipped" in two


def test_blocks_of_a_damaged_shard_are_one_warning(tmp_path: Path) -> None:
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, compression="GZIP") as writer:
        writer.write_batch(bytes(1000) + b"%d" % i for i in range(5000))
    (shard,) = tmp_path.glob("t-*")
    data = bytearray(shard.read_bytes())
    for place in (0.3, 0.7):
        data[int(len(data) * place)] ^= 1
    shard.write_bytes(data)
    for reader in (
        tfs.RecordReader(tmp_path / "t", on_corrupt="skip"),
        tfs.RecordReader(tmp_path / "t", on_corrupt="skip").shuffle(1),
    ):
        (one,) = said(reader)
        assert str(shard) in one


def test_who_stops_early_is_told_too(tmp_path: Path) -> None:
    reader = tfs.RecordReader(damaged(tmp_path / "a", 0.1, 0.9), on_corrupt="skip")
    (one,) = said(reader, 1000)
    assert "damaged region" in one


def test_a_reader_that_is_dropped_says_it(tmp_path: Path) -> None:
    reader = tfs.RecordReader(damaged(tmp_path / "a", 0.1), on_corrupt="skip")
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged region skipped"):
        each = iter(reader)
        for _ in range(1000):
            next(each)
        del each, reader
        gc.collect()


def test_the_warning_points_at_the_line_that_reads(tmp_path: Path) -> None:
    path = damaged(tmp_path / "a", 0.1)
    with pytest.warns(tfs.errors.DataLossWarning) as caught:
        list(tfs.RecordReader(path, on_corrupt="skip"))
        list(tfs.mix({path: 1}, on_corrupt="skip"))
        tfs.RecordReader(path, on_corrupt="skip").shuffle(1).state()
        for _ in tfs.RecordReader(path, on_corrupt="skip").batches():
            pass
    assert [each.filename for each in caught] == [__file__] * 3


def test_a_function_is_told_and_nothing_is_said(tmp_path: Path) -> None:
    told: list[tfs.SkippedRegion] = []
    path = damaged(tmp_path / "a", 0.1)
    assert said(tfs.RecordReader(path, on_corrupt=told.append)) == []
    assert len(told) == 1


def test_sound_files_say_nothing(tmp_path: Path) -> None:
    assert said(tfs.RecordReader(damaged(tmp_path / "a"), on_corrupt="skip")) == []
    (tmp_path / "empty").write_bytes(b"")
    assert said(tfs.RecordReader(tmp_path / "empty", on_corrupt="skip")) == []


def riegeli() -> bytes:
    """The first 64 bytes of every Riegeli file (its documentation of the format)."""
    return bytes.fromhex(
        "83af70d10d884a3f000000000000000040000000000000009" + "1bac23c9287e1a9"
        "0000000000000000e19f13c0e9b1c37273" + "00" * 23
    )


OTHERS = {
    "a PNG image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 9,
    "CSV": b"id,name,score\n1,Ada,3.5\n2,Grace,4.5\n" * 20,
    "a Parquet file": b"PAR1\x15\x04\x15" + bytes(range(256)) * 9 + b"PAR1",
    "an ArrayRecord or Riegeli file": riegeli() + bytes(range(256)) * 9,
    "JSON": b'{"id": 1, "name": "Ada"}\n' * 20,
    "HTML or XML": b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>",
    "plain text": "schöne Grüße, \n".replace(",", "").encode() * 50,
    "a ZIP archive": b"PK\x03\x04" + bytes(range(256)) * 9,
    "a Python pickle": pickle.dumps({"a": list(range(999))}, 4),
    "bzip2": b"BZh91AY&SY" + bytes(range(256)),
}


@pytest.mark.parametrize("kind", OTHERS)
class TestNoTFRecord:
    @pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_reading_says_what_it_looks_like(
        self, tmp_path: Path, kind: str, on_corrupt: str, pack: Any
    ) -> None:
        (tmp_path / "x").write_bytes(pack(OTHERS[kind]))
        with pytest.raises(tfs.DataLossError, match=f"x: .*looks like {kind}"):
            list(tfs.RecordReader(tmp_path / "x", on_corrupt=on_corrupt))

    def test_indexing_says_it(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "x").write_bytes(OTHERS[kind])
        with pytest.raises(tfs.DataLossError, match=f"looks like {kind}"):
            tfs.RecordSource(tmp_path / "x")

    def test_verify_says_it(self, tmp_path: Path, kind: str) -> None:
        (tmp_path / "x").write_bytes(OTHERS[kind])
        report = tfs.verify(tmp_path / "x")
        assert not report.ok
        assert f"looks like {kind}" in str(report)


def test_a_table_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(OTHERS["CSV"])
    with pytest.raises(tfs.DataLossError, match=r"looks like CSV; convert\(\) makes a dataset"):
        list(tfs.RecordReader(tmp_path / "x"))


def test_a_sentence_is_no_table() -> None:
    assert looks_like(b"hello world, this is text\n") == "plain text"


def test_records_look_like_nothing() -> None:
    assert looks_like(framed([b"text"])) is None
    assert looks_like(b"") is None
    assert looks_like(bytes(600)) is None


def test_a_damaged_record_file_is_not_taken_for_another(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(flipped(framed(RECORDS), 0))
    with pytest.raises(tfs.CorruptRecordError) as caught:
        list(tfs.RecordReader(tmp_path / "x"))
    assert "looks like" not in str(caught.value)


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize(
    ("data", "named", "looks"),
    [
        (framed(RECORDS), "GZIP", "raw records"),
        (gzip.compress(framed(RECORDS)), "ZLIB", "GZIP records"),
        (gzip.compress(framed(RECORDS)), None, "GZIP data"),
        (OTHERS["a PNG image"], "GZIP", "a PNG image"),
    ],
)
def test_a_compression_that_the_file_belies_is_an_error_even_under_skip(
    tmp_path: Path, on_corrupt: str, data: bytes, named: str | None, looks: str
) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(tfs.CorruptRecordError, match=f"looks like {looks}"):
        list(tfs.RecordReader(tmp_path / "x", compression=named, on_corrupt=on_corrupt))
