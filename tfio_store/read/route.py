"""A reader's way through a dataset: its units in order, and marks that identify the way."""

from __future__ import annotations

import sys
import zlib
from functools import cached_property

import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.read.course import Course, course_of
from tfio_store.read.located import NO_OFFSET
from tfio_store.read.order import Shuffle, Step, last_shuffle, rearrange, steps_text
from tfio_store.read.pieces import Pieces
from tfio_store.read.plan import Units
from tfio_store.read.rest import Rest, course_of_rest

__all__ = ["Route"]


class Route:
    """The units of a dataset after sharing and shuffling.

    ``streams``: see `Units`.
    """

    def __init__(self, dataset: Dataset, steps: tuple[Step, ...], *, streams: bool) -> None:
        self.dataset = dataset
        self.steps = steps
        self.units = Units(dataset, streams=streams)
        self._last: tuple[tuple[int, Rest | None], Course] | None = None

    def course(self, epoch: int, rest: Rest | None = None) -> Course:
        """What a reader gives in an epoch, or of the rest of one. The last one is kept."""
        if self._last is None or self._last[0] != (epoch, rest):
            self._last = (epoch, rest), self._course(epoch, rest)
        return self._last[1]

    def _course(self, epoch: int, rest: Rest | None) -> Course:
        units = self.units
        if rest:
            return course_of_rest(units, self.steps, rest, epoch)
        pieces = rearrange(Pieces(range(len(units))), units, self.steps, epoch)
        return course_of(units, pieces, self.shuffle)

    @property
    def shuffle(self) -> Shuffle | None:
        """The step that shuffles records."""
        return last_shuffle(self.steps)

    def window_most(self) -> int:
        """The most bytes of memory that windows are meant to take: the last block of one may be
        larger. 0 without any."""
        if self.shuffle is None:
            return 0
        return min(int(self.units.most().sum()), self.shuffle.window_bytes)

    # What a state is checked against

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

    def offsets_to(self, position: int, course: Course) -> int:
        """The largest offset from which a reader can go on in a unit, or `NO_OFFSET`."""
        index, block = self.units[int(course.read.numbers[position])]
        shard = self.dataset.shard(index)
        if self.shuffle is not None or block is not None or position in course.read.cuts:
            return NO_OFFSET
        if shard.compression not in ("auto", None):
            return NO_OFFSET
        return shard.nbytes or sys.maxsize  # of a file object, nobody knows the size


def _digest(units: Units) -> str:
    if units.dataset.paged is not None:
        return f"{len(units)}-{units.dataset.paged.digest:08x}"
    crc = 0
    for table in units.tables():
        for bounds in (np.zeros(1),) if table is None else (table.raw_offsets, table.records):
            crc = zlib.crc32(np.ascontiguousarray(bounds, "<i8").tobytes(), crc)
    return f"{len(units)}-{crc:08x}"
