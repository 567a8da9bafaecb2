"""Blocks by number: what engines read that split a task while it runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tfio_store.read.fetch import BlockRange

RECORDS = [b"%05d" % i * (i % 40) for i in range(2000)]


def blocks_of(folder: Path, codec: str | None) -> BlockRange:
    url = str(folder / "t")
    with tfs.ShardedWriter(url, num_shards=2, compression=codec, block_bytes=4096) as writer:
        for record in RECORDS:
            writer.write(record)
    (part,) = tfs.partitions(url)
    return BlockRange(part.dataset)


@pytest.fixture(scope="module", params=[None, "GZIP", "ZLIB", "ZSTD"])
def blocks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BlockRange:
    if request.param == "ZSTD":
        pytest.importorskip("zstandard")
    return blocks_of(tmp_path_factory.mktemp("blocks"), request.param)


@settings(max_examples=20)
@given(data=st.data())
def test_ranges_have_each_record_once(blocks: BlockRange, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(blocks)), max_size=4))
    found: list[bytes] = []
    for start, stop in pairwise([0, *sorted(cuts), len(blocks)]):
        for batch in blocks.batches(start, stop):
            assert start <= batch.block < stop
            found += batch.records
    assert sorted(found) == sorted(RECORDS)


def test_a_batch_tells_its_block_and_its_file(tmp_path: Path) -> None:
    blocks = blocks_of(tmp_path, "GZIP")
    found = list(blocks.batches(0, len(blocks)))
    assert [batch.block for batch in found] == list(range(len(blocks)))
    names = [batch.url.rpartition("/")[2] for batch in found]
    assert sorted(set(names)) == ["t-00000-of-00002.tfrecord", "t-00001-of-00002.tfrecord"]
    assert names == sorted(names)


def test_a_file_without_an_index_is_one_block(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed(RECORDS))
    (part,) = tfs.partitions(str(tmp_path / "f"))
    blocks = BlockRange(part.dataset)
    assert len(blocks) == 1
    assert [record for batch in blocks.batches(0, 1) for record in batch.records] == RECORDS


def test_damage_is_told_where_it_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(flipped(framed(RECORDS), -5))
    (part,) = tfs.partitions(str(tmp_path / "f"))
    with pytest.raises(tfs.CorruptRecordError):
        list(BlockRange(part.dataset).batches(0, 1))
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged region"):
        found = list(BlockRange(part.dataset, on_corrupt="skip").batches(0, 1))
    assert sum(len(batch.records) for batch in found) == len(RECORDS) - 1
