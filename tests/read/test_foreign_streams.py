"""Files that others compressed, once they are indexed: every door, every kind, and their damage."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import warnings
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.foreign import KINDS, codec_of, many_members, packed, texts
from tests.support.framed import framed
from tests.support.indexes import container, section
from tfio_store.records.framing import backend
from tfio_store.storage import open_store

pytestmark = pytest.mark.skipif(
    backend().core == "pure", reason="only the compiled core builds indexes"
)

RECORDS = texts(500)
RAW = framed(RECORDS)


def written(folder: Path, kind: str = "GZIP level 6", name: str = "a.gz") -> str:
    path = folder / name
    path.write_bytes(KINDS[kind](RAW))
    return str(path)


@pytest.fixture
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_reading(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    manifest = tfs.build_index(path)
    assert (manifest.records, manifest.compression) == (len(RECORDS), codec_of(kind))
    assert os.path.getsize(tmp_path / "_a.gz.checkpoints") <= 0.03 * os.path.getsize(path)

    source = tfs.RecordSource(path)
    assert len(source) == tfs.count(path) == len(RECORDS)
    assert source[[499, 0, 250, 3]] == [RECORDS[i] for i in (499, 0, 250, 3)]
    assert list(tfs.RecordReader(path)) == RECORDS
    batches = tfs.RecordReader(path).batches()
    assert [record for batch in batches for record in batch] == RECORDS

    reader = tfs.RecordReader(path).shuffle(1)
    assert reader.num_records == len(RECORDS)
    first, second = list(reader), list(reader)
    assert sorted(first) == sorted(second) == sorted(RECORDS)
    assert first != second
    shares = [list(tfs.RecordReader(path).shuffle(1).shard(i, 3)) for i in range(3)]
    assert all(shares)
    assert sorted(chain.from_iterable(shares)) == sorted(RECORDS)

    parts = pickle.loads(pickle.dumps(tfs.partitions(path, num_partitions=3)))
    assert len(parts) == 3
    assert [record for part in parts for record in part.reader()] == RECORDS
    assert list(tfs.RecordReader(tfs.slice(path, "100:433"))) == RECORDS[100:433]


def test_a_state_goes_on_exactly(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    for stop in (0, 1, 77, 499, 500):
        for make in (lambda r: r, lambda r: r.shuffle(3), lambda r: r.shuffle(3).shard(0, 2)):
            reader = make(tfs.RecordReader(path))
            expected = list(make(tfs.RecordReader(path)))
            given = list(islice(reader, stop))
            state = json.loads(json.dumps(reader.state()))
            other = make(tfs.RecordReader(path))
            other.restore(state)
            rest = list(other) if len(given) < len(expected) else []
            assert given + rest == expected


@pytest.mark.parametrize("where", ["s3", "memory"])
def test_in_a_store(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place: Place = request.getfixturevalue(where)
    storage = place.storage()
    for i in range(12):  # so many that the folder is listed
        store, path = place.open(f"part-{i:02}.gz")
        store.put(path, packed(framed(RECORDS[i::12]), 31))
    files = place.url("part-*.gz")
    assert tfs.build_index(files, storage=storage).records == len(RECORDS)
    expected = [record for i in range(12) for record in RECORDS[i::12]]
    source = tfs.RecordSource(files, storage=storage)
    assert source[:] == expected
    assert source.dataset.has_blocks
    assert list(tfs.RecordReader(files, storage=storage)) == expected
    assert list(tfs.RecordReader(files, storage=place.storage(index_dir=str(tmp_path)))) == expected


def test_as_a_dataset_of_a_name(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"part-{i}").write_bytes(packed(framed(RECORDS[i::3]), 15))
    files, name = str(tmp_path / "part-*"), str(tmp_path / "train")
    manifest = tfs.build_index(files, name)
    assert (manifest.compression, len(manifest.shards)) == ("ZLIB", 3)
    expected = [record for i in range(3) for record in RECORDS[i::3]]
    assert tfs.open(name).num_records == len(RECORDS)
    assert tfs.RecordSource(name)[:] == expected
    assert tfs.RecordSource(files)[:] == expected
    assert tfs.verify(name).ok
    with pytest.raises(FileExistsError):
        tfs.build_index(files, name)


def test_bytes_fetched_for_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    source = tfs.RecordSource(path, cache_bytes=0)
    counted = Counted(open_store(path)[0], monkeypatch)
    assert source[333] == RECORDS[333]
    assert counted.nbytes < 1.5 * (1 << 20)
    assert len(counted.ranges) == 2
    counted.clear()
    assert list(tfs.RecordReader(path)) == RECORDS
    assert counted.nbytes < 1.05 * os.path.getsize(path)


def test_a_second_build_reads_the_index_that_is_there(tmp_path: Path) -> None:
    path = written(tmp_path, name="a")
    tfs.build_index(path)
    before = os.stat(tmp_path / "_a.checkpoints")
    assert tfs.build_index(path).records == len(RECORDS)
    assert os.stat(tmp_path / "_a.checkpoints") == before


def test_in_a_folder_of_the_users(tmp_path: Path) -> None:
    for name in ("read only", "indexes", "x"):
        (tmp_path / name).mkdir()
    path, folder = written(tmp_path / "read only"), str(tmp_path / "indexes")
    os.chmod(tmp_path / "read only", 0o555)
    try:
        assert tfs.build_index(path, index_dir=folder).records == len(RECORDS)
        assert os.listdir(tmp_path / "read only") == ["a.gz"]
        assert tfs.RecordSource(path, index_dir=folder)[9] == RECORDS[9]
        assert tfs.open(path, index_dir=Path(folder)).num_records == len(RECORDS)
        assert (
            len(tfs.partitions(path, num_partitions=2, storage=tfs.Storage(index_dir=folder))) == 2
        )
        opened = tfs.open(path, index_dir=folder)
        assert list(tfs.RecordReader(opened).shard(0, 2))
        with pytest.raises(ValueError, match="build_index"):
            tfs.RecordSource(path)
        other = written(tmp_path / "x")  # the same name elsewhere has another index
        with pytest.raises(ValueError, match="build_index"):
            tfs.RecordSource(other, index_dir=folder)
    finally:
        os.chmod(tmp_path / "read only", 0o755)


def test_what_cannot_be_written_names_index_dir(tmp_path: Path, monkeypatch: Any) -> None:
    path = written(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "denied", path)

    monkeypatch.setattr(type(open_store(path)[0]), "open_output", refuse)
    with pytest.raises(PermissionError, match="index_dir="):
        tfs.build_index(path)


@pytest.mark.parametrize("how", ["rewritten", "longer"])
def test_an_index_of_another_version_is_not_used(tmp_path: Path, how: str) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    others = RECORDS[::-1] if how == "rewritten" else RECORDS * 2
    (tmp_path / "new").write_bytes(packed(framed(others), 31))
    os.replace(tmp_path / "new", path)
    with pytest.warns(RuntimeWarning, match="another version of the file"):
        assert list(tfs.RecordReader(path)) == others
    with pytest.warns(RuntimeWarning, match="another version of the file"):
        assert tfs.build_index(path).records == len(others)
    assert tfs.RecordSource(path)[:] == others


def test_a_file_copied_with_its_index_keeps_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    (tmp_path / "copy").mkdir()
    for name in ("a.gz", "_a.gz.checkpoints"):
        shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    assert tfs.RecordSource(str(tmp_path / "copy/a.gz"))[:] == RECORDS


def test_another_file_of_the_same_size_gives_no_wrong_record(tmp_path: Path) -> None:
    path = written(tmp_path, "GZIP level 0")
    tfs.build_index(path)
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "_a.gz.checkpoints", tmp_path / "copy")
    (tmp_path / "copy/a.gz").write_bytes(packed(framed(RECORDS[::-1]), 31, 0))
    with pytest.raises(tfs.DataLossError, match="other bytes"):
        tfs.RecordSource(str(tmp_path / "copy/a.gz"))[:]


@pytest.mark.parametrize("size", [0, 10, 200, -1])
def test_a_damaged_index_is_passed_by_with_a_word(tmp_path: Path, size: int) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    index = tmp_path / "_a.gz.checkpoints"
    data = bytearray(index.read_bytes())
    data[60] ^= 1
    index.write_bytes(bytes(data[:size] if size >= 0 else data))
    with pytest.warns(RuntimeWarning, match="read without its index"):
        assert list(tfs.RecordReader(path)) == RECORDS


@pytest.mark.parametrize("at", [16, 100, 2000])
def test_a_damaged_seed_is_no_damage_of_the_file(tmp_path: Path, at: int) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    index = tmp_path / "_a.gz.checkpoints"
    sound = index.read_bytes()
    data = bytearray(sound)
    data[table_end(sound) + at] ^= 1
    index.write_bytes(bytes(data))
    for policy in ("raise", "skip"):
        with pytest.raises(tfs.ManifestError, match=r"_a\.gz\.checkpoints.*build_index"):
            list(tfs.RecordReader(path, on_corrupt=policy))
    report = tfs.verify(path)
    assert (report.records, report.skipped) == (len(RECORDS), [])
    (problem,) = report.problems
    assert "_a.gz.checkpoints: one of its checkpoints is damaged" in problem
    assert tfs.build_index(path).records == len(RECORDS)
    assert index.read_bytes() == sound
    assert tfs.verify(path).ok
    assert list(tfs.RecordReader(path)) == RECORDS


def without_last(index: bytes, left: int) -> bytes:
    """The index of the first blocks alone, with all checksums that hold."""
    stop = table_end(index)
    body = index[32 : 32 + struct.unpack_from("<Q", index, 24)[0]]
    size, _, blocks, place, codec, named = struct.unpack_from("<QQQQII", body)
    at, columns = 40, []
    for width, extra in ((8, 0), (8, 0), (8, 1), (8, 1), (8, 1), (4, 0), (4, 0)):
        columns.append(body[at : at + width * (left + extra)])
        at += width * (blocks + extra)
    columns[1] = columns[1][:-8] + struct.pack("<Q", size) if left else b""
    records = struct.unpack_from("<Q", columns[3], 8 * left)[0]
    facts = struct.pack("<QQQQII", size, records, left, place, codec, named)
    (nbytes,) = struct.unpack_from("<Q", columns[4], 8 * left)
    seeds = index[stop + 16 : stop + 16 + nbytes]
    blocks_left = section(b"blocks", b"".join([facts, *columns, body[at:]]))
    return container(blocks_left, section(b"seeds", seeds))


def table_end(index: bytes) -> int:
    """Where the section of an index of checkpoints ends that is before the seeds."""
    return 16 + (16 + struct.unpack_from("<Q", index, 24)[0] + 4 + 7) // 8 * 8


@pytest.mark.parametrize("kind", ["GZIP level 6", "GZIP of many members", "ZLIB level 6"])
@pytest.mark.parametrize("left", [1, 2])
def test_an_index_that_leaves_out_the_last_blocks(tmp_path: Path, kind: str, left: int) -> None:
    path = written(tmp_path, kind)
    tfs.build_index(path)
    index = tmp_path / "_a.gz.checkpoints"
    index.write_bytes(without_last(index.read_bytes(), left))
    for policy in ("raise", "skip"):
        with pytest.raises(tfs.ManifestError, match="goes on behind its last block"):
            list(tfs.RecordReader(path, on_corrupt=policy))
        with pytest.raises(tfs.ManifestError, match="goes on behind its last block"):
            list(tfs.RecordReader(path, on_corrupt=policy).shuffle(1))
    report = tfs.verify(path)
    assert (report.records, report.ok) == (len(RECORDS), False)
    assert "goes on behind its last block" in report.problems[0]
    assert tfs.build_index(path).records == len(RECORDS)
    assert list(tfs.RecordReader(path)) == RECORDS


def test_an_index_that_leaves_out_all_blocks(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    index = tmp_path / "_a.gz.checkpoints"
    index.write_bytes(without_last(index.read_bytes(), 0))
    with pytest.warns(RuntimeWarning, match="it has no block, and the file is not empty"):
        assert list(tfs.RecordReader(path)) == RECORDS


def test_partitions_of_a_file_of_any_name(tmp_path: Path) -> None:
    path = written(tmp_path, name="part-00000")
    tfs.build_index(path)
    parts = tfs.partitions(path, num_partitions=3)
    assert [part.num_records is None for part in parts] == [False] * 3
    assert [record for part in parts for record in part.reader()] == RECORDS


def test_an_index_replaced_under_a_reader_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    source = tfs.RecordSource(path, cache_bytes=0)
    index = tmp_path / "_a.gz.checkpoints"
    data = index.read_bytes()
    index.unlink()
    index.write_bytes(data[:-1])
    with pytest.raises(OSError, match="replaced"):
        source[300]


# Damage


def damaged(path: str, at: int, flip: int = 8) -> None:
    """Flip a bit as a bad disk does: nobody notices by the file's time."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ flip]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("kind", ["GZIP level 6", "ZLIB level 1", "GZIP of many members"])
