"""The position of a reader, and its order through a dataset."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.read.decode import NO_OFFSET, Located, Standing
from tfio_store.read.epoch import EpochOrder, Rest, epoch_order_of, epoch_order_of_rest
from tfio_store.read.order import (
    Pieces,
    Step,
    last_shuffle,
    rearrange,
    steps_text,
)
from tfio_store.read.plan import Units

__all__ = ["Position", "ReaderOrder"]


# The place where a reader stands, and how it gets back to it.


@dataclass(frozen=True, slots=True)
class Position:
    """``records`` behind the start of the unit (or shuffled window) at ``position`` of an epoch's
    order.

    ``offset`` is the next frame's byte in a stream of raw records: going there needs no reading
    of what lies before. Elsewhere it is `NO_OFFSET`, a number all the same, so that all states have
    one shape.
    """

    epoch: int = 0
    position: int = 0
    records: int = 0
    offset: int = NO_OFFSET
    rest: Rest | None = None
    """If other readers began this epoch, what they left of it: the order is that of this rest."""

    def at(self, located: Standing, index: int) -> Position:
        """The position of record ``index`` of a batch of the same epoch."""
        return Position(  # replace() takes several times as long
            self.epoch,
            located.position,
            located.records + index,
            located.offset(index),
            self.rest,
        )

    def resume(self, batches: Iterator[Located]) -> Iterator[Located]:
        """Drop what comes before this position. ``batches`` starts with its unit, or at
        ``offset``. ValueError if there is no such position."""
        ahead = self.records
        with closing(batches):  # type: ignore[type-var]
            if self.offset != NO_OFFSET:
                batches, ahead = self._counted_on(batches), 0
            for located in batches:
                if located.position > self.position and ahead:
                    break
                if ahead:
                    cut = ahead - located.records
                    if cut >= len(located.batch):
                        ahead = 0 if cut == len(located.batch) else ahead
                        continue
                    located = replace(located, batch=located.batch[cut:], records=ahead)
                    ahead = 0
                yield located
            if ahead:
                raise ValueError(
                    f"state= stands behind record {self.records} of a file or block that has fewer"
                )

    def _counted_on(self, batches: Iterator[Located]) -> Iterator[Located]:
        """The batches from ``offset`` on, with the records before it counted."""
        for located in batches:
            if located.position == self.position:
                located = replace(located, records=located.records + self.records)
            yield located


# A reader's order through a dataset: its units, and marks that identify the order.


class ReaderOrder:
    """The units of a dataset after sharing and shuffling.

    ``streams``: see `Units`.
    """

    def __init__(self, dataset: Dataset, steps: tuple[Step, ...], *, streams: bool) -> None:
        self.dataset = dataset
        self.steps = steps
        self.shuffle = last_shuffle(steps)
        """The step that shuffles records."""
        self.units = Units(dataset, streams=streams)
        self._last: tuple[tuple[int, Rest | None], EpochOrder] | None = None

    def epoch_order(self, epoch: int, rest: Rest | None = None) -> EpochOrder:
        """The records of an epoch, or of the rest of one. The last one is kept."""
        if self._last is not None and self._last[0] == (epoch, rest):
            return self._last[1]
        units = self.units
        if rest:
            epoch_order = epoch_order_of_rest(units, self.steps, rest, epoch)
        else:
            pieces = rearrange(Pieces(range(len(units))), units, self.steps, epoch)
            epoch_order = epoch_order_of(units, pieces, self.shuffle)
        self._last = (epoch, rest), epoch_order
        return epoch_order

    def window_most(self) -> int:
        """The most bytes of memory that windows are meant to take: the last block of one may be
        larger. 0 without any."""
        if self.shuffle is None:
            return 0
        return min(int(self.units.most().sum()), self.shuffle.window_bytes)

    # Checks of a state

    @cached_property
    def source(self) -> str:
        """A digest of the files' names (without folders, which a copy changes) and sizes, and of
        which part of a file is meant. Of a long dataset, a digest of its list of shards."""
        if self.dataset.paged is not None:
            return f"{len(self.dataset.shards)}-{self.dataset.paged.digest:08x}"
        crc = 0
        for shard in self.dataset.shards:
            crc = zlib.crc32(f"{shard.url.rsplit('/', 1)[-1]}\0{shard.nbytes}\0".encode(), crc)
            if shard.blocks is not None and shard.is_part:
                bounds = *shard.blocks.offsets[[0, -1]].tolist(), *shard.blocks.bounds
                crc = zlib.crc32(repr(bounds).encode(), crc)
        return f"{len(self.dataset.shards)}-{crc:08x}"

    @property
    def steps_text(self) -> str:
        """The steps as text."""
        return steps_text(self.steps)

    def blocks(self, rest: Rest | None = None) -> str:
        """A digest of the units' bounds: another index cuts the same files at other places. Of a
        rest, those in which the first readers counted."""
        return self._stream_blocks if rest and not rest[0].steps else self._own_blocks

    @cached_property
    def _own_blocks(self) -> str:
        return _digest(self.units)

    @cached_property
    def _stream_blocks(self) -> str:
        return _digest(Units(self.dataset, streams=True))

    def offsets_to(self, position: int, epoch_order: EpochOrder) -> int:
        """The largest offset from which a reader can go on in a unit, or `NO_OFFSET`."""
        index, block = self.units[int(epoch_order.read.numbers[position])]
        shard = self.dataset.shard(index)
        if self.shuffle is not None or block is not None or position in epoch_order.read.cuts:
            return NO_OFFSET
        if shard.compression not in ("auto", None):
            return NO_OFFSET
        return shard.nbytes or sys.maxsize  # the size of a file object is unknown


def _digest(units: Units) -> str:
    if units.dataset.paged is not None:
        return f"{len(units)}-{units.dataset.paged.digest:08x}"
    crc = 0
    for table in units.tables():
        for bounds in (np.zeros(1),) if table is None else (table.raw_offsets, table.records):
            crc = zlib.crc32(np.ascontiguousarray(bounds, "<i8").tobytes(), crc)
    return f"{len(units)}-{crc:08x}"
