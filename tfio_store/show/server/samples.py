"""Samples that are taken in the background, one after another. A seed names one of them.

A page that asks for a sample gets it, or hears how far it is and asks again. So the first page is
there at once, however slow the store is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import RecordBatch
from tfio_store.show.kept import Opened
from tfio_store.show.model import Facts, Place
from tfio_store.show.server.opening import Shown
from tfio_store.write.progress import OnProgress, Progress

__all__ = ["BusyError", "Key", "Look", "Looked", "Looking", "Sampled", "Samples"]

T = TypeVar("T")

_KEPT = 2
"""Samples in memory: what is seen, and what was seen before."""


class BusyError(Exception):
    """As many samples as may wait are waiting."""


class Sampled(Protocol):
    """Records of a sample, by their rows."""

    @property
    def places(self) -> Sequence[Place]: ...

    def record(self, row: int) -> bytes:
        """IndexError if there is no such row. One that is not in memory is read again."""

    def held(self) -> Iterable[tuple[npt.NDArray[np.int64], RecordBatch]]:
        """The rows that are in memory, with their records."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A sample and what it tells."""

    sample: Sampled
    facts: Facts


@dataclass(frozen=True, slots=True)
class Key:
    """What a sample is made by."""

    seed: int
    blocks: int


Look = Callable[[Opened, Key, OnProgress], Looked]


class Looking:
    """A sample that is taken, or is to be. ``records`` and ``nbytes`` have been read."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.result: Future[Looked] = Future()
        self.records = self.nbytes = 0

    def tell(self, progress: Progress) -> None:
        self.records, self.nbytes = progress.records, progress.nbytes


class Samples:
    """Opens the source, and then takes samples, all in one thread of its own."""

    def __init__(self, open_source: Callable[[], Shown], look: Look) -> None:
        self.shown: Future[Shown] = Future()
        self._open = open_source
        self._look = look
        self._known: OrderedDict[Key, Looking] = OrderedDict()
        self._lock = threading.Lock()
        self._wanted: SimpleQueue[Looking] = SimpleQueue()

    def start(self, first: Key) -> None:
        """Begin, with this sample. The thread does not keep the process from ending."""
        self.of(first)
        threading.Thread(target=self._work, name="tfio_store-samples", daemon=True).start()

    def of(self, key: Key) -> Looking:
        """The sample of this key, which is taken if it is not there. `BusyError` if too many are
        asked for at once."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._begin(key)
            self._known.move_to_end(key)
            return found

    def _begin(self, key: Key) -> Looking:
        waiting = sum(not each.result.done() for each in self._known.values())
        if waiting >= _KEPT:
            raise BusyError
        found = self._known[key] = Looking(key)
        while len(self._known) > _KEPT:
            self._drop_oldest()
        self._wanted.put(found)
        return found

    def _drop_oldest(self) -> None:
        oldest = next(key for key, each in self._known.items() if each.result.done())
        del self._known[oldest]

    def _work(self) -> None:
        _settle(self.shown, self._open)
        while True:
            looking = self._wanted.get()
            _settle(looking.result, partial(self._looked, looking))
            del looking  # or it would stay in memory until the next one is asked for

    def _looked(self, looking: Looking) -> Looked:
        return self._look(self.shown.result().opened, looking.key, looking.tell)

    def forget(self, looking: Looking) -> None:
        """One that failed, once its error is told: who asks again has it taken again."""
        with self._lock:
            if self._known.get(looking.key) is looking:
                del self._known[looking.key]


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
