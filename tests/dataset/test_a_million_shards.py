"""A dataset of a million shards and a billion blocks: what is read of it, and what is kept."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
import tfio_store.dataset.pages as pages_of_lists
from tests.support.counted import Counted
from tests.support.million import BLOCKS, record, write_many
from tests.support.rounds import Rounds
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.shard_page import PAGE_SHARDS
from tfio_store.storage import open_store

MIB = 1 << 20


@pytest.fixture(scope="module", params=[5, 489], ids=["10,240", "1,001,472"])
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, int]:
    """A dataset, and how many shards it has."""
    return write_many(tmp_path_factory.mktemp("many"), request.param), request.param * PAGE_SHARDS


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(open_store("/")[0], monkeypatch)


def test_the_root_is_small(many: tuple[str, int]) -> None:
    url, shards = many
    root = Path(url).parent / "_train.manifest.json"
    assert root.stat().st_size < 1000 + 60 * shards / 1000 < MIB


def test_opening_reads_the_root_alone(many: tuple[str, int], counted: Counted) -> None:
    url, shards = many
    source = tfs.RecordSource(url)
    assert len(source) == shards * BLOCKS
    assert len(source.dataset.shards) == shards
    assert source.dataset.nbytes == shards * BLOCKS * 20
    reader = tfs.RecordReader(url)
    assert len(pickle.dumps(reader)) < MIB
    assert counted.ranges == []


def test_a_random_record_takes_two_requests_more(many: tuple[str, int], counted: Counted) -> None:
    url, shards = many
    source = tfs.RecordSource(url)
    for number in (0, shards * BLOCKS - 1, shards * BLOCKS // 2 + 123):
        counted.clear()
        assert source[number] == record(number % BLOCKS)
        assert len(counted.ranges) == 3  # page, table, block
        assert counted.nbytes < MIB // 2
    counted.clear()
    assert source[shards * BLOCKS - 2] == record(BLOCKS - 2)
    assert len(counted.ranges) == 1  # of the same shard


def test_a_list_of_records_fetches_what_it_needs(many: tuple[str, int], counted: Counted) -> None:
    url, shards = many
    numbers = np.random.default_rng(1).integers(0, shards * BLOCKS, 20).tolist()
    source = tfs.RecordSource(url)
    assert source[numbers] == [record(number % BLOCKS) for number in numbers]
    assert len(counted.ranges) <= 3 * len(numbers)


def test_a_share_reads_what_it_begins_with(many: tuple[str, int], counted: Counted) -> None:
    url, _ = many
    reader = tfs.RecordReader(url, memory_budget=MIB).shard(7, 1000)
    batches = iter(reader.batches())
    assert list(next(batches)) == [record(7)]
    assert list(next(batches)) == [record(7)]
    assert counted.nbytes < 4 * MIB
    reader.close()


def test_an_open_dataset_takes_little_memory(many: tuple[str, int]) -> None:
    url, shards = many
    tracemalloc.start()
    try:
        source = tfs.RecordSource(url, cache_bytes=0)
        for number in range(0, len(source), len(source) // 50):
            source[number]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < (5 if shards < 100_000 else 20) * MIB


def test_what_is_no_record_is_refused(many: tuple[str, int]) -> None:
    source = tfs.RecordSource(many[0])
    for wrong in (len(source), -len(source) - 1):
        with pytest.raises(IndexError):
            source[wrong]
    assert source[-1] == record(BLOCKS - 1)


# Requests that follow each other, from a store that is as far away as a bucket


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(open_store("/")[0], monkeypatch)


def test_opening_takes_one_round(many: tuple[str, int], rounds: Rounds) -> None:
    url, shards = many
    assert len(tfs.RecordSource(url)) == shards * BLOCKS
    assert rounds.now == 1
    rounds.clear()
    assert tfs.RecordReader(url).dataset.num_records == shards * BLOCKS
    assert rounds.now == 1


def test_the_rounds_to_a_random_record(many: tuple[str, int], rounds: Rounds) -> None:
    url, shards = many
    source = tfs.RecordSource(url)
    for shard, more in ((0, 3), (1, 2), (shards - 1, 3), (shards - 2, 2), (0, 1), (shards - 1, 1)):
        rounds.clear()
        number = shard * BLOCKS + shard % 7 + 500 * (more == 1)
        assert source[number] == record(number % BLOCKS)
        assert rounds.now == more  # the page and the table, as far as they are not kept; the block


@pytest.mark.parametrize("count", [2, 1000])
def test_the_rounds_to_the_first_batch_of_a_share(
    many: tuple[str, int], rounds: Rounds, count: int
) -> None:
    with tfs.RecordReader(many[0]).shard(1, count) as reader:
        assert next(reader.batches())[0] == record(1)
        assert rounds.now == 4  # the manifest, a page, tables, blocks


def test_tables_that_nobody_came_for_make_room(
    many: tuple[str, int], counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tfs.RecordSource(many[0]).dataset.shards
    assert isinstance(listed, ListedShards)
    monkeypatch.setattr(pages_of_lists, "_TABLES_BEGUN", 40 * listed.listed(0).nbytes)
    for first in range(0, 200, 50):
        counted.clear()
        listed.begin_tables(range(first, first + 30))
        assert len(counted.ranges) == 30
        list(listed.tables(range(first, first + 10)))
        assert len(counted.ranges) == 30


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_the_numbers_of_a_share_take_no_memory(many: tuple[str, int], count: int) -> None:
    with tfs.RecordReader(many[0], memory_budget=MIB).shard(count - 1, count) as reader:
        tracemalloc.start()
        try:
            assert list(next(reader.batches())) == [record(count - 1)]
            state = reader.state()
            reader.restore(state)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10 * MIB


def test_an_append_costs_the_same_at_every_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(open_store("/")[0], monkeypatch)
    costs: list[list[tuple[int, int]]] = []
    for pages in (5, 489):
        folder = tmp_path / str(pages)
        folder.mkdir()
        url = write_many(folder, pages)
        costs.append([])
        for _ in range(3):  # onto a full page, and then onto one that is not
            rounds.clear()
            with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
                writer.write(b"new")
            costs[-1].append((rounds.requests, rounds.nbytes))
            assert writer.manifest.records > pages * PAGE_SHARDS * BLOCKS
        assert tfs.RecordSource(url)[-1] == b"new"
    small, large = costs
    root = (tmp_path / "489" / "_train.manifest.json").stat().st_size
    assert [requests for requests, _ in small] == [requests for requests, _ in large]
    # some pages too, whose names tell whether patterns find the shards before these
    assert all(nbytes < MIB // 4 for _, nbytes in small)
    # the root, which tells of each page in 60 bytes, there and back a few times
    for (_, less), (_, more) in zip(small, large, strict=True):
        assert more < less + 12 * root < 3 * MIB // 4


def test_a_slice_asks_for_what_its_ends_need(many: tuple[str, int], counted: Counted) -> None:
    url, shards = many
    first = shards * BLOCKS // 2 + 123
    source = tfs.RecordSource(tfs.slice(url, (first, -7)))
    assert len(source) == shards * BLOCKS - 7 - first
    assert len(counted.ranges) <= 4  # two pages and two tables
    assert source[0] == record(first % BLOCKS)
    assert source[-1] == record(BLOCKS - 8)
    assert len(counted.ranges) <= 6
    reader = tfs.RecordReader(tfs.slice(url, (first, first + 2000)), memory_budget=MIB)
    expected = [record((first + i) % BLOCKS) for i in range(2000)]
    assert list(pickle.loads(pickle.dumps(reader))) == expected
    state = reader.state()
    with pytest.raises(ValueError, match="taken of another source"):
        tfs.RecordReader(tfs.slice(url, (first, first + 2001))).restore(state)


def test_partitions_take_the_pages_and_pickle_small(
    many: tuple[str, int], counted: Counted
) -> None:
    url, shards = many
    parts = tfs.partitions(url, num_partitions=64)
    assert len(counted.ranges) <= shards / PAGE_SHARDS + 2 * 64
    assert len(parts) == 64
    sizes = [part.num_records or 0 for part in parts]
    assert sum(sizes) == shards * BLOCKS
    assert max(sizes) < 1.2 * min(sizes)
    assert sum(part.nbytes for part in parts) == shards * BLOCKS * 20
    assert max(len(pickle.dumps(part)) for part in parts) < 4096
    counted.clear()
    part = pickle.loads(pickle.dumps(parts[40]))
    assert part.first_record == sum(sizes[:40])
    assert next(iter(part.reader(memory_budget=MIB))) == record(part.first_record % BLOCKS)
    assert counted.nbytes < 4 * MIB
