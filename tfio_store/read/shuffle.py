"""Shuffling records in memory, window after window, so that a reader can resume inside one.

A window is neighbouring blocks of the reader's order that take so many bytes of memory, or, in a
stream (which has no blocks), the next records that do. Both depend only on the data, not on how it
was fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np

from tfio_store.read.decode import Located
from tfio_store.read.order import Numbers, Pieces, Shuffle, record_permutation
from tfio_store.read.plan import RECORD_COST
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.framing import FRAME_OVERHEAD, Buffer, RecordBatch

__all__ = ["Windows", "shuffled"]


_MORE = 8
"""A window's last block may go beyond its bytes by about one of so many parts of them."""


class Windows:
    """Runs of pieces that are shuffled together: ``starts`` are their first places in ``pieces``.

    ``keys`` take part in each one's permutation; of a reader's own windows they are the starts. A
    stream (``streams``) is a window or several of its own, which end where ``nbytes`` are full.
    """

    def __init__(
        self, pieces: Pieces, starts: Int64Array, keys: Int64Array, streams: BoolArray, nbytes: int
    ) -> None:
        self.pieces = pieces
        self.starts = starts
        self.keys = keys
        self.streams = streams
        self.nbytes = nbytes

    @classmethod
    def of(cls, pieces: Pieces, costs: Int64Array, nbytes: int) -> Windows:
        """``costs``: each unit's bytes of memory, -1 for a stream. A window begins with the first
        piece behind each multiple of ``nbytes``."""
        cost = costs[np.asarray(pieces.numbers, np.int64)]
        stream = cost < 0
        held = np.where(stream, 0, cost)
        number = (np.cumsum(held) - held) // nbytes
        begins = stream.copy()
        begins[:1] = True
        begins[1:] |= (number[1:] != number[:-1]) | stream[:-1]
        starts = np.flatnonzero(begins)
        return cls(pieces, starts, starts, stream[starts], nbytes)

    def __len__(self) -> int:
        return len(self.starts)

    def number(self, position: int) -> int:
        """The window in which a place lies."""
        return int(np.searchsorted(self.starts, position, side="right")) - 1

    def stop(self, number: int) -> int:
        """The place behind a window."""
        return int(self.starts[number + 1]) if number + 1 < len(self) else len(self.pieces)

    def counts(self, held: Int64Array) -> Int64Array:
        """int64 [n]: how many records each window holds, by those of the units; -1 for a stream."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.add.reduceat(self.pieces.counts(held), self.starts)

    def chosen(self, numbers: Numbers) -> Windows:
        """These of the windows, in this order, with the pieces of these."""
        if isinstance(numbers, range) and numbers == range(len(self)):
            return self
        chosen = np.asarray(numbers, np.int64)
        sizes = np.diff(self.starts, append=len(self.pieces))[chosen]
        starts = np.cumsum(sizes) - sizes
        places = np.repeat(self.starts[chosen] - starts, sizes) + np.arange(sizes.sum())
        pieces = self.pieces.take(places)
        return Windows(pieces, starts, self.keys[chosen], self.streams[chosen], self.nbytes)

    @staticmethod
    def joined(parts: Sequence[Windows]) -> Windows:
        """The windows of all parts, one part behind the other."""
        begins = accumulate((len(part.pieces) for part in parts), initial=0)
        starts = [part.starts + begin for begin, part in zip(begins, parts, strict=False)]
        return Windows(
            Pieces.joined([part.pieces for part in parts]),
            np.concatenate(starts),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.streams for part in parts]),
            parts[0].nbytes,
        )


def shuffled(
    batches: Iterable[Located], shuffle: Shuffle, windows: Windows, *, epoch: int
) -> Iterator[Located]:
    """The batches of each window as one, its records permuted."""
    for gathered in _gathered(batches, windows):
        number, records = windows.number(gathered.position), gathered.records
        key = int(windows.keys[number])
        order = record_permutation(gathered.count, shuffle.seed, epoch, key, records)
        yield Located(gathered.take(order), int(windows.starts[number]), records)


class _Gathered:
    """Batches of one window, copied into one buffer as they come. Gathered later, all would be in
    memory twice. The copy costs a tenth of a millisecond a block, and leaves the GIL to others.
    ``nbytes``: about how many there will be."""

    def __init__(self, first: Located, nbytes: int) -> None:
        self.position, self.records = first.position, first.records
        self.count = 0
        self._only: RecordBatch | None = None  # the first one is not copied unless others follow
        self._nbytes = nbytes
        self._buffer, self._used = memoryview(Buffer(0)), 0
        self._offsets: list[Int64Array] = []
        self._lengths: list[Int64Array] = []

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
        self._reserve(stop - start)
        room = np.frombuffer(self._buffer, np.uint8, stop - start, self._used)
        np.copyto(room, np.frombuffer(batch.buffer, np.uint8, stop - start, start))
        self._offsets.append(batch.offsets + (self._used - start))
        self._lengths.append(batch.lengths)
        self._used += stop - start

    def _reserve(self, nbytes: int) -> None:
        """Make room for so many bytes more."""
        if self._used + nbytes <= len(self._buffer):
            return
        larger = memoryview(Buffer(max(self._nbytes, self._used + nbytes, 2 * self._used)))
        used = np.frombuffer(self._buffer, np.uint8, self._used)
        np.copyto(np.frombuffer(larger, np.uint8, self._used), used)
        self._buffer = larger

    def take(self, order: Int64Array) -> RecordBatch:
        """All records in another order. The gathered batches are dropped."""
        if self._only is not None:
            whole, self._only = self._only, None
        else:
            offsets, lengths = np.concatenate(self._offsets), np.concatenate(self._lengths)
            whole = RecordBatch(self._buffer, offsets, lengths)
            self._buffer = memoryview(Buffer(0))
        return whole.take(order)


def _gathered(batches: Iterable[Located], windows: Windows) -> Iterator[_Gathered]:
    """The batches window by window, cut where a stream's windows end."""
    window: _Gathered | None = None
    number, room = -1, 0
    for located in batches:
        found = windows.number(located.position)
        if found != number:
            if window is not None:
                yield window
            window, number, room = None, found, windows.nbytes
        stream = windows.streams[number]
        for part in _cut(located, room, windows.nbytes) if stream else (located,):
            window = window or _Gathered(part, windows.nbytes + windows.nbytes // _MORE)
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
