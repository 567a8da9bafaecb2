"""Signs of life of the writers in this process, however slowly their records come."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from tfio_store.storage.process import PerProcess, quietly

if TYPE_CHECKING:
    from tfio_store.write.held_claim import HeldClaim

__all__ = ["BEAT_SECONDS", "Pulse"]

BEAT_SECONDS = 300.0
"""How often a writer at work gives a sign of life; `clean` waits for a day without one."""


class Pulse:
    """Renews a claim now and then, until `stop`, or until nobody holds this any more. It is not
    inherited by forked children: what the parent does, the parent shows."""

    def __init__(self, claim: HeldClaim) -> None:
        self._claim = claim
        _heart.here.add(self)

    def beat(self) -> None:
        self._claim.beat()

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
                threading.Thread(target=self._run, name="tfio_store-pulse", daemon=True).start()
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
