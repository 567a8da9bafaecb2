"""A reader's way through a dataset: its units in order, and marks that identify the way."""

from __future__ import annotations

import sys
import zlib
from functools import cached_property

import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.read.located import NO_OFFSET
from tfio_store.read.order import Numbers, Share, Shuffle, rearrange
from tfio_store.read.plan import Units
from tfio_store.read.shuffle import Windows

__all__ = ["Route"]


class Route:
    """The units of a dataset after sharing and shuffling.

    ``streams``: see `Units`.
    """

    def __init__(
        self, dataset: Dataset, steps: tuple[Share | Shuffle, ...], *, streams: bool
    ) -> None:
        self.dataset = dataset
        self.steps = steps
        self.units = Units(dataset, streams=streams)

    def order(self, epoch: int) -> Numbers:
        """The numbers of the units in the order of an epoch."""
        return rearrange(len(self.units), self.steps, epoch)

    @property
    def shuffle(self) -> Shuffle | None:
        """The step that shuffles records: the last of the shuffling steps."""
        return next((step for step in reversed(self.steps) if isinstance(step, Shuffle)), None)

    def windows(self, order: Numbers) -> Windows:
        """Which positions of the order are shuffled together."""
        assert self.shuffle is not None
        return Windows(self.units.costs[np.asarray(order, np.int64)], self.shuffle.window_bytes)

    def window_most(self) -> int:
        """The most bytes of memory that windows are meant to take: the last block of one may be
        larger. 0 without any."""
        if self.shuffle is None:
            return 0
        return min(int(self.units.most().sum()), self.shuffle.window_bytes)

    # What a state is checked against

    @cached_property
    def source(self) -> str:
        """A digest of the files' names (without folders, which a copy changes) and sizes. Of a long
        dataset, a digest of its list of shards."""
        if self.dataset.paged is not None:
            return f"{len(self.dataset.shards)}-{self.dataset.paged.digest:08x}"
        crc = 0
        for shard in self.dataset.shards:
            crc = zlib.crc32(f"{shard.url.rsplit('/', 1)[-1]}\0{shard.nbytes}\0".encode(), crc)
        return f"{len(self.dataset.shards)}-{crc:08x}"

    @cached_property
    def steps_text(self) -> str:
        """The steps as text, such as "shuffle(seed=3, window=16).shard(0, 2)"."""
        return ".".join(map(str, self.steps)) or "in order"

    @cached_property
    def blocks(self) -> str:
        """A digest of the units' bounds: another index cuts the same files at other places."""
        if self.dataset.paged is not None:
            return f"{len(self.units)}-{self.dataset.paged.digest:08x}"
        crc = 0
        for table in self.units.tables():
            for bounds in (np.zeros(1),) if table is None else (table.raw_offsets, table.records):
                crc = zlib.crc32(np.ascontiguousarray(bounds, "<i8").tobytes(), crc)
        return f"{len(self.units)}-{crc:08x}"

    def records_from(self, position: int, epoch: int) -> int | None:
        """How many records lie between a position and the next one, as far as is known. None if a
        reader can't stand there."""
        order = self.order(epoch)
        if position >= len(order):
            return None
        if self.shuffle is None:
            return self._records(order[position : position + 1])
        windows = self.windows(order)
        start, stop = windows.bounds(position)
        return self._records(order[start:stop]) if start == position else None

    def _records(self, numbers: Numbers) -> int:
        counts = self.units.records(numbers)
        return sum(sys.maxsize if count is None else count for count in counts)

    def offsets_to(self, position: int, epoch: int) -> int:
        """The largest offset from which a reader can go on in a unit, or `NO_OFFSET`."""
        index, block = self.units[int(self.order(epoch)[position])]
        shard = self.dataset.shard(index)
        if self.shuffle is not None or block is not None:
            return NO_OFFSET
        if shard.compression not in ("auto", None):
            return NO_OFFSET
        return shard.nbytes or sys.maxsize  # of a file object, nobody knows the size
