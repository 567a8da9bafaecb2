"""`Units`: what a reader's order is of. A unit is a block, or a whole shard that is read as one
stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NoReturn

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Block, Dataset
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.read.order import ArrayCounts, Numbers, Pieces, Running
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compression import most_ratio
from tfio_store.records.framing import FRAME_OVERHEAD

__all__ = ["RECORD_COST", "Units"]

RECORD_COST = 32
"""Bytes of memory for a record beside its frame: its places before and after shuffling.
"""

_MOST = 1 << 44
"""More bytes than any machine has, of which many add up."""

_COST_OF_EMPTY = (FRAME_OVERHEAD + RECORD_COST) // FRAME_OVERHEAD
"""The most memory that records take for each byte of their frames."""


class Units:
    """The units of a dataset, numbered in its order.

    ``streams``: read shards as streams, although their blocks are known, if this is as good (raw
    shards in order) or better (past damage a block table is not reliable).
    """

    def __init__(self, dataset: Dataset, *, streams: bool) -> None:
        self.dataset = dataset
        self._streams = streams
        paged = dataset.paged
        self._are_streams = paged is not None and streams and paged.raw
        self._paged = None if paged is None or paged.small or self._are_streams else paged
        """The list of a long dataset whose blocks are the units. It is asked as far as it is
        needed."""

    @cached_property
    def _starts(self) -> Int64Array:
        """int64 [n_shards + 1]: how many units stand before each shard."""
        if self._are_streams:
            return np.arange(len(self.dataset.shards) + 1)
        if self.dataset.paged is not None:
            return np.cumsum(np.append(0, self.dataset.paged.columns("blocks")), dtype=np.int64)
        counts = [1 if table is None else len(table) for table in self.tables()]
        return np.cumsum([0, *counts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._paged is None else self._paged.blocks

    def __getitem__(self, number: int) -> tuple[int, Block | None]:
        """A unit's shard, and which block of it; None for a shard that is read as one stream."""
        if self._paged is None:
            shard = int(self._starts.searchsorted(number, side="right")) - 1
            first = int(self._starts[shard])
        else:
            shards, firsts = self._paged.shards_of("blocks", np.array([number], np.int64))
            shard, first = int(shards[0]), int(firsts[0])
        return shard, None if self.is_stream(shard) else self.dataset.block(shard, number - first)

    def first(self, shard: int) -> int:
        """The number of a shard's first unit."""
        if self._paged is None:
            return int(self._starts[shard])
        return self._paged.first_of("blocks", shard)

    def is_of(self, number: int, shard: int) -> bool:
        """Whether a unit is of this shard, of which a unit was asked for before."""
        if self._paged is None:
            return bool(self._starts[shard] <= number < self._starts[shard + 1])
        return 0 <= number - self.first(shard) < self._paged.listed(shard).blocks

    def begin(self, numbers: Numbers) -> None:
        """Begin to fetch the tables of these units, which are asked for soon."""
        if self._paged is not None and len(numbers):
            shards, _ = self._paged.shards_of("blocks", np.asarray(numbers, np.int64))
            self._paged.begin_tables(dict.fromkeys(shards.tolist()))

    def records(self, numbers: Numbers) -> Iterator[int | None]:
        """How many records each of these units holds, in any order. None where it is unknown."""
        if self._paged is not None and len(numbers):
            return _records_of_blocks(self._paged, np.asarray(numbers, np.int64))
        units = (self[int(number)] for number in numbers)
        return (
            self.dataset.shard(shard).records if block is None else block.records
            for shard, block in units
        )

    def tables(self) -> Iterator[BlockTable | None]:
        """For each shard the blocks that are units. None if the whole shard is one unit."""
        shards = self.dataset.shards
        if self._are_streams:
            return repeat(None, len(shards))
        if self.dataset.paged is not None:
            return self.dataset.paged.tables(range(len(shards)))
        return (None if self.is_stream(i) else s.blocks for i, s in enumerate(shards))

    def is_stream(self, shard: int) -> bool:
        """Whether a whole shard is one unit."""
        if self.dataset.paged is not None:
            return self._are_streams
        known = self.dataset.shards[shard]
        if known.blocks is None or known.is_part:
            return known.blocks is None
        return self._streams and known.compression is None

    @property
    def costs(self) -> Int64Array:
        """For each unit the bytes of memory that its records take. -1 for a stream."""
        return self._sizes[0]

    @property
    def counts(self) -> Int64Array:
        """For each unit how many records it holds. -1 for a stream."""
        return self._sizes[1]

    @cached_property
    def _sizes(self) -> tuple[Int64Array, Int64Array]:
        """The costs and the counts: the tables of a long dataset are fetched for both at once."""
        costs, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for table in self.tables():
            held = np.full(1, -1) if table is None else np.diff(table.records)
            costs.append(held if table is None else _costs(table))
            counts.append(held)
        return np.concatenate(costs), np.concatenate(counts)

    def running(self, pieces: Pieces) -> Running:
        """The running totals of the records of pieces of these units. ValueError if one is a
        stream."""
        if self._paged is not None and _is_all(pieces, len(self)):
            return _PagedTotals(self._paged)
        for number in np.asarray(pieces.numbers, np.int64)[pieces.counts(self.counts) < 0][:1]:
            self.refuse_stream(int(number))
        return ArrayCounts(self.counts).running(pieces)

    def refuse_stream(self, number: int) -> NoReturn:
        """ValueError for even shares of records of which this unit is a stream."""
        shard = self.dataset.shard(self[number][0])
        raise ValueError(
            f"even=: {shard.url} is one {shard.compression} stream, with an unknown number of "
            "records; copy it with tfio_store.copy(), which compresses in blocks"
        )

    def total(self, pieces: Pieces) -> int | None:
        """How many records pieces of these units give. None if one is a stream."""
        paged = self.dataset.paged
        if paged is not None and _is_all(pieces, len(self)):
            return paged.records
        return ArrayCounts(self.counts).total(pieces)

    def most(self) -> Int64Array:
        """For each unit the most bytes of memory that its records can take."""
        most: Int64Array = self.costs.copy()
        for number in np.flatnonzero(most < 0):
            shard = self.dataset.shard(self[int(number)][0])
            cost = shard.nbytes * most_ratio(shard.compression) * _COST_OF_EMPTY
            most[number] = min(cost, _MOST)  # a manifest claims what it likes
        return most


