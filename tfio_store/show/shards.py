"""The shards as bars: their sizes, and which are out of the ordinary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.model import Dataset
from tfio_store.show.model import ShardBar
from tfio_store.storage.redaction import redacted

__all__ = ["ShardSizes", "shard_bars", "shard_sizes"]

Int64Array = npt.NDArray[np.int64]

MANY = 5
"""A shard of more than so many times the median is out of the ordinary, and one of less than one
of so many."""

_MOST_BARS = 512
_LEAST_SHARDS = 3


@dataclass(frozen=True, slots=True)
class ShardSizes:
    """Of every shard: int64 arrays [n]; ``records`` is -1 where nobody knows."""

    nbytes: Int64Array
    records: Int64Array

    @property
    def median(self) -> float:
        """Of the bytes of shards that have some."""
        filled = self.nbytes[self.nbytes > 0]
        return float(np.median(filled)) if len(filled) else 0.0

    @property
    def large(self) -> Int64Array:
        """The shards that are much larger than most, the largest first."""
        return self._sorted(self.nbytes > MANY * self.median, -self.nbytes)

    @property
    def small(self) -> Int64Array:
        """The shards that are much smaller than most, but for the last one, which takes the
        rest."""
        small = (self.nbytes > 0) & (self.nbytes * MANY < self.median)
        if len(small):
            small[-1] = False
        return self._sorted(small, self.nbytes)

    @property
    def empty(self) -> Int64Array:
        """The shards without a record. Compressed ones have bytes all the same."""
        return np.flatnonzero((self.nbytes == 0) | (self.records == 0))

    def _sorted(self, odd: npt.NDArray[np.bool_], by: Int64Array) -> Int64Array:
        if len(self.nbytes) < _LEAST_SHARDS:
            return np.zeros(0, np.int64)
        found = np.flatnonzero(odd)
        ordered: Int64Array = found[np.argsort(by[found], kind="stable")]
        return ordered


def shard_sizes(dataset: Dataset, counted: dict[int, int]) -> ShardSizes:
    """As the list of shards tells. ``counted``: records of shards that were read whole."""
    paged = dataset.paged
    if paged is not None:
        return ShardSizes(*paged.columns("nbytes", "records"))
    nbytes = np.array([shard.part_nbytes for shard in dataset.shards], np.int64)
    records = [
        counted.get(i, -1) if shard.records is None else shard.records
        for i, shard in enumerate(dataset.shards)
    ]
    return ShardSizes(nbytes, np.array(records, np.int64))


def shard_bars(dataset: Dataset, sizes: ShardSizes) -> tuple[ShardBar, ...]:
    """One for each shard; of very many, one for some neighbours, which is their largest."""
    count = len(sizes.nbytes)
    each = -(-count // _MOST_BARS) if count else 1
    odd = set(sizes.large.tolist()) | set(sizes.small.tolist())
    median = sizes.median
    bars = []
    for start in range(0, count, each):
        stop = min(start + each, count)
        first = start + int(np.argmax(sizes.nbytes[start:stop]))
        nbytes, records = int(sizes.nbytes[first]), int(sizes.records[first])
        bar = ShardBar(
            first,
            stop - start,
            redacted(dataset.shard(first).url),
            nbytes,
            None if records < 0 else records,
            nbytes / median if median else 0.0,
            not odd.isdisjoint(range(start, stop)),
        )
        bars.append(bar)
    return tuple(bars)
