"""Says in the log when a store is silent: no whole answer has come for a request that waits.

A request notes that it waits, and that it has ended: an entry in a dict. One thread looks at them
once a second, while there are any.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from collections import defaultdict
from time import monotonic, sleep  # by themselves: tests replace those of the module

from tfio_store.storage.threads import PerProcess, start_daemon

__all__ = ["Waiting", "log"]

log = logging.getLogger("tfio_store")
"""The library's one logger: what it does on its own that a person may ask about."""

SILENT_S = 30.0
"""Seconds without an answer after which a line says so; then after twice as many, and so on."""

STEP_S = 1.0
"""Seconds between looks."""

LONGEST_FAULT = 300
"""Characters of a fault in a line of the log."""


class Waiting:
    """A request from its first attempt to its end. ``url`` and ``fault`` show no secret."""

    __slots__ = ("came", "failures", "fault", "since", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.failures = 0
        self.fault = ""
        """What ended the last attempt."""
        self.came = False
        """Whether it has ended with an answer."""

    def begin(self) -> None:
        self.since = monotonic()
        _watch.here.add(self)

    def end(self) -> None:
        _watch.here.remove(self)

    @property
    def place(self) -> str:
        """The bucket, or the host."""
        scheme, mark, path = self.url.partition("://")
        return f"{scheme}{mark}{path.partition('/')[0]}" if mark else self.url


class Silence:
    """One of a place: requests to it that have waited for long."""

    def __init__(self) -> None:
        self.late: list[Waiting] = []
        self.due = 0.0
        """Seconds of waiting after which the next line is due."""
        self.came = False
        """Whether one of them has got its answer since."""

    def look(self, place: str, late: list[Waiting], now: float) -> None:
        before, self.late = self.late, late
        self.came = self.came or any(request.came for request in before)
        if late:
            self._tell(place, min(late, key=lambda request: request.since), now)
        elif self.came:
            since = min(request.since for request in before)
            log.warning("%s: goes on after %.0f s", place, now - since)

    def _tell(self, place: str, first: Waiting, now: float) -> None:
        waited = now - first.since
        if waited < self.due:
            return
        self.due = 2 * max(self.due, SILENT_S)
        many = len(self.late)
        others = f"; {many} requests to {place} wait" if many > 1 else ""
        last = f", the last by {first.fault[:LONGEST_FAULT]}" if first.fault else ""
        text = "%s: no whole answer for %.0f s; failed attempts: %d%s%s"
        log.warning(text, first.url, waited, first.failures, last, others)


class Watch:
    """The requests of this process that wait, and the thread that looks at them."""

    def __init__(self) -> None:
        self._waiting: dict[int, Waiting] = {}
        self._silences: defaultdict[str, Silence] = defaultdict(Silence)
        self._lock = threading.Lock()
        self._running = False

    def add(self, request: Waiting) -> None:
        self._waiting[id(request)] = request
        if not self._running:  # after the entry can be seen: see `_is_needed`
            self._start()

    def remove(self, request: Waiting) -> None:
        self._waiting.pop(id(request), None)  # a forked child has those of its parent elsewhere

    def _start(self) -> None:
        with self._lock, contextlib.suppress(RuntimeError):  # the end, or too many threads
            if not self._running:
                start_daemon(self._run, "tfio_store-silence")
                self._running = True

    def _run(self) -> None:
        sleep(STEP_S)
        while self._is_needed():
            self._look(monotonic())
            sleep(STEP_S)

    def _is_needed(self) -> bool:
        with self._lock:
            self._running = bool(self._waiting or self._silences)
            return self._running

    def _look(self, now: float) -> None:
        late: dict[str, list[Waiting]] = {place: [] for place in self._silences}
        for request in list(self._waiting.values()):
            if now - request.since >= SILENT_S:
                late.setdefault(request.place, []).append(request)
        for place, requests in late.items():
            if not _ended.is_set():
                self._silences[place].look(place, requests, now)
            if not requests:
                del self._silences[place]


_watch = PerProcess(Watch)

_ended = threading.Event()
"""Set when the interpreter ends: what writes the log may be gone."""

atexit.register(_ended.set)