@pytest.mark.parametrize("place", [0.02, 0.5, 0.97])
def test_a_flipped_bit_loses_what_lies_between_two_checkpoints(
    tmp_path: Path, kind: str, place: float
) -> None:
    path = written(tmp_path, kind)
    tfs.build_index(path)
    shard = tfs.open(path).shards[0]
    assert shard.blocks is not None
    block = 2
    start, stop = int(shard.blocks.offsets[block]) + 1, int(shard.blocks.offsets[block + 1]) - 1
    damaged(path, start + int((stop - start) * place))
    begin, end = shard.blocks.records[block : block + 2].tolist()

    with pytest.raises(tfs.DataLossError):
        list(tfs.RecordReader(path))
    with pytest.warns(tfs.errors.DataLossWarning):
        found = list(tfs.RecordReader(path, on_corrupt="skip"))
    assert found[:begin] == RECORDS[:begin]
    assert found[-(len(RECORDS) - end) :] == RECORDS[end:]
    assert set(found) < set(RECORDS)

    report = tfs.salvage(path, tmp_path / "good/train")
    assert list(tfs.RecordReader(str(tmp_path / "good/train"))) == found
    assert len(report.skipped) == len(tfs.verify(path).skipped) > 0


def test_verify_looks_at_the_members_ends_too(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    assert tfs.verify(path).ok
    damaged(path, os.path.getsize(path) - 6)
    assert list(tfs.RecordReader(path)) == RECORDS  # the records are what the index tells
    assert not tfs.verify(path).ok


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    path = written(tmp_path)
    tfs.build_index(path)
    opened = tfs.open(path)
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    with pytest.raises((tfs.TruncatedRecordError, OSError)):
        list(tfs.RecordReader(opened))


@pytest.mark.parametrize("size", [5, 1000, 500_000])
def test_what_is_cut_or_damaged_cannot_be_indexed(tmp_path: Path, size: int) -> None:
    data = packed(RAW, 31)
    (tmp_path / "cut.gz").write_bytes(data[:size])
    with pytest.raises(tfs.TruncatedRecordError):
        tfs.build_index(str(tmp_path / "cut.gz"))
    (tmp_path / "bad.gz").write_bytes(data[:size] + b"\xff" * 40 + data[size + 40 :])
    with pytest.raises(tfs.DataLossError):
        tfs.build_index(str(tmp_path / "bad.gz"))
    (tmp_path / "text.gz").write_bytes(packed(b"a text, and no records" * size, 31))
    with pytest.raises(tfs.CorruptRecordError):
        tfs.build_index(str(tmp_path / "text.gz"))
    assert sorted(os.listdir(tmp_path)) == ["bad.gz", "cut.gz", "text.gz"]


def test_zstd_says_why_not(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "a.zst").write_bytes(zstandard.compress(RAW))
    with pytest.raises(ValueError, match="ZSTD stream, inside of which no decoder can begin"):
        tfs.build_index(str(tmp_path / "a.zst"))


def test_files_of_two_compressions_are_no_dataset(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "b").write_bytes(RAW)
    with pytest.raises(ValueError, match="one compression"):
        tfs.build_index([str(tmp_path / "a.gz"), str(tmp_path / "b")])


@pytest.mark.parametrize("records", [[], [b""], [b"x"]], ids=["none", "empty", "one"])
def test_tiny_files(tmp_path: Path, records: list[bytes]) -> None:
    (tmp_path / "a.gz").write_bytes(many_members(framed(records)))
    path = str(tmp_path / "a.gz")
    assert tfs.build_index(path).records == len(records)
    assert tfs.RecordSource(path)[:] == records
    assert list(tfs.RecordReader(path).shuffle(1)) == records


# The first pass


def test_the_first_pass_writes_the_index(tmp_path: Path) -> None:
    names = [written(tmp_path), written(tmp_path, "ZLIB level 6", "b")]
    reader = tfs.RecordReader(names, build_index="on_read")
    assert list(reader) == RECORDS * 2
    assert sorted(os.listdir(tmp_path)) == ["_a.gz.checkpoints", "_b.checkpoints", "a.gz", "b"]
    assert reader.dataset.has_blocks
    assert list(reader) == RECORDS * 2
    shuffled = list(tfs.RecordReader(names, build_index="on_read").shuffle(1))
    assert shuffled != RECORDS * 2
    assert sorted(shuffled) == sorted(RECORDS * 2)


@pytest.mark.parametrize("shuffles", [False, True])
def test_a_state_of_the_first_epoch_holds_when_there_is_an_index(
    tmp_path: Path, shuffles: bool
) -> None:
    names = [written(tmp_path), written(tmp_path, "ZLIB level 6", "b")]

    def opened() -> tfs.RecordReader:
        reader = tfs.RecordReader(names, build_index="on_read")
        return reader.shuffle(5) if shuffles else reader

    reader = opened()
    given = list(islice(reader, 700))
    state = json.loads(json.dumps(reader.state()))
    rest, second = list(reader), list(reader)
    assert sorted(given + rest) == sorted(RECORDS * 2)

    other = opened()
    other.restore(state)
    assert next(iter(other)) == rest[0]
    other = pickle.loads(pickle.dumps(other))
    assert list(other) == rest[1:]
    assert list(other) == second
    other.restore(state)
    assert list(other) == rest


def test_a_pass_that_ends_early_writes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    with tfs.RecordReader(path, build_index="on_read") as reader:
        next(iter(reader))
    assert os.listdir(tmp_path) == ["a.gz"]


def test_an_index_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: Any) -> None:
    path = written(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "denied", path)

    monkeypatch.setattr(type(open_store(path)[0]), "open_output", refuse)
    reader = tfs.RecordReader(path, build_index="on_read")
    with pytest.warns(RuntimeWarning, match="pass index_dir="):
        assert list(reader) == RECORDS
    assert not reader.dataset.has_blocks


