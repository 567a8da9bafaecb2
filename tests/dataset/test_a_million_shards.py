"""A dataset of a million shards and a billion blocks: what is read of it, and what is kept."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.counted import Counted
from tests.support.million import BLOCKS, record, write_many
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
