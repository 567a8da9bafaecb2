"""`Units`: what a reader's order is of. A unit is a block, or a whole shard that is read as one
stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, cast

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.model import Block, Dataset
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

    @staticmethod
    def of(dataset: Dataset, *, streams: bool) -> Units:
        """Those of a long dataset are its blocks, unless all of it is streams."""
        shards = dataset.shards
        if not shards.long or shards.is_stream(0, raw=streams):
            return Units(dataset, streams=streams)
        return _LongUnits(dataset, cast(ListedShards, shards))

    @cached_property
    def _starts(self) -> Int64Array:
        """int64 [n_shards + 1]: how many units stand before each shard."""
        counts = self.dataset.shards.unit_counts(raw=self._streams)
        return np.cumsum(np.append(0, counts), dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, number: int) -> tuple[int, Block | None]:
        """A unit's shard, and which block of it; None for a shard that is read as one stream."""
        shard = self.shard_of(number)
        within = number - self.first(shard)
        return shard, None if self.is_stream(shard) else self.dataset.block(shard, within)

    def shard_of(self, number: int) -> int:
        """The number of a unit's shard."""
        return int(self._starts.searchsorted(number, side="right")) - 1

    def first(self, shard: int) -> int:
        """The number of a shard's first unit."""
        return int(self._starts[shard])

    def is_of(self, number: int, shard: int) -> bool:
        """Whether a unit is of this shard, of which a unit was asked for before."""
        return bool(self._starts[shard] <= number < self._starts[shard + 1])

    def begin(self, numbers: Numbers) -> None:
        """Begin to fetch the tables of these units, which are asked for soon."""

    def records(self, numbers: Numbers) -> Iterator[int | None]:
        """How many records each of these units holds, in any order. None where it is unknown."""
        units = (self[int(number)] for number in numbers)
        return (
            self.dataset.shard(shard).records if block is None else block.records
            for shard, block in units
        )

    def tables(self) -> Iterator[BlockTable | None]:
        """For each shard the blocks that are units. None if the whole shard is one unit."""
        shards = self.dataset.shards
        streams = [self.is_stream(shard) for shard in range(len(shards))]
        tables = shards.tables(shard for shard, stream in enumerate(streams) if not stream)
        return (None if stream else next(tables) for stream in streams)

    def is_stream(self, shard: int) -> bool:
        """Whether a whole shard is one unit."""
        return self.dataset.shards.is_stream(shard, raw=self._streams)

    @property
    def digest(self) -> int:
        """A CRC of the units' bounds: another index cuts the same files at other places."""
        if self.dataset.shards.long:
            return self.dataset.shards.digest
        crc = 0
        for table in self.tables():
            for bounds in (np.zeros(1),) if table is None else (table.raw_offsets, table.records):
                crc = zlib.crc32(np.ascontiguousarray(bounds, "<i8").tobytes(), crc)
        return crc

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
        shards = self.dataset.shards
        if shards.have_blocks and _is_all(pieces, len(self)):
            return shards.records
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


class _LongUnits(Units):
    """The blocks of a long list of shards, which is asked as far as it is needed."""

    def __init__(self, dataset: Dataset, shards: ListedShards) -> None:
        super().__init__(dataset, streams=False)
        self._shards = shards

    def __len__(self) -> int:
        return self._shards.blocks

    def shard_of(self, number: int) -> int:
        shards, _ = self._shards.shards_with("blocks", np.array([number], np.int64))
        return int(shards[0])

    def first(self, shard: int) -> int:
        return self._shards.first_of("blocks", shard)

    def is_of(self, number: int, shard: int) -> bool:
        return 0 <= number - self.first(shard) < self._shards.listed(shard).blocks

    def begin(self, numbers: Numbers) -> None:
        if len(numbers):
            shards, _ = self._shards.shards_with("blocks", np.asarray(numbers, np.int64))
            self._shards.begin_tables(dict.fromkeys(shards.tolist()))

    def records(self, numbers: Numbers) -> Iterator[int]:
        """See `Units.records`. Each table is fetched once, and many are at once."""
        if not len(numbers):
            return
        wanted = np.asarray(numbers, np.int64)
        found, firsts = self._shards.shards_with("blocks", wanted)
        order = np.argsort(found)
        shards, starts = np.unique(found[order], return_index=True)
        blocks = np.split((wanted - firsts)[order], starts[1:])
        for mine, table in zip(blocks, self._shards.tables(shards.tolist()), strict=True):
            yield from np.diff(table.records)[mine].tolist()

    def tables(self) -> Iterator[BlockTable | None]:
        yield from self._shards.tables(range(len(self._shards)))

    def running(self, pieces: Pieces) -> Running:
        """See `Units.running`. The pages have the totals of all blocks in their order."""
        return (
            _AllBlocks(self, self._shards)
            if _is_all(pieces, len(self))
            else super().running(pieces)
        )


@dataclass(frozen=True, slots=True)
class _AllBlocks:
    """All blocks of a long dataset in their order, as `Running` has them."""

    units: _LongUnits
    shards: ListedShards

    @property
    def total(self) -> int:
        return self.shards.records

    def find(self, record: int) -> tuple[int, int]:
        shards, firsts = self.shards.shards_of(np.array([record], np.int64))
        shard, within = int(shards[0]), record - int(firsts[0])
        table = self.shards.table(shard)
        block = int(np.searchsorted(table.records, within, side="right")) - 1
        return self.units.first(shard) + block, within - int(table.records[block])

    def count(self, place: int) -> int:
        return next(self.units.records(range(place, place + 1)))


def _costs(table: BlockTable) -> Int64Array:
    costs: Int64Array = np.diff(table.raw_offsets) + RECORD_COST * np.diff(table.records)
    return costs
