"""The partitions of a long dataset. Of its block tables only those are read in which a cut lies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.balance import in_turn
from tfio_store.dataset.model import LazyShards

__all__ = ["long_parts"]

Int64Array = npt.NDArray[np.int64]

_NEAR = 16
"""A cut moves to the end of a shard that is nearer than this part of a partition."""


def long_parts(
    shards: LazyShards, target_bytes: int, count: int | None
) -> Iterator[tuple[LazyShards, int]]:
    """The shards of each partition, and the number of its first record.

    All pages of the list are read. Blocks of one shard are taken for equally long.
    """
    paged = shards.paged
    nbytes, records, blocks = paged.columns("nbytes", "records", "blocks")
    wanted = math.ceil(int(nbytes.sum()) / target_bytes) if count is None else count
    parts = min(wanted, int(blocks.sum()))
    if not parts:
        return
    cuts = in_turn(_cuts(nbytes, blocks, parts), int(blocks.sum()))
    bounds = _records_at(shards, cuts, records, blocks)
    for start, stop in pairwise(bounds):
        if start < stop:
            yield shards.part(start, stop), start


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


def _records_at(
    shards: LazyShards, cuts: Int64Array, records: Int64Array, blocks: Int64Array
) -> list[int]:
    """The number of the first record of these blocks, and of all records."""
    ends = np.cumsum(blocks)
    shard = np.searchsorted(ends, cuts, side="right")
    shard = np.minimum(shard, len(ends) - 1)
    inside = cuts - (ends[shard] - blocks[shard])
    found = (np.cumsum(records) - records)[shard]
    split = np.unique(shard[(inside > 0) & (inside < blocks[shard])]).tolist()
    for number, table in zip(split, shards.paged.tables(split), strict=True):
        mine = shard == number
        found[mine] += table.records[inside[mine]]
    return [*found[:-1].tolist(), int(records.sum())]
