"""Signs of life of the writers in this process, however slowly their records come."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from tfio_store.storage.process import PerProcess, quietly, start_daemon

__all__ = ["BEAT_SECONDS", "Pulse"]

BEAT_SECONDS = 300.0
"""How often a writer at work gives a sign of life; `clean` waits for a day without one."""


class Pulse:
    """Calls ``beat``, which renews a claim, now and then, until `stop`, or until nobody holds this
    any more. Forked children do not inherit it: what the parent does, the parent shows."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self.beat = beat
        _heart.here.add(self)

    def stop(self) -> None:
        _heart.here.discard(self)


class Heart:
    """The thread of all pulses in a process. It begins with the first one."""

    def __init__(self) -> None:
        self._pulses: weakref.WeakSet[Pulse] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._started = False

    def add(self, pulse: Pulse) -> None:
        with self._lock:
            self._pulses.add(pulse)
            if not self._started:
                start_daemon(self._run, "tfio_store-pulse")
                self._started = True

    def discard(self, pulse: Pulse) -> None:
        with self._lock:
            self._pulses.discard(pulse)

    def _run(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._lock:
                pulses = list(self._pulses)
            while pulses:  # none is kept while the thread sleeps
                quietly(pulses.pop().beat)


_heart = PerProcess(Heart)
