"""Records that are read alone: the bytes that it takes, and what is in the way of it."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import flipped, framed
from tests.support.indexes import put_dataset
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.model import Block
from tfio_store.read.decode import Decoding
from tfio_store.read.plan import Units
from tfio_store.read.spans import Spans
from tfio_store.storage import open_store
from tfio_store.storage.cache.memory import MemoryCache
from tfio_store.storage.read_ahead import Means

FRAMING = 16


@pytest.fixture
def items() -> list[bytes]:
    rng = random.Random(5)
    return [b"%d:" % i + rng.randbytes(rng.randrange(6000)) for i in range(1500)]


def written(place: Place, items: list[bytes], **options: Any) -> str:
    url = place.url("train")
    with tfs.ShardedWriter(
        url, num_shards=1, storage_options=place.storage_options, **options
    ) as writer:
        writer.write_batch(items)
    return url


def opened(place: Place, url: str, **options: Any) -> tfs.RecordSource:
    return tfs.RecordSource(url, storage_options=place.storage_options, **options)


def walked(place: Place, items: list[bytes]) -> str:
    return place.put("walked", framed(items))


@pytest.mark.parametrize("write", [written, walked])
def test_one_record_costs_its_bytes(
    place: Place,
    items: list[bytes],
    write: Callable[[Place, list[bytes]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = opened(place, write(place, items))
    counted = Counted(place.open()[0], monkeypatch)
    for i in (700, 3, 1499, 0):
        counted.clear()
        assert found[i] == items[i]
        assert counted.nbytes == len(items[i]) + FRAMING


def test_a_list_costs_little_more_than_its_bytes(
    place: Place, items: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(place, written(place, items), cache_bytes=0)
    counted = Counted(place.open()[0], monkeypatch)
    rng = random.Random(1)
    for count in (2, 30, 200, 800):
        numbers = [rng.randrange(1500) for _ in range(count)]
        counted.clear()
        assert found[numbers] == [items[i] for i in numbers]
        wanted = sum(len(items[i]) + FRAMING for i in set(numbers))
        assert counted.nbytes <= 1.25 * wanted
        assert len(counted.ranges) <= len(set(numbers))


@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_list_of_any_shards(tmp_path: Path, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.lists(st.integers(0, 30_000), max_size=20), max_size=4))
    rng = random.Random(2)
    shards = [[rng.randbytes(size) for size in shard] for shard in sizes]
    items = [record for shard in shards for record in shard]
    for i, shard in enumerate(shards):
        (tmp_path / f"s{i}").write_bytes(framed(shard))
    keep = data.draw(st.sampled_from([None, True, False]))
    files = [str(tmp_path / f"s{i}") for i in range(len(shards))]
    for name in tmp_path.glob("_*"):
        name.unlink()
    if files:
        tfs.build_index(files, str(tmp_path / "all"), record_positions=keep)
    found = tfs.RecordSource(str(tmp_path / "all") if files else [])
    asked = st.lists(st.integers(0, max(0, len(items) - 1)), max_size=12 if items else 0)
    for _ in range(3):
        numbers = data.draw(asked)
        assert found[numbers] == [items[i] for i in numbers]
    assert found[:] == items


def test_the_narrowest_gaps_are_read_over(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # frames of 10,000 but for two narrow ones between wanted records
    sizes = [10_000, 100, 10_000, 11_000, 10_000, 500, 10_000]
    url = memory.put("x", framed([bytes(size - FRAMING) for size in sizes]))
    found = tfs.RecordSource(url)
    counted = Counted(memory.open()[0], monkeypatch)
    found[[0, 2, 4, 6]]
    bounds = np.cumsum([0, *sizes])
    assert counted.ranges == [(bounds[0], bounds[3]), (bounds[4], bounds[7])]
    assert counted.nbytes <= 1.25 * 40_000


def test_local_records_are_read_without_what_is_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is opened once for all of them, and frames that touch are one piece."""
    items = [bytes([i]) * 10_000 for i in range(200)]
    (tmp_path / "x").write_bytes(framed(items))
    found = tfs.RecordSource(str(tmp_path / "x"))
    counted = Counted(open_store(tmp_path / "x")[0], monkeypatch)
    assert found[[9, 2, 3, 100, 9]] == [items[i] for i in (9, 2, 3, 100, 9)]
    frames = [(10_016 * first, 10_016 * stop) for first, stop in ((2, 4), (9, 10), (100, 101))]
    assert counted.ranges == frames


