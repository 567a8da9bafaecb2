"""Shuffling records in memory, window after window, so that a reader can resume inside one.

A window is neighbouring blocks of the reader's order that take so many bytes of memory, or, in a
stream (which has no blocks), the next records that do. Both depend only on the data, not on how it
was fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tfio_store.read.located import Located
from tfio_store.read.order import Order, Shuffle, record_permutation
from tfio_store.read.plan import RECORD_COST
from tfio_store.records.framing import FRAME_OVERHEAD, RecordBatch

__all__ = ["Windows", "shuffled"]


class Windows:
    """Which positions of an order are shuffled together. ``costs`` are bytes of memory, in that
    order, -1 for a stream, which is a window or several of its own. A window begins with the first
    block behind each multiple of ``nbytes``."""

    def __init__(self, costs: Order, nbytes: int) -> None:
        self.nbytes = nbytes
        self._stream = costs < 0
        held = np.where(self._stream, 0, costs)
        number = (np.cumsum(held) - held) // nbytes
        begins = self._stream.copy()
        begins[:1] = True
        begins[1:] |= (number[1:] != number[:-1]) | self._stream[:-1]
        self._starts = np.flatnonzero(begins)

    def bounds(self, position: int) -> tuple[int, int]:
        """The positions from and to of the window in which a position lies."""
        number = int(np.searchsorted(self._starts, position, side="right"))
        stops = (*self._starts[number : number + 1].tolist(), len(self._stream))
        return int(self._starts[number - 1]), stops[0]

    def is_stream(self, position: int) -> bool:
        return bool(self._stream[position])


def shuffled(
    batches: Iterable[Located], shuffle: Shuffle, windows: Windows, *, epoch: int
) -> Iterator[Located]:
    """The batches of each window as one, its records permuted."""
    for gathered in _gathered(batches, windows):
        start, records = windows.bounds(gathered.position)[0], gathered.records
        order = record_permutation(gathered.count, shuffle.seed, epoch, start, records)
        yield Located(gathered.take(order), start, records)


class _Gathered:
    """Batches of one window, copied into one buffer as they come. Gathered later, all would be in
    memory twice. The copy costs a tenth of a millisecond a block."""

    def __init__(self, first: Located) -> None:
        self.position, self.records = first.position, first.records
        self.count = 0
        self._only: RecordBatch | None = None  # the first one is not copied unless others follow
        self._buffer = bytearray()
        self._offsets: list[Order] = []
        self._lengths: list[Order] = []

    def add(self, batch: RecordBatch) -> None:
        self.count += len(batch)
        if self.count == len(batch):
            self._only = batch
            return
        if self._only is not None:
            self._copy(self._only)
            self._only = None
        self._copy(batch)

    def _copy(self, batch: RecordBatch) -> None:
        start = int(batch.offsets[0])
        stop = int(batch.offsets[-1]) + int(batch.lengths[-1])
        self._offsets.append(batch.offsets + (len(self._buffer) - start))
        self._lengths.append(batch.lengths)
        self._buffer += memoryview(batch.buffer)[start:stop]

    def take(self, order: Order) -> RecordBatch:
        """All records in another order. The gathered batches are dropped."""
        if self._only is not None:
            whole, self._only = self._only, None
        else:
            offsets, lengths = np.concatenate(self._offsets), np.concatenate(self._lengths)
            whole = RecordBatch(self._buffer, offsets, lengths)
            self._buffer = bytearray()
        return whole.take(order)


def _gathered(batches: Iterable[Located], windows: Windows) -> Iterator[_Gathered]:
    """The batches window by window, cut where a stream's windows end."""
    window: _Gathered | None = None
    start, room = -1, 0
    for located in batches:
        found = windows.bounds(located.position)[0]
        if found != start:
            if window is not None:
                yield window
            window, start, room = None, found, windows.nbytes
        stream = windows.is_stream(start)
        for part in _cut(located, room, windows.nbytes) if stream else (located,):
            window = window or _Gathered(part)
            window.add(part.batch)
            room -= _cost(part.batch)
            if stream and room <= 0:
                yield window
                window, room = None, windows.nbytes
    if window is not None:
        yield window


def _cost(batch: RecordBatch) -> int:
    return batch.nbytes + len(batch) * (FRAME_OVERHEAD + RECORD_COST)


def _cut(located: Located, room: int, size: int) -> Iterator[Located]:
    """A stream's batch in parts: each ends with the record that fills its window."""
    batch, at = located.batch, 0
    totals = np.cumsum(batch.lengths + (FRAME_OVERHEAD + RECORD_COST))
    while at < len(batch):
        before = int(totals[at - 1]) if at else 0
        stop = min(int(np.searchsorted(totals, before + room)) + 1, len(batch))
        yield Located(batch[at:stop], located.position, located.records + at)
        at, room = stop, size