def test_damage_in_the_first_pass_comes_behind_the_good_records(tmp_path: Path) -> None:
    path = written(tmp_path)
    damaged(path, os.path.getsize(path) // 2)
    plain: list[bytes] = []
    found: list[bytes] = []
    with pytest.raises(tfs.DataLossError) as expected:
        plain.extend(tfs.RecordReader(path))
    reader = iter(tfs.RecordReader(path, build_index="on_read"))
    with pytest.raises(tfs.DataLossError) as raised:
        while True:
            found.append(next(reader))
    assert len(found) >= len(plain) // 2
    assert found == RECORDS[: len(found)]
    assert type(raised.value) is type(expected.value)
    assert os.listdir(tmp_path) == ["a.gz"]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(ValueError, match="shares"):
        tfs.RecordReader(path, build_index="on_read").shard(0, 2)
    with pytest.raises(ValueError, match="on_corrupt"):
        tfs.RecordReader(path, build_index="on_read", on_corrupt="skip")
    with pytest.raises(ValueError, match="on_read"):
        tfs.RecordReader(path, build_index="always")  # type: ignore[arg-type]
    with open(path, "rb") as file, pytest.raises(ValueError, match="file object"):
        tfs.RecordReader(file, build_index="on_read")
    with pytest.raises(TypeError, match="index_dir"):
        tfs.RecordSource(path, index_dir=3)  # type: ignore[arg-type]


def test_a_header_whose_checksum_is_wrong_cannot_be_indexed(tmp_path: Path) -> None:
    data = packed(RAW, 31)
    head = data[:3] + b"\2" + data[4:10]
    crc = zlib.crc32(head) & 0xFFFF
    path = tmp_path / "a.gz"
    path.write_bytes(head + crc.to_bytes(2, "little") + data[10:])
    assert tfs.build_index(str(path)).records == len(RECORDS)
    other = tmp_path / "b.gz"
    other.write_bytes(head + (crc ^ 1).to_bytes(2, "little") + data[10:])
    for read in (tfs.build_index, lambda url: list(tfs.RecordReader(url))):
        with pytest.raises(tfs.CorruptRecordError, match="data do not decode"):
            read(str(other))
