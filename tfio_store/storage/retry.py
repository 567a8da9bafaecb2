"""How often and how patiently a request is made again, and what the log says while it waits."""

from __future__ import annotations

import atexit
import contextlib
import logging
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from time import monotonic, sleep
from typing import Any, TypeVar

from tfio_store.storage.answers import status_of
from tfio_store.storage.faults import is_refused, is_slow_down, is_transient, named
from tfio_store.storage.pace import Pace
from tfio_store.storage.redaction import redacted
from tfio_store.storage.threads import PerProcess, start_daemon

__all__ = ["Retry", "log"]

log = logging.getLogger("tfio_store")
"""The library's one logger: what it does on its own that a person may ask about."""

T = TypeVar("T")

SLOWEST_LINK = 256 * 1024
"""Bytes per second below which an attempt that moves many bytes counts as stalled."""


SLOWER = 2
"""A store that wants fewer requests is waited for as if so many attempts more had failed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How to repeat requests after passing faults.

    These are timeouts, resets, 408/429/5xx answers and short bodies. Other faults are raised at
    once. ``outage`` says how long a job waits through an outage. Before attempt n + 1 a
    request waits a random time of up to ``min(max_delay, base_delay * 2**(n - 1))`` seconds ("full
    jitter": it spreads clients that a store has turned away together), and up to four times that
    where the store answers that it is asked too often (503 SlowDown). The logger ``tfio_store``
    logs each repeated attempt, at level INFO, and at level WARNING each store of which nothing has
    come for 30 seconds.

    Args:
        attempts (int | None): How often a request is made at most. Default None: ``outage`` alone
            decides.
        base_delay (float): Seconds: the longest wait before the second attempt. Default 0.1.
        max_delay (float): Seconds: the longest wait of all. Default 10.
        timeout (float): Seconds for one attempt, and more for many bytes. Filesystems without an
            asynchronous interface keep to their own timeouts. Default 30.
        refused (float): Seconds for which an address is tried that has never answered (a refused
            connection, an unknown name): it may be wrong. Default 5. Of a bucket or a server that
            has answered this process, ``outage`` counts.
        outage (float): Seconds for which a request is repeated while its store is down: an attempt
            that begins later is the last. Time in which a request waits for its turn, because the
            store wants fewer of them, does not count. Default 300. 0 repeats nothing.

    Raises:
        TypeError: An argument is no number.
        ValueError: A number is out of its range.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> reader = tfs.RecordReader(
        ...     "train", storage=tfs.Storage(retry=tfs.Retry(outage=1800, timeout=60))
        ... )
    """

    attempts: int | None = None
    base_delay: float = 0.1
    max_delay: float = 10.0
    timeout: float = 30.0
    refused: float = 5.0
    outage: float = 300.0

    def __post_init__(self) -> None:
        given = self.attempts
        if given is not None and (isinstance(given, bool) or not isinstance(given, Integral)):
            raise TypeError(f"Retry(attempts={given!r}): pass a whole number, or None")
        if given is not None and given < 1:
            raise ValueError(f"Retry(attempts={given!r}): pass 1 (no retries) or more")
        for name in ("base_delay", "max_delay", "timeout", "refused", "outage"):
            _check_seconds(name, getattr(self, name))

    def delay(self, failures: int) -> float:
        """Draw the time to wait before the next attempt.

        Args:
            failures (int): How many attempts have failed in a row.

        Returns:
            float: Seconds.
        """
        # 2**failures without an overflow: no wait is longer than max_delay anyway
        ceiling = min(self.max_delay, self.base_delay * 2.0 ** min(failures - 1, 64))
        return random.uniform(0, ceiling)

    def limit(self, nbytes: int) -> float:
        """Return how long one attempt may take.

        Args:
            nbytes (int): The bytes that it moves.

        Returns:
            float: Seconds.
        """
        return self.timeout + nbytes / SLOWEST_LINK

    async def run(self, attempt: Callable[[], Awaitable[T]], url: str, *, nbytes: int = 0) -> T:
        """Await ``attempt()`` until it succeeds.

        Args:
            attempt (Callable): A function that returns an awaitable.
            url (str): What to name in errors.
            nbytes (int): The bytes that an attempt moves, for its time limit. Default 0.

        Returns:
            What ``attempt()`` gives.

        Raises:
            OSError: What stopped the last attempt, with ``url``.
        """
        return await repeated(self, attempt, redacted(url), nbytes, Pace())

    def run_blocking(self, attempt: Callable[[], T], url: str) -> T:
        """Call ``attempt()`` until it succeeds: `run` for a filesystem that blocks.

        Args:
            attempt (Callable): The request.
            url (str): What to name in errors.

        Returns:
            What ``attempt()`` returns.

        Raises:
            OSError: What stopped the last attempt, with ``url``.
        """
        return repeated_blocking(self, attempt, redacted(url), Pace())


