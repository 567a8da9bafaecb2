"""The partitions of a long dataset. Of its block tables only those are read in which a cut lies."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.balance import in_turn
from tfio_store.dataset.model import LazyShards
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.dataset.places import Places

__all__ = ["long_parts"]

Int64Array = npt.NDArray[np.int64]

_NEAR = 16
"""A cut moves to the end of a shard that is nearer than this part of a partition."""


def long_parts(
    shards: LazyShards, target_bytes: int, count: int | None
) -> Iterator[tuple[LazyShards, int]]:
    """The shards of each partition, and the number of its first record.

    All pages of the list are read, once. Blocks of one shard are taken for equally long.
    """
    paged = shards.paged
    nbytes, records, blocks = paged.columns("nbytes", "records", "blocks")
    total = int(blocks.sum())
    wanted = math.ceil(int(nbytes.sum()) / target_bytes) if count is None else count
    parts = min(wanted, total)
    if not parts:
        return
    cuts = in_turn(_cuts(nbytes, blocks, parts), total)
    for places in _places(paged, cuts, nbytes, records, blocks):
        if places.records[0] < places.records[1]:
            yield shards.part_at(places), places.records[0]


def _cuts(nbytes: Int64Array, blocks: Int64Array, parts: int) -> Int64Array:
    """int64 [parts - 1]: the blocks before which the cuts lie."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), parts + 1)[1:-1]
    shard = np.searchsorted(ends, wanted)
    share = (wanted - (ends[shard] - nbytes[shard])) / nbytes[shard]
    near = ends[-1] / parts / _NEAR / nbytes[shard]
    share = np.where(share < near, 0, np.where(share > 1 - near, 1, share))
    before = np.cumsum(blocks) - blocks
    found: Int64Array = before[shard] + np.rint(share * blocks[shard]).astype(np.int64)
    return found


def _places(
    paged: PagedShards,
    cuts: Int64Array,
    nbytes: Int64Array,
    records: Int64Array,
    blocks: Int64Array,
) -> Iterator[Places]:
    """Where the runs of blocks between neighbouring ``cuts`` lie."""
    ends, bytes_end = np.cumsum(blocks), np.cumsum(nbytes)
    first = np.searchsorted(ends, cuts[:-1], side="right")
    last = np.searchsorted(ends, cuts[1:] - 1, side="right")
    inside = cuts[:-1] - (ends[first] - blocks[first])
    record = (np.cumsum(records) - records)[first]
    byte = (bytes_end - nbytes)[first]
    split = np.unique(first[inside > 0]).tolist()
    for shard, table in zip(split, paged.tables(split), strict=True):
        mine = slice(*np.searchsorted(first, [shard, shard + 1]))
        record[mine] += table.records[inside[mine]]
        byte[mine] += table.offsets[inside[mine]] - table.offsets[0]
    record, inside = np.append(record, records.sum()), np.append(inside, 0)
    sizes = np.minimum(np.append(byte[1:], bytes_end[-1]), bytes_end[last]) - byte
    is_cut = (inside[:-1] > 0) | (inside[1:] > 0)
    columns = first, last + 1, record[:-1], record[1:], cuts[:-1], cuts[1:], sizes, is_cut
    for begin, end, start, stop, block, behind, size, cut in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield Places((begin, end), (start, stop), (block, behind), size, cut)
