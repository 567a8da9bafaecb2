"""`Gathering`: a reader's records in batches, decoded ahead of their use, with its state behind
each.

The records of a few whole batches are a *load*. A thread of the process decodes a load: it makes
columns of the records and pixels of the images, mostly without the GIL. The caller cuts batches out
of that, without a copy. Loads are begun in the reader's order, as far as the memory budget goes,
and taken in that order.

What is read ahead is not given yet. Each load knows where its records were read, so a state stands
behind the batches that were given. An error of the reader is raised behind all that was read before
it. A load that fails is decoded again, batch by batch: so its error comes in its place too.
"""

from __future__ import annotations

import os
import warnings
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import Any, NamedTuple

from tfio_store.errors import DataLossWarning
from tfio_store.example.codec import Numbers
from tfio_store.loader.content import LoaderContent, Reader, between
from tfio_store.read.marks import AnyMark
from tfio_store.read.traversal import traversal_of
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.cores import begin, begins, cores, workers
from tfio_store.storage.read_ahead import cancel_all
from tfio_store.storage.threads import Owner

__all__ = ["Gathering"]

_AT_ONCE, _LEAST = 4 << 20, 256 << 10
"""Bytes of records, and of what is made of them, that are decoded together: less of a small budget,
so that all threads have some."""

_MORE = 2
"""So many loads more than there are threads are begun: one is in use, and one waits."""


class _Run(NamedTuple):
    """Records of one of the reader's batches, up to row ``end`` of a load. ``behind`` others follow
    them in that batch."""

    end: int
    mark: AnyMark
    behind: int


class _Places:
    """Where the rows of a load were read."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.runs: list[_Run] = []

    def add(self, count: int, mark: AnyMark, behind: int) -> None:
        """Add rows: records of the batch behind which ``mark`` is."""
        end = count + (self.ends[-1] if self.ends else 0)
        self.ends.append(end)
        self.runs.append(_Run(end, mark, behind))

    def state(self, row: int) -> dict[str, Any]:
        """The reader's state before this row, or behind the last one."""
        run = self.runs[bisect_left(self.ends, row)]
        return run.mark.state(run.behind + run.end - row)


class _Load:
    """Records that are decoded together, and what becomes of them: about ``each`` bytes of each."""

    def __init__(self, content: LoaderContent, threads: int | None, each: int) -> None:
        self._content, self._threads, self._each = content, threads, each
        self.rows = self.cost = 0
        self.places = _Places()
        self._parts: list[RecordBatch] = []
        self._decoding: tuple[int, Future[Any] | Numbers] | None = None
        """The process in which threads decode it, and what they make."""
        self._ready: _Made | None = None
        """What they have made of it."""
        self._decoded: Any = None
        self._apart = content.schema is None
        """Whether each batch is decoded by itself, in the caller's thread."""
        self.seconds = 0.0

    def add(self, records: RecordBatch, mark: AnyMark, behind: int) -> None:
        self._parts.append(records)
        self.places.add(len(records), mark, behind)
        self.rows += len(records)
        self.cost += records.nbytes + len(records) * self._each

    def cut_off(self, row: int) -> _Load:
        """Take off the rows from this one on, as a load of their own."""
        whole = list(zip(self._parts, self.places.runs, strict=True))
        self.rows = self.cost = 0
        self.places, self._parts = _Places(), []
        rest = _Load(self._content, self._threads, self._each)
        for part, run in whole:
            kept = min(max(row - (run.end - len(part)), 0), len(part))
            if kept:
                self.add(part[:kept], run.mark, run.behind + len(part) - kept)
            if kept < len(part):
                rest.add(part[kept:], run.mark, run.behind)
        return rest

    def begin(self, threads: int) -> None:
        """Let a thread decode it, and ask so many for its images."""
        if self._apart:
            return
        numbers = self._content.numbers(self._parts)
        if numbers is not None and begin(numbers, self._threads):
            self._decoding = os.getpid(), numbers
        else:
            future = workers(self._threads).submit(self._made_ahead, threads)
            self._decoding = os.getpid(), future

    def _made_ahead(self, threads: int) -> _Made:
        """What a thread makes. The records go as soon as their columns are there: what waits is not
        held twice. A forked child finds the ones or the others."""
        made = self._ready = _made(self._content, self._parts, threads)
        if not made.warnings:  # which the caller's filter may make errors
            self._parts = []
        return made

    @property
    def future(self) -> Any:
        """The `Future` of what decodes it, if Python does."""
        begun = None if self._decoding is None else self._decoding[1]
        return begun if hasattr(begun, "cancel") else None  # `Future` is gone where a program ends

    def batch(self, start: int, stop: int) -> Any:
        """The columns of some rows. Raises for those alone that cannot be decoded."""
        if self._decoded is None and not self._apart:
            try:
                self._take(self._result())
            except Exception:
                self._apart, self._decoding = True, None  # the error's frames hold the load
        if self._apart:
            made = _made(self._content, [*between(self._parts, start, stop)], self._threads)
            return self._content.cut(self._take(made), 0, stop - start)
        return self._content.cut(self._decoded, start, stop)

    def _result(self) -> _Made:
        assert self._decoding is not None
        process, begun = self._decoding
        if process == os.getpid():  # no thread works on it in a forked child
            begins_now = begins(begun)
            if isinstance(begun, Future) and begins_now:
                made: _Made = begun.result()
                return made
            if not isinstance(begun, Future) and (found := begun.result()) is not None:
                return _Made(found[0], [], found[1])
        return self._ready or _made(self._content, self._parts, self._threads)

    def _take(self, made: _Made) -> Any:
        self.seconds += made.seconds
        for text in made.warnings:
            warnings.warn(text, DataLossWarning, stacklevel=4)
        if not self._apart:
            self._decoded, self._decoding, self._ready, self._parts = made.columns, None, None, []
        return made.columns


