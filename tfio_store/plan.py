"""From a dataset to the ranges that a reader fetches: units, runs and pieces.

A *unit* is a block, or a whole shard where that is read as one stream. A `Run` is what is decoded
together: a stream, or the blocks of one merged range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tfio_store.dataset import Block, Dataset
from tfio_store.fetch import Fetch, split_range
from tfio_store.order import Order

__all__ = ["Piece", "Unit", "Units", "fetches"]


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
        counts = [
            1
            if shard.blocks is None or (streams and shard.compression is None)
            else len(shard.blocks)
            for shard in dataset.shards
        ]
        self._whole = streams
        self._starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self._starts[1:])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, number: int) -> Unit:
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        known = self._dataset.shards[shard]
        if known.blocks is None or (self._whole and known.compression is None):
            return Unit(shard, None)
        return Unit(shard, self._dataset.shard_block(shard, number - int(self._starts[shard])))


@dataclass(frozen=True, slots=True)
class Piece:
    """What one range is for: a part of a stream, or one or several whole blocks.

    ``position`` is where the first of the units stands in the reader's order, ``start`` the
    object's byte at which the range begins; ``first`` and ``last`` mark the ends of a stream.
    """

    position: int
    units: tuple[Unit, ...]
    start: int
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
    stop = max(start, dataset.shards[unit.shard].nbytes)
    for begin, end in split_range(start, stop, store.range_bytes):
        piece = Piece(position, (unit,), begin, first=begin == start, last=end == stop)
        yield Fetch(store, path, begin, end, piece, end - begin)


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
        piece = Piece(self._position, tuple(self._units), first.start)
        self._units = []
        store, path = self._dataset.open(first.shard)
        cost = max(last.stop - first.start, last.raw_stop - first.raw_start)
        return (Fetch(store, path, first.start, last.stop, piece, cost),)