def _is_all(pieces: Pieces, count: int) -> bool:
    numbers = pieces.numbers
    return isinstance(numbers, range) and numbers == range(count) and not pieces.cuts


@dataclass(frozen=True, slots=True)
class _PagedTotals:
    """All blocks of a long dataset in their order. The pages have the totals."""

    paged: PagedShards

    @property
    def total(self) -> int:
        return self.paged.records

    def find(self, record: int) -> tuple[int, int]:
        shards, firsts = self.paged.shards_of("records", np.array([record], np.int64))
        shard, within = int(shards[0]), record - int(firsts[0])
        table = self.paged.table(shard, sums=False)
        block = int(np.searchsorted(table.records, within, side="right")) - 1
        return self.paged.first_of("blocks", shard) + block, within - int(table.records[block])

    def count(self, place: int) -> int:
        return next(_records_of_blocks(self.paged, np.array([place], np.int64)))


def _records_of_blocks(paged: PagedShards, numbers: Int64Array) -> Iterator[int]:
    """How many records each of these blocks holds, by shard: each table is fetched once, and many
    are at once."""
    shards, firsts = paged.shards_of("blocks", numbers)
    order = np.argsort(shards)
    wanted, starts = np.unique(shards[order], return_index=True)
    blocks = np.split((numbers - firsts)[order], starts[1:])
    for mine, table in zip(blocks, paged.tables(wanted.tolist(), sums=False), strict=True):
        yield from np.diff(table.records)[mine].tolist()


def _costs(table: BlockTable) -> Int64Array:
    costs: Int64Array = np.diff(table.raw_offsets) + RECORD_COST * np.diff(table.records)
    return costs
