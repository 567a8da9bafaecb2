"""Cuts datasets at record boundaries. A part is a `Dataset` as any other, only shorter.

Whole blocks stay as they are. A block at the end of a part that is cut stays whole on the store:
whoever reads it decodes and checks all of it, and drops the records beside the part's. Where the
index tells the places of a raw shard's records, the block is cut at its bytes instead, and nothing
is read in vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Dataset, Shard

__all__ = ["cut_shard", "cut_table", "record_counts", "shards_between"]

Int64Array: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
StartsArray: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint32]]"


def cut_table(table: BlockTable, first: int, stop: int) -> BlockTable:
    """Records ``first:stop`` of those that a table tells of. None of them are in no block."""
    begin = int(np.searchsorted(table.records, first, side="right")) - 1
    if first == stop:
        return _without_blocks(table, begin)
    end = int(np.searchsorted(table.records, stop, side="left"))
    before = first - int(table.records[begin]) + (table.before if begin == 0 else 0)
    behind = int(table.records[end]) - stop + (table.behind if end == len(table) else 0)
    blocks = slice(begin, end + 1)
    sums = None if table.sums is None else table.sums[blocks]
    records = np.clip(table.records[blocks], first, stop) - first
    if table.starts is not None:
        offsets, starts = _cut_at_bytes(table, first, stop, begin, end)
        crcs = None if table.crcs is None else table.crcs[first:stop].copy()
        if sums is not None:
            ends = table.sum_before(first), table.sum_before(stop)
            sums = None if None in ends else np.array([ends[0], *sums[1:-1], ends[1]], np.uint32)
        return BlockTable(offsets, offsets, records, starts, whole=False, sums=sums, crcs=crcs)
    offsets = table.offsets[blocks]
    same = table.raw_offsets is table.offsets
    raw = offsets if same else table.raw_offsets[blocks]
    return BlockTable(offsets, raw, records, None, before, behind, whole=False, sums=sums)


def _without_blocks(table: BlockTable, at: int) -> BlockTable:
    """The table of no records, which begins where block ``at`` does."""
    offsets, same = table.offsets[at : at + 1], table.raw_offsets is table.offsets
    return BlockTable(
        offsets,
        offsets if same else table.raw_offsets[at : at + 1],
        np.zeros(1, np.int64),
        starts=None if table.starts is None else table.starts[:0],
        whole=False,
        sums=None if table.sums is None else table.sums[at : at + 1],
        crcs=None if table.crcs is None else table.crcs[:0],
    )


def _cut_at_bytes(
    table: BlockTable, first: int, stop: int, begin: int, end: int
) -> tuple[Int64Array, StartsArray]:
    """The offsets and the starts of records ``first:stop``, which blocks ``begin:end`` hold."""
    assert table.starts is not None
    offsets, starts = table.offsets[begin : end + 1].copy(), table.starts[first:stop].copy()
    ahead = table.starts[first]
    in_first = int(min(table.records[begin + 1], stop)) - first
    starts[:in_first] -= ahead
    if stop < table.records[end]:
        offsets[-1] = table.offsets[end - 1] + int(table.starts[stop])
    offsets[0] += int(ahead)
    return offsets, starts


def cut_shard(shard: Shard, first: int, stop: int) -> Shard:
    """Records ``first:stop`` of a shard, the blocks of which are known unless that is all of it."""
    if (first, stop) == (0, shard.records):
        return shard
    if shard.blocks is None:
        raise ValueError(
            f"{shard.url}: is one {shard.compression} stream, which cannot be cut between records; "
            "copy it with tfio_store.copy(), which compresses in blocks"
        )
    return shard.known(blocks=cut_table(shard.blocks, first, stop), records=stop - first)


def record_counts(dataset: Dataset) -> Int64Array:
    """int64 [n_shards]: the records of each shard. ValueError names one of which nobody knows."""
    counts = []
    for shard in dataset.shards:
        if shard.records is None:
            raise ValueError(
                f"{shard.url}: is one {shard.compression} stream, whose records nobody has "
                "counted, so they have no numbers; copy it with tfio_store.copy(), which writes "
                "blocks and an index"
            )
        counts.append(shard.records)
    return np.array(counts, np.int64)


def shards_between(dataset: Dataset, start: int, stop: int) -> Iterator[Shard]:
    """The shards that hold records ``start:stop`` of a dataset, the first and the last one cut."""
    ends = np.cumsum(record_counts(dataset))
    before = 0
    for shard, end in zip(dataset.shards, ends.tolist(), strict=True):
        if before < stop and start < end:
            yield cut_shard(shard, max(start - before, 0), min(stop, end) - before)
        before = end
