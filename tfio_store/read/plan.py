"""From a dataset to the ranges that a reader fetches: units, runs and pieces.

A *unit* is a block, or a whole shard where that is read as one stream. A `Run` is what is decoded
together: a stream, or the blocks of one merged range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Block, Dataset
from tfio_store.read.order import Order
from tfio_store.records.compression import most_ratio
from tfio_store.records.framing import FRAME_OVERHEAD
from tfio_store.storage.read_ahead import Fetch, split_range

__all__ = ["RECORD_COST", "Piece", "Unit", "Units", "fetches"]

RECORD_COST = 32
"""Bytes that a record takes in memory beside its frame: where it lies, before and after shuffling.
"""

_MOST = 1 << 44
"""More bytes than any machine has, of which many add up."""

_COST_OF_EMPTY = (FRAME_OVERHEAD + RECORD_COST) // FRAME_OVERHEAD
"""What records cost, at most, for each byte of their frames."""


@dataclass(frozen=True, slots=True)
class Unit:
    """``block`` is None for a shard that is read as one stream."""

    shard: int
    block: Block | None


class Units:
    """The units of a dataset, numbered in its order.

    ``streams``: shards whose blocks are known are read as streams all the same where that is as
    good (raw shards in order) or better (past damage, a block table can't be relied on).
    """

    def __init__(self, dataset: Dataset, *, streams: bool) -> None:
        self._dataset = dataset
        self._streams = streams
        counts = [1 if table is None else len(table) for table in self.tables()]
        self._starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self._starts[1:])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, number: int) -> Unit:
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        if self._table(shard) is None:
            return Unit(shard, None)
        return Unit(shard, self._dataset.shard_block(shard, number - int(self._starts[shard])))

    def tables(self) -> Iterator[BlockTable | None]:
        """Of each shard the blocks that are units; None where the whole shard is one."""
        return map(self._table, range(len(self._dataset.shards)))

    def _table(self, shard: int) -> BlockTable | None:
        known = self._dataset.shards[shard]
        return None if self._streams and known.compression is None else known.blocks

    @cached_property
    def costs(self) -> Order:
        """Of each unit the bytes of memory that its records take; -1 for a stream."""
        found = [np.full(1, -1) if table is None else _costs(table) for table in self.tables()]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def most(self) -> Order:
        """Of each unit the most bytes of memory that its records can take."""
        most: Order = self.costs.copy()
        for number in np.flatnonzero(most < 0):
            shard = self._dataset.shards[self[int(number)].shard]
            cost = shard.nbytes * most_ratio(shard.compression) * _COST_OF_EMPTY
            most[number] = min(cost, _MOST)  # a manifest claims what it likes
        return most


def _costs(table: BlockTable) -> Order:
    costs: Order = np.diff(table.raw_offsets) + RECORD_COST * np.diff(table.records)
    return costs


@dataclass(frozen=True, slots=True)
class Piece:
    """What one range is for: a part of a stream, or one or several whole blocks.

    ``position`` is where the first of the units stands in the reader's order; ``start`` and
    ``stop`` are the object's bytes of the range; ``first`` and ``last`` mark the ends of a stream.
    """

    position: int
    units: tuple[Unit, ...]
    start: int
    stop: int
    first: bool = True
    last: bool = True


def fetches(
    dataset: Dataset, units: Units, order: Order, *, position: int = 0, start: int = 0
) -> Iterator[Fetch[Piece]]:
    """The ranges of the units from ``position`` of the order on. ``start``: where in the first
    one, if it is a stream of raw records, reading begins."""
    run = _Run(dataset)
    for at in range(position, len(order)):
        unit = units[int(order[at])]
        if unit.block is None:
            yield from run.take()
            yield from _stream(dataset, at, unit, start)
        else:
            if not run.add(at, unit):
                yield from run.take()
                run.add(at, unit)
        start = 0
    yield from run.take()


def _stream(dataset: Dataset, position: int, unit: Unit, start: int) -> Iterator[Fetch[Piece]]:
    store, path = dataset.open(unit.shard)
    shard = dataset.shards[unit.shard]
    stop = max(start, shard.nbytes)
    for begin, end in split_range(start, stop, store.range_bytes):
        missing = shard.version.end is not None and begin >= shard.version.end
        ask, end = (begin, stop) if missing else (end, end)  # of what is missing nothing is asked
        piece = Piece(position, (unit,), begin, end, first=begin == start, last=end == stop)
        yield Fetch(store, path, begin, ask, piece, ask - begin, shard.version)
        if missing:
            return


class _Run:
    """Consecutive blocks that one range fetches."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._units: list[Unit] = []
        self._position = 0

    def add(self, position: int, unit: Unit) -> bool:
        """Whether the block continues the run; it always begins an empty one."""
        if not self._units:
            self._position = position
        elif not self._adjoins(unit):
            return False
        self._units.append(unit)
        return True

    def _adjoins(self, unit: Unit) -> bool:
        first, last, block = self._units[0].block, self._units[-1].block, unit.block
        assert first is not None
        assert last is not None
        assert block is not None
        store, _ = self._dataset.open(unit.shard)
        adjacent = block.shard == last.shard and block.start == last.stop
        return adjacent and block.stop - first.start <= store.range_bytes

    def take(self) -> Iterable[Fetch[Piece]]:
        """The run as one range, and begin a new one."""
        if not self._units:
            return ()
        first, last = self._units[0].block, self._units[-1].block
        assert first is not None
        assert last is not None
        piece = Piece(self._position, tuple(self._units), first.start, last.stop)
        self._units = []
        store, path = self._dataset.open(first.shard)
        cost = max(last.stop - first.start, last.raw_stop - first.raw_start)
        version = self._dataset.shards[first.shard].version
        return (Fetch(store, path, first.start, last.stop, piece, cost, version),)