def _check_seconds(name: str, seconds: Any) -> None:
    """A patience may be endless. A pause or an attempt without an end would hang."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise TypeError(f"Retry({name}={seconds!r}): pass seconds")
    number = float(seconds)
    least = "more than 0" if name == "timeout" else "0 or more"
    enough = number > 0 if name == "timeout" else number >= 0  # no NaN is
    if not enough or (number == inf and name not in ("refused", "outage")):
        raise ValueError(f"Retry({name}={seconds!r}): pass seconds, {least}")


async def repeated(
    retry: Retry,
    attempt: Callable[[], Awaitable[T]],
    url: str,
    nbytes: int,
    pace: Pace,
    secrets: re.Pattern[str] | None = None,
) -> T:
    """`Retry.run`, where each attempt begins when the ``pace`` of its store allows it. Errors and
    the log show none of the ``secrets`` of the store's options, whatever the store answers."""
    import asyncio  # imported late: it takes 20 ms

    with Trials(retry, url, pace, secrets) as trials:
        while True:
            while (wait := trials.wait()) > 0:
                await asyncio.sleep(wait)
            try:
                answer = await asyncio.wait_for(attempt(), retry.limit(nbytes))
            except BaseException as fault:
                pause = trials.ended(fault)
            else:
                trials.ended()
                pace.answered = True
                return answer
            if isinstance(pause, BaseException):
                raise pause  # outside the handler, which would chain the fault to it as it was
            await asyncio.sleep(pause)


def repeated_blocking(
    retry: Retry,
    attempt: Callable[[], T],
    url: str,
    pace: Pace,
    secrets: re.Pattern[str] | None = None,
    rest: Callable[[float], object] | None = None,
) -> T:
    """`repeated` for an attempt that blocks, and limits its time itself. ``rest``: how to wait."""
    pause_for = rest or sleep
    with Trials(retry, url, pace, secrets) as trials:
        while True:
            while (wait := trials.wait()) > 0:
                pause_for(wait)
            try:
                answer = attempt()
            except BaseException as fault:
                pause = trials.ended(fault)
            else:
                trials.ended()
                return answer
            if isinstance(pause, BaseException):
                raise pause
            pause_for(pause)


class Trials:
    """The attempts at one request: when the next one may begin, and what its fault leads to. All
    waiting is left to the caller."""

    def __init__(
        self, retry: Retry, url: str, pace: Pace, secrets: re.Pattern[str] | None = None
    ) -> None:
        self._retry = retry
        self._url = url
        self._pace = pace
        self._secrets = secrets
        self._waiting = Waiting(url)
        self._refused = 0.0  # seconds waited for somebody to answer
        self._lasted = 0.0  # seconds of attempts, and of pauses between them
        self._begun = 0.0

    def __enter__(self) -> Trials:
        self._number = self._pace.join()
        self._waiting.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.end()
        self._pace.leave(self._number)

    def wait(self) -> float:
        """Seconds after which to ask again, or 0: an attempt has begun, and `ended` must follow."""
        now = monotonic()
        wait = self._pace.wait(self._number, now)
        self._begun = now
        return wait

    def ended(self, fault: BaseException | None = None) -> float | BaseException:
        """Return the seconds until the next attempt, or the exception to raise in place of one."""
        now = monotonic()
        refused = fault is not None and is_slow_down(fault)
        self._pace.ended(now, self._begun, refused=refused)
        if fault is None:
            self._waiting.came = True
            return 0.0
        if status_of(fault) is not None:
            self._pace.answered = True
        return self._after(fault, now) if isinstance(fault, Exception) else fault

    def _after(self, fault: Exception, now: float) -> float | Exception:
        failures = self._waiting.failures = self._waiting.failures + 1
        retry, most = self._retry, self._retry.attempts
        given_up = failures == most or self._lasted >= retry.outage  # when this attempt began
        pause = retry.delay(failures + SLOWER * is_slow_down(fault))
        self._lasted += now - self._begun + pause
        if is_refused(fault) and not self._pace.answered:
            self._refused += pause
            given_up = given_up or self._refused > retry.refused
        if given_up or not is_transient(fault):
            return named(fault, self._url, failures, self._secrets)
        said = redacted(f"{type(fault).__name__}: {fault}", self._secrets)
        self._waiting.fault = said
        text = "%s: attempt %d%s failed, the next is in %.1f s: %s"
        log.info(text, self._url, failures, f" of {most}" if most else "", pause, said)
        return pause


# Says in the log when a store is silent: no whole answer has come for a request that waits.
#
# A request notes that it waits, and that it has ended: an entry in a dict. One thread looks at them
# once a second, while there are any.


SILENT_S = 30.0
"""Seconds without an answer after which a line says so; then after twice as many, and so on."""

STEP_S = 1.0
"""Seconds between looks."""

LONGEST_FAULT = 300
"""Characters of a fault in a line of the log."""


def place_of(url: str) -> str:
    """The bucket, or the host."""
    scheme, mark, path = url.partition("://")
    return f"{scheme}{mark}{path.partition('/')[0]}" if mark else url


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
        self.since = time.monotonic()
        _watch.here.add(self)

    def end(self) -> None:
        _watch.here.remove(self)


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
        fault = " ".join(first.fault.split())[:LONGEST_FAULT]
        last = f", the last by {fault}" if fault else ""
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
        try:
            sleep(STEP_S)
            while self._is_needed():
                self._look(time.monotonic())
                sleep(STEP_S)
        except BaseException:  # of whoever takes the lines of the log
            self._running = False  # so that the next request starts another
            raise

    def _is_needed(self) -> bool:
        with self._lock:
            self._running = False  # first: who comes behind the look starts another thread
            if self._waiting or self._silences:
                self._running = True
            return self._running

    def _look(self, now: float) -> None:
        late: dict[str, list[Waiting]] = {place: [] for place in self._silences}
        for request in list(self._waiting.values()):
            if now - request.since >= SILENT_S:
                late.setdefault(place_of(request.url), []).append(request)
        for place, requests in late.items():
            if not _ended.is_set():
                self._silences[place].look(place, requests, now)
            if not requests:
                del self._silences[place]


_watch = PerProcess(Watch)

_ended = threading.Event()
"""Set when the interpreter ends: what writes the log may be gone."""

atexit.register(_ended.set)