class _Made(NamedTuple):
    """The columns of a load, warnings to tell with them, and the seconds that they took."""

    columns: Any
    warnings: list[str]
    seconds: float


def _made(content: LoaderContent, parts: list[RecordBatch], threads: int | None) -> _Made:
    begun, told = perf_counter(), list[str]()
    columns = content.made(parts, threads, told.append)
    return _Made(columns, told, perf_counter() - begun)


class Gathering:
    """Batches of ``size`` rows; the last one may be smaller, or is left out by ``drop_last``.
    ``threads``: how many work at a time. Default: all `workers`.

    A dropped one lets go of all that waits. A forked child goes on by itself."""

    def __init__(
        self,
        reader: Reader,
        content: LoaderContent,
        size: int,
        drop_last: bool,
        threads: int | None = None,
    ) -> None:
        self._owner = Owner()
        self._reader, self._content = reader, content
        self._size, self._drop_last, self._threads = size, drop_last, threads
        self._at_once = threads or cores()
        self._each = content.nbytes_each
        self._traversal = traversal_of(reader)
        if threads is not None:
            self._traversal.limit(threads)
        self._records = reader.batches()
        self._left: RecordBatch | None = None
        """Records of the reader's last batch that are in no load yet."""
        self._mark: AnyMark | None = None
        """Where the reader stands behind that batch; at the end, behind the epoch."""
        self._growing: _Load | None = None
        """The load that is being gathered."""
        self._together, self._wanted = 1, 0
        """The next load has so many batches, if they are not too long; and the growing one so many
        rows."""
        self._loads: deque[_Load] = deque()
        self._held = self._kept = self._room = 0
        self._row = self._given = 0
        """The rows that were given of the first load, and of the last batch."""
        self._stands: tuple[_Places, int] | None = None
        """The row before which the state stands."""
        self._ended = False
        """Whether the reader has nothing left."""
        self._failed: Exception | None = None
        """What reading further met."""
        self.over = False
        """Whether all was given, as far as the caller has seen."""
        self._rows = 0
        self._waited = self._seconds = 0.0

    def state(self, unread: int = 0) -> dict[str, Any]:
        """The reader's state, behind the batches that are `done`, before so many of the last rows
        of these."""
        if self.over and not unread and self._mark is not None:
            return self._mark.state(0)
        if self._stands is None:
            return self._reader.state()
        return self.place()(unread)

    def place(self) -> Callable[[int], dict[str, Any]]:
        """What `state` answers now, once something is `done`, for callers who ask when more is."""
        assert self._stands is not None
        places, row = self._stands
        return lambda unread: places.state(row - unread)

    @property
    def room(self) -> int:
        """Bytes of the budget for what is made of records."""
        return self._traversal.room

    def keep(self, nbytes: int) -> None:
        """Take so many bytes of the budget for what the caller holds of the batches."""
        self._kept = nbytes
        self._hold(0)

    def batch(self) -> Any:
        """The columns of the next batch, or a list of records; None at the end. It is the next one
        until it is `done`."""
        self._fill()
        begun = perf_counter()
        if not self._loads:
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            self.over, self._given = True, 0
            return None
        load = self._loads[0]
        stop = min(self._row + self._size, load.rows)
        columns = load.batch(self._row, stop)
        self._given = stop - self._row
        self._waited += perf_counter() - begun
        return columns

    def done(self) -> None:
        """The batch is used: the state stands behind it."""
        if not self._given:
            return
        load = self._loads[0]
        self._row += self._given
        self._rows += self._given
        self.over = self._given < self._size
        self._stands, self._given = (load.places, self._row), 0
        if self._row == load.rows:
            self._loads.popleft()
            self._row = 0
            self._seconds += load.seconds
            self._hold(-load.cost)

    def metrics(self) -> dict[str, float]:
        """Those of the reader, and what decoding took. Records are those that were given."""
        found = self._traversal.metrics()
        found["waited_s"] += self._waited
        seconds = self._seconds + sum(load.seconds for load in self._loads)
        return {**found, "records": self._rows, "decode_s": seconds}

    def _hold(self, nbytes: int) -> None:
        self._held += nbytes
        self._traversal.hold(self._held + self._kept)

    # Reading ahead

    def _fill(self) -> None:
        """Begin loads, as far as there is room for them. Nobody waits for a store while there is a
        load to give."""
        if self._stands is None:
            beginning = _Places()
            beginning.add(0, self._traversal.mark(), 0)
            self._stands, self._room = (beginning, 0), self._traversal.room
        while not self._ended and self._failed is None and self._has_room():
            load = self._gathered()
            if load is not None:
                begun = len(self._loads) + 1  # of many loads, each has a thread of its own
                load.begin(min(self._at_once, -(-2 * self._at_once // begun)))
                self._loads.append(load)
                self._hold(load.cost)

    def _has_room(self) -> bool:
        if not self._loads:
            return True
        if self._content.schema is None or (self._left is None and self._traversal.waits):
            return False  # nothing is done ahead, or can be
        some = len(self._loads) < self._at_once + _MORE
        return some and self._held + self._kept + self._loads[-1].cost <= self._room

    def _gathered(self) -> _Load | None:
        """The next load. None where the data ends, or reading fails, before a batch is whole."""
        load = self._growing or _Load(self._content, self._threads, self._each)
        self._growing = load
        while load.rows < self._size or load.rows < self._wanted:
            if self._left is None and self._traversal.waits:
                if self._loads:
                    return None  # it grows on when more has come
                if load.rows >= self._size:
                    break  # whole batches of a load that could be longer
            if self._left is None and not self._read():
                break
            assert self._left is not None
            assert self._mark is not None
            if not load.rows:
                self._wanted = self._rows_together(self._left)
            count = min(max(self._size, self._wanted) - load.rows, len(self._left))
            load.add(self._left[:count], self._mark, len(self._left) - count)
            self._left = self._left[count:] or None
        self._growing = None
        rest = load.rows % self._size
        if rest and (self._drop_last or not self._ended):
            cut = load.cut_off(load.rows - rest)
            self._growing = None if self._ended else cut
        return load if load.rows else None

    def _rows_together(self, records: RecordBatch) -> int:
        """How many rows a load of such records has: those of a few batches, and of one at first, or
        if there are images."""
        if self._content.images:
            return self._size
        each = records.nbytes // len(records) + self._each
        most = max(_LEAST, min(_AT_ONCE, self._room // (self._at_once + _MORE)))
        count = min(self._together, max(1, most // (self._size * max(each, 1))))
        self._together *= 2
        return count * self._size

    def _read(self) -> bool:
        """Go to the reader's next batch. False where there is none, or reading fails."""
        try:
            self._left = next(self._records, None)
        except Exception as error:
            self._failed = error
            return False
        self._mark = self._traversal.mark()
        self._ended = self._left is None
        return not self._ended

    def __del__(self) -> None:
        if hasattr(self, "_seconds"):
            waiting = [load.future for load in self._loads if load.future is not None]
            if waiting:
                self._owner.later(cancel_all, waiting)