@pytest.mark.parametrize("how", ["damaged", "replaced", "cut", "cold"])
def test_what_is_not_as_it_should_be_goes_the_other_way(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [bytes([i]) * 10_000 for i in range(200)]
    path = tmp_path / "x"
    path.write_bytes(framed(items))
    found = tfs.RecordSource(str(path))
    before = os.stat(path)
    if how == "damaged":
        with open(path, "r+b") as file:
            file.seek(10_016 * 3 + 500)
            file.write(b"?")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(tfs.CorruptRecordError) as caught:
            found[[1, 3, 9]]
        assert caught.value.offset == 10_016 * 3
        return
    if how == "cold":
        monkeypatch.setattr("tfio_store.storage.local.pieces_cached", lambda *_, **__: None)
        assert found[[1, 3, 9]] == [items[1], items[3], items[9]]
        return
    (tmp_path / "y").write_bytes(framed(items[::-1] if how == "replaced" else items[:5]))
    os.replace(tmp_path / "y", path)
    with pytest.raises(OSError, match="replaced"):
        found[[1, 3, 9]]


def test_a_loop_reads_blocks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [bytes([i % 251]) * 10_000 for i in range(500)]
    found = opened(place, written(place, items))
    counted = Counted(place.open()[0], monkeypatch)
    assert list(found) == items
    assert len(counted.ranges) <= 1 + 6  # the first record, and the blocks
    counted.clear()
    assert [record for i in range(0, 500, 20) for record in found[i : i + 20]] == items
    assert not counted.ranges


def test_what_was_read_alone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [bytes([i]) * 10_000 for i in range(200)]
    (tmp_path / "x").write_bytes(framed(items))
    found = tfs.RecordSource(str(tmp_path / "x"))
    counted = Counted(open_store(tmp_path / "x")[0], monkeypatch)
    for _ in range(3):
        assert found[[150, 7]] == [items[150], items[7]]
    assert len(counted.ranges) == 2
    no_room = tfs.RecordSource(str(tmp_path / "x"), cache_bytes=0)
    counted.clear()
    assert [no_room[9], no_room[9]] == [items[9], items[9]]
    assert len(counted.ranges) == 2


def test_a_whole_slice_of_blocks_is_kept_as_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [bytes([i % 251]) * 10_000 for i in range(500)]
    (tmp_path / "x").write_bytes(framed(items))
    found = tfs.RecordSource(str(tmp_path / "x"))
    counted = Counted(open_store(tmp_path / "x")[0], monkeypatch)
    assert found[50:450] == items[50:450]
    assert counted.nbytes == 400 * 10_016
    counted.clear()
    assert [found[i] for i in range(449, 50, -1)] == items[449:50:-1]
    assert not counted.ranges


class TestWhenPositionsAreKept:
    @pytest.mark.parametrize(
        ("size", "asked", "kept"),
        [(2000, None, True), (100, None, False), (100, True, True), (2000, False, False)],
    )
    def test_by_size_or_as_asked(
        self, tmp_path: Path, size: int, asked: bool | None, kept: bool
    ) -> None:
        options: dict[str, Any] = {"num_shards": 2, "record_positions": asked}
        with tfs.ShardedWriter(str(tmp_path / "train"), **options) as writer:
            writer.write_batch([bytes(size)] * 3000)
        tables = [shard.blocks for shard in writer.manifest.shards]
        assert all(table is not None and (table.starts is not None) == kept for table in tables)
        files = str(tmp_path / "train-*")
        built = tfs.build_index(files, str(tmp_path / "built"), record_positions=asked)
        if asked is not None:
            assert all((s.blocks and s.blocks.starts is not None) == kept for s in built.shards)
        assert tfs.RecordSource(str(tmp_path / "built"))[-1] == bytes(size)

    def test_jobs_appends_and_overwrites(self, place: Place, items: list[bytes]) -> None:
        options: dict[str, Any] = {"storage_options": place.storage_options}
        with tfs.WriteJob(place.url("ds"), num_shards=2, **options) as job:
            infos = [job.write_shard(i, items[i::2]) for i in range(2)]
            manifest = job.commit(infos)
        assert [s.blocks is not None and s.blocks.starts is not None for s in manifest.shards] == [
            True,
            True,
        ]
        for keep in (False, True, None):
            with tfs.ShardedWriter(
                place.url("ds"), num_shards=1, if_exists="append", record_positions=keep, **options
            ) as writer:
                writer.write_batch(items[:100])
        found = opened(place, place.url("ds"))
        kept = [s.blocks is not None and s.blocks.starts is not None for s in found.dataset.shards]
        assert kept == [True, True, False, True, True]
        expected = items[::2] + items[1::2] + 3 * items[:100]
        assert found[[5, 900, 1501, 1650, 1799]] == [
            expected[i] for i in (5, 900, 1501, 1650, 1799)
        ]

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        url = str(tmp_path / "x")
        with pytest.raises(ValueError, match="block_bytes"):
            tfs.ShardedWriter(url, num_shards=1, compression="GZIP", record_positions=True)
        with pytest.raises(TypeError, match="record_positions"):
            tfs.WriteJob(url, num_shards=1, record_positions=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="record_positions"):
            tfs.build_index(url, record_positions="yes")  # type: ignore[arg-type]
        for wrong in (1, 1 << 40, "x", 32 << 20):
            with pytest.raises(ValueError, match="block_bytes"):
                tfs.ShardedWriter(url, num_shards=8, block_bytes=wrong)  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []

    def test_a_walk_forgets_them_where_the_budget_is_small(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(framed([bytes(1200)] * 9000))
        for budget, kept in ((256 << 20, True), (200_000, False)):
            found = tfs.RecordSource(str(tmp_path / "x"), memory_budget=budget)
            (shard,) = found.dataset.shards
            assert (shard.blocks is not None and shard.blocks.starts is not None) == kept
            assert found[8999] == bytes(1200)


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB", None])
def test_blocks_of_a_chosen_size(
    tmp_path: Path, codec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    items = [rng.randbytes(1000) for _ in range(3000)]
    place = Place(str(tmp_path))
    url = written(place, items, compression=codec, block_bytes=16 << 10, record_positions=False)
    found = opened(place, url)
    counted = Counted(place.open()[0], monkeypatch)
    assert found[1234] == items[1234]
    assert counted.nbytes < 40_000
    counted.clear()
    numbers = rng.sample(range(3000), 40)
    assert found[numbers] == [items[i] for i in numbers]
    table = found.dataset.shards[0].blocks
    assert table is not None
    blocks = {int(np.searchsorted(table.records, i, side="right")) - 1 for i in numbers}
    most = sum(int(table.offsets[b + 1] - table.offsets[b]) for b in blocks)
    assert counted.nbytes <= 1.25 * most


class TestDamage:
    def test_of_one_record_concerns_no_other(self, place: Place, items: list[bytes]) -> None:
        url = written(place, items)
        name = "train-00000-of-00001.tfrecord"
        data = bytearray(place.get(name))
        at = sum(len(record) + FRAMING for record in items[:700])
        data[at + 20] ^= 1
        place.put(name, bytes(data))
        found = opened(place, url)
        assert found[[698, 699, 701]] == [items[698], items[699], items[701]]
        with pytest.raises(tfs.CorruptRecordError, match=f"offset {at}"):
            found[700]
        with pytest.raises(tfs.CorruptRecordError, match=f"offset {at}"):
            found[[5, 698, 699, 700]]

    def test_a_file_that_was_cut(self, tmp_path: Path, items: list[bytes]) -> None:
        place = Place(str(tmp_path))
        found = opened(place, written(place, items))
        path = tmp_path / "train-00000-of-00001.tfrecord"
        path.write_bytes(path.read_bytes()[:-3])
        assert found[1498] == items[1498]
        with pytest.raises(tfs.TruncatedRecordError, match="missing"):
            found[1499]

    def test_another_file_in_its_place(self, s3: Place, items: list[bytes]) -> None:
        found = opened(s3, written(s3, items))
        assert found[3] == items[3]
        s3.put("train-00000-of-00001.tfrecord", framed(items[::-1]))
        with pytest.raises(OSError, match="replaced"):
            found[1000]

    def test_a_record_over_the_limit_is_not_fetched(
        self, tmp_path: Path, items: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = Place(str(tmp_path))
        found = opened(place, written(place, items), max_record_bytes=3000)
        long = next(i for i, record in enumerate(items) if len(record) > 3000)
        counted = Counted(place.open()[0], monkeypatch)
        with pytest.raises(tfs.errors.RecordTooLargeError, match="3000"):
            found[long]
        assert not counted.ranges

    def test_faults_are_retried(
        self, s3: Place, items: list[bytes], shaped: Callable[..., Any]
    ) -> None:
        url = written(s3, items)
        proxy = shaped(s3.endpoint, p_503=0.2)
        options = s3.storage_options | {"endpoint_url": proxy.endpoint}
        retry = tfs.Retry(attempts=20, base_delay=0.001, max_delay=0.01)
        found = tfs.RecordSource(url, storage=tfs.Storage(options, retry=retry))
        numbers = random.Random(1).sample(range(1500), 60)
        assert found[numbers] == [items[i] for i in numbers]


@pytest.mark.parametrize("move", [1, -1, 16, 4000])
def test_a_lying_position_is_named(tmp_path: Path, items: list[bytes], move: int) -> None:
    """An index whose checksum holds, and which tells of frames where none are."""
    place = Place(str(tmp_path))
    url = written(place, items)
    found = Folder(*place.open()).manifest("_train.manifest.json")
    assert found is not None
    assert found.manifest is not None
    (shard,) = found.manifest.shards
    assert shard.blocks is not None
    assert shard.blocks.starts is not None
    starts = shard.blocks.starts.copy()
    starts[700] = int(starts[700]) + move
    blocks = dataclasses.replace(shard.blocks, starts=starts)
    lying = (dataclasses.replace(shard, blocks=blocks),)
    put_dataset(url, dataclasses.replace(found.manifest, shards=lying))
    source = opened(place, url)
    if move == 4000:  # the frames cross
        with pytest.raises(tfs.ManifestError):
            source[0]
        return
    for i in (700, 699):
        with pytest.raises((tfs.ManifestError, tfs.DataLossError)):
            source[i]
    assert source[[698, 701]] == [items[698], items[701]]


def test_the_index_is_covered_by_its_checksum(tmp_path: Path, items: list[bytes]) -> None:
    place = Place(str(tmp_path))
    url = written(place, items)
    place.put("_train.index", flipped(place.get("_train.index"), -40))
    with pytest.raises(tfs.ManifestError, match="checksum"):
        opened(place, url)[0]


def test_totals_that_wrap_are_refused(tmp_path: Path) -> None:
    """Differences of such totals are positive in 64 bits, and the totals go down."""
    url, most = f"{tmp_path}/x", 2**63 - 1
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096, record_positions=False) as writer:
        writer.write_batch([bytes([i]) * 3000 for i in range(8)])
    (shard,) = writer.manifest.shards
    table = shard.blocks
    assert table is not None
    for name in ("offsets", "records"):
        totals = getattr(table, name).copy()
        totals[1:4] = most - 10, 20_000 - most, 0
        changed = (
            {"offsets": totals, "raw_offsets": totals} if name == "offsets" else {name: totals}
        )
        lying = dataclasses.replace(table, **changed)
        lies = (dataclasses.replace(shard, blocks=lying),)
        put_dataset(url, dataclasses.replace(writer.manifest, shards=lies))
        with pytest.raises(tfs.ManifestError, match="go down"):
            tfs.RecordSource(url)[0]


def test_planning_costs_as_much_for_each_block(tmp_path: Path) -> None:
    """A request of many small blocks: none of them is looked at again for each that follows."""
    url = f"{tmp_path}/t"
    with tfs.ShardedWriter(url, num_shards=1, compression="GZIP", block_bytes=4096) as writer:
        writer.write_batch([bytes(4000)] * 3000)
    units = Units.of(tfs.RecordSource(url).dataset, streams=True)
    looks = 0

    class Counting(Units):
        def __getitem__(self, number: int) -> Any:
            nonlocal looks
            shard, block = super().__getitem__(number)
            return shard, None if block is None else Looked(*dataclasses.astuple(block))

    @dataclasses.dataclass(frozen=True)
    class Looked(Block):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "stop"
            return super().__getattribute__(name)

    counting = Counting(units.dataset, streams=True)
    spans = Spans(counting, Decoding(True, 1 << 20), Means(256 << 20, threads=1))
    assert sum(1 for _ in spans.fetches(np.arange(len(units)))) < 10
    assert looks < 20 * len(units)


def test_the_cache_holds_no_more_than_it_counts(tmp_path: Path) -> None:
    """A block is cut from what its request brought, and must not keep all of that."""
    url = f"{tmp_path}/t"
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096, record_positions=False) as writer:
        writer.write_batch([bytes(1000)] * 2000)
    answer = bytearray(8 << 20)
    batch = tfs.RecordBatch(memoryview(answer)[:4], np.array([0]), np.array([4]))
    kept = tfs.RecordSource(url)._alone(0, batch)
    del batch
    answer.append(0)  # BufferError while anybody holds it
    assert kept[0] == bytes(4)


def test_a_forked_child_has_a_cache_of_its_own() -> None:
    cache = MemoryCache(1 << 20)
    cache.put(1, b"1", 1)
    with cache._kept.here.lock:
        child = os.fork()
        if not child:
            os._exit(0 if cache.get(1) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get(1) == b"1"
