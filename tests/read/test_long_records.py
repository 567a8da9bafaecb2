"""Records of local files that are read straight into their bytes: what holds elsewhere holds."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import random
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tests.support.indexes import put_dataset
from tests.support.long import long_on_pure
from tfio_store.errors import ReplacedError
from tfio_store.records.framing import masked_crc32c, read_records, walk_file

SIZES = [200_000, 1_300_000, 40_000, 0, 700_000, 33_000, 5, 2_000_000]


def made(sizes: list[int], seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(size) for size in sizes]


@pytest.fixture
def items() -> list[bytes]:
    return made(SIZES)


@pytest.fixture
def path(tmp_path: Path, items: list[bytes]) -> str:
    (tmp_path / "long").write_bytes(framed(items))
    return str(tmp_path / "long")


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each call read; so that a test knows which way they came."""
    counts: list[int] = []

    def counted(*args: Any, **options: Any) -> tuple[list[bytes], int, int]:
        found = read_records(*args, **options)
        counts.append(len(found[0]))
        return found

    monkeypatch.setattr("tfio_store.read.long_records.read_records", counted)
    return counts


def test_all_of_them_in_this_way(path: str, items: list[bytes], looked: list[int]) -> None:
    assert list(tfs.RecordReader(path)) == items
    assert sum(looked) == len(items)


def test_other_files_take_the_other_way(
    tmp_path: Path, items: list[bytes], looked: list[int]
) -> None:
    (tmp_path / "short").write_bytes(framed([bytes(1000)] * 3000))
    (tmp_path / "zip").write_bytes(framed([b"1"]))
    with tfs.TFRecordWriter(str(tmp_path / "gz"), "GZIP") as writer:
        writer.write_batch(made([100_000] * 20))
    for name in ("short", "zip", "gz"):
        assert len(list(tfs.RecordReader(str(tmp_path / name)))) in (3000, 1, 20)
    assert len(list(tfs.RecordReader(str(tmp_path / "short"), on_corrupt="skip"))) == 3000
    assert not looked


def test_files_of_every_kind_in_one_reader(tmp_path: Path, looked: list[int]) -> None:
    files = [made([400_000] * 4, 1), made([50] * 40_000, 2), made([400_000] * 4, 3), [b"x"]]
    for i, records in enumerate(files):
        (tmp_path / f"f{i}").write_bytes(framed(records))
    found = tfs.RecordReader(str(tmp_path / "f*"))
    for _ in range(2):  # epochs
        assert list(found) == [record for records in files for record in records]
    assert looked


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sizes_from_any_place_on(tmp_path: Path, data: st.DataObject) -> None:
    size = st.one_of(st.integers(0, 100), st.integers(30_000, 400_000))
    records = made([600_000, *data.draw(st.lists(size, max_size=12)), 500_000])
    (tmp_path / "x").write_bytes(framed(records))
    reader = tfs.RecordReader(str(tmp_path / "x"))
    taken = data.draw(st.integers(0, len(records)))
    assert list(itertools.islice(reader, taken)) == records[:taken]
    state = reader.state()
    again = tfs.RecordReader(str(tmp_path / "x"))
    again.restore(state)
    if data.draw(st.booleans()):
        found = [record for batch in again.batches() for record in batch]
    else:
        found = list(again)
    assert found == records[taken:]
    assert list(pickle.loads(pickle.dumps(reader))) == list(reader) == records[taken:]


def test_records_and_batches_by_turns(path: str, items: list[bytes]) -> None:
    reader = tfs.RecordReader(path)
    found = [next(iter(reader))]
    found += next(reader.batches()).tolist()
    found.append(next(iter(reader)))
    found += [record for batch in reader.batches() for record in batch]
    assert found == items


def test_a_record_that_was_given_out_is_its_holders_alone(path: str) -> None:
    record = next(iter(tfs.RecordReader(path)))
    assert type(record) is bytes
    assert hash(record) == hash(bytes(bytearray(record)))


@long_on_pure
@pytest.mark.parametrize("number", range(len(SIZES)))
@pytest.mark.parametrize("where", ["header", "data", "footer"])
def test_damage_is_named_as_elsewhere(
    path: str, items: list[bytes], number: int, where: str
) -> None:
    start = sum(len(record) + 16 for record in items[:number])
    at = {"header": 3, "data": 12 + len(items[number]) // 2, "footer": 13 + len(items[number])}
    Path(path).write_bytes(flipped(Path(path).read_bytes(), start + at[where]))
    reader = tfs.RecordReader(path)
    records = iter(reader)
    assert list(itertools.islice(records, number)) == items[:number]
    for _ in range(2):
        with pytest.raises(tfs.CorruptRecordError) as caught:
            next(records)
        assert (caught.value.path, caught.value.offset) == (path, start)
    with pytest.raises(tfs.CorruptRecordError) as by_batches:
        list(tfs.RecordReader(path).batches())
    assert str(by_batches.value) == str(caught.value)
    rest = list(tfs.RecordReader(path, on_corrupt=lambda region: None))
    assert rest[:number] == items[:number]
    if where != "header" and items[number]:
        assert len(list(tfs.RecordReader(path, verify=False))) == len(items)


@pytest.mark.parametrize("missing", [1, 4, 5, 2_000_000, 2_000_010, 2_000_016, 2_500_000])
def test_a_cut_file(path: str, items: list[bytes], missing: int) -> None:
    reader = tfs.RecordReader(path)
    os.truncate(path, os.path.getsize(path) - missing)
    with pytest.raises(OSError, match="replaced"):
        list(reader)
    whole, left = 0, os.path.getsize(path)
    while whole < len(items) and left >= len(items[whole]) + 16:
        left -= len(items[whole]) + 16
        whole += 1
    records = iter(tfs.RecordReader(path))
    assert list(itertools.islice(records, whole)) == items[:whole]
    if left:
        with pytest.raises(tfs.TruncatedRecordError):
            next(records)
    else:
        assert list(records) == []


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed(made([300_000] * 20)))
    records = iter(tfs.RecordReader(str(tmp_path / "x")))
    next(records)
    with (tmp_path / "x").open("r+b") as file:
        file.seek(3_000_000)
        file.write(b"other")
    os.utime(tmp_path / "x", ns=(1, 1))  # a clock may be too coarse to show the change
    with pytest.raises(OSError, match="replaced"):
        list(records)


def test_a_length_that_lies_takes_no_memory(tmp_path: Path) -> None:
    length = (1 << 50).to_bytes(8, "little")
    header = length + tfs.masked_crc32c(length).to_bytes(4, "little")
    good = made([600_000] * 2)
    (tmp_path / "x").write_bytes(framed(good) + header + bytes(100))
    records = iter(tfs.RecordReader(str(tmp_path / "x"), max_record_bytes=1 << 60))
    assert [next(records), next(records)] == good
    with pytest.raises(tfs.TruncatedRecordError):
        next(records)
    small = iter(tfs.RecordReader(str(tmp_path / "x"), max_record_bytes=500_000))
    with pytest.raises(tfs.errors.RecordTooLargeError, match="500000"):
        next(small)


def test_a_manifest_that_counts_otherwise(tmp_path: Path, items: list[bytes]) -> None:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=1) as writer:
        writer.write_batch(items)
    assert list(tfs.RecordReader(str(tmp_path / "train"))) == items
    name = tmp_path / writer.manifest.shards[0].name
    other = [*items[:-1], items[-1][:-16_016], bytes(16_000)]  # as long as before
    name.write_bytes(framed(other))
    with pytest.raises(ReplacedError, match="other records than its manifest"):
        list(tfs.RecordReader(str(tmp_path / "train")))


def test_nothing_stays_open(tmp_path: Path, path: str) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        reader = tfs.RecordReader(path)
        next(iter(reader))
        reader.close()
        dropped = iter(tfs.RecordReader(path))
        next(dropped)
        del dropped
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_named_codec_is_not_overlooked(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(framed(made([100_000] * 20)))
    with pytest.raises(tfs.CorruptRecordError):
        list(tfs.RecordReader(str(tmp_path / "raw"), compression="GZIP"))


def test_a_wrong_count_is_told_before_the_next_shard(tmp_path: Path) -> None:
    url = f"{tmp_path}/x"
    with tfs.ShardedWriter(url, num_shards=2, record_positions=False) as writer:
        writer.write_batch([b"a" * 40_000] * 60 + [b"s" * 10] * 100 + [b"a" * 40_000] * 60)
    first, second = (replace(shard, blocks=None) for shard in writer.manifest.shards)
    lying = (replace(first, records=first.records - 1), second)
    put_dataset(url, replace(writer.manifest, shards=lying))
    counts = []
    for records in (iter(tfs.RecordReader(url)), unbatched(tfs.RecordReader(url))):
        counts.append(0)
        with pytest.raises(tfs.ManifestError):
            for _ in records:
                counts[-1] += 1
    assert counts == [110, 110]


def unbatched(reader: tfs.RecordReader) -> Iterator[bytes]:
    for batch in reader.batches():
        yield from batch


def test_a_file_whose_first_records_are_its_shortest(tmp_path: Path) -> None:
    """The places of 256 short records say nothing of 20 GiB of long ones. It takes no disk."""
    lengths = [1] * 256 + [1 << 30] * 20
    with open(tmp_path / "sparse", "wb") as file:
        at = 0
        for length in lengths:
            head = length.to_bytes(8, "little")
            file.seek(at)
            file.write(head + masked_crc32c(head).to_bytes(4, "little"))
            at += length + 16
        file.truncate(at)
    with open(tmp_path / "sparse", "rb") as file:
        limit = resource.getrlimit(resource.RLIMIT_AS)
        used = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limit[1]))
        try:
            offsets, end, fault, _ = walk_file(file.fileno(), at)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limit)
    assert (len(offsets), end, fault) == (len(lengths), at, None)


def test_a_disk_that_fails_is_named(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    reader = tfs.RecordReader(path)
    monkeypatch.setattr(os, "pread", fails)
    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(OSError, match="Input/output error") as caught:
        list(reader)
    assert caught.value.filename == path


def test_a_long_record_before_many_tiny_ones(tmp_path: Path, looked: list[int]) -> None:
    """A list is bounded by its records too, not by their bytes alone."""
    items = [bytes(9000), *[b""] * 200_000]
    (tmp_path / "x").write_bytes(framed(items))
    records = iter(tfs.RecordReader(tmp_path / "x"))
    assert [len(next(records)) for _ in range(2)] == [9000, 0]
    assert sum(looked) <= 1000
    assert list(records) == items[2:]
