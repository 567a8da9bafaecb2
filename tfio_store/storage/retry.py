"""How often and how patiently a request is made again."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tfio_store.storage.faults import is_refused, is_transient, named
from tfio_store.storage.log import log
from tfio_store.storage.redaction import redacted

__all__ = ["Retry"]

T = TypeVar("T")

SLOWEST_LINK = 256 * 1024
"""Bytes per second below which an attempt that moves many bytes counts as stalled."""


@dataclass(frozen=True, slots=True)
class Retry:
    """What to do about passing faults: timeouts, resets, 408/429/5xx answers, short bodies.

    A request is made at most ``attempts`` times; other faults are raised at once.
    Before attempt n + 1 it waits a random time of up to
    ``min(max_delay, base_delay * 2**(n - 1))`` seconds ("full jitter", which spreads clients that a
    store has turned away together). One attempt may take ``timeout`` seconds, and longer for many
    bytes. Filesystems without an asynchronous interface keep to their own timeouts. An address that
    nobody answers at (a refused connection, an unknown name) is tried for ``refused`` seconds.

    Each attempt that is made again is told to the logger ``tfio_store``, at level INFO.
    """

    attempts: int = 8
    base_delay: float = 0.1
    max_delay: float = 10.0
    timeout: float = 30.0
    refused: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts!r}): pass 1 (no retries) or more")
        for name in ("base_delay", "max_delay", "refused"):
            if getattr(self, name) < 0:
                raise ValueError(f"Retry({name}={getattr(self, name)!r}): pass seconds, 0 or more")
        if self.timeout <= 0:
            raise ValueError(f"Retry(timeout={self.timeout!r}): pass seconds, more than 0")

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        # 2**failures without an overflow: nobody waits longer than max_delay anyway
        ceiling = min(self.max_delay, self.base_delay * 2.0 ** min(failures - 1, 64))
        return random.uniform(0, ceiling)

    def limit(self, nbytes: int) -> float:
        """Seconds that one attempt to move ``nbytes`` may take."""
        return self.timeout + nbytes / SLOWEST_LINK

    async def run(self, attempt: Callable[[], Awaitable[T]], url: str, *, nbytes: int = 0) -> T:
        """Await ``attempt()`` until it succeeds, or raise what stopped it, naming ``url``."""
        import asyncio  # costs 20 ms, which who imports the library need not wait for

        trials = Trials(self, url)
        while True:
            try:
                return await asyncio.wait_for(attempt(), self.limit(nbytes))
            except Exception as fault:
                pause = trials.after(fault)
            if isinstance(pause, Exception):
                raise pause  # outside the handler, which would chain the fault to it as it was
            await asyncio.sleep(pause)

    def run_blocking(self, attempt: Callable[[], T], url: str) -> T:
        """`run` for a filesystem that blocks."""
        trials = Trials(self, url)
        while True:
            try:
                return attempt()
            except Exception as fault:
                pause = trials.after(fault)
            if isinstance(pause, Exception):
                raise pause
            time.sleep(pause)


class Trials:
    """The attempts at one request."""

    def __init__(self, retry: Retry, url: str) -> None:
        self._retry = retry
        self._url = url
        self._failures = 0
        self._refused = 0.0  # seconds waited for somebody to answer

    def after(self, fault: Exception) -> float | Exception:
        """Seconds until the next attempt; what to raise instead of making one."""
        self._failures += 1
        retry = self._retry
        if self._failures >= retry.attempts or not is_transient(fault):
            return named(fault, self._url, self._failures)
        pause = retry.delay(self._failures)
        if is_refused(fault):
            self._refused += pause
            if self._refused > retry.refused:
                return named(fault, self._url, self._failures)
        said = redacted(f"{type(fault).__name__}: {fault}")
        text = "%s: attempt %d of %d failed, the next is in %.1f s: %s"
        log.info(text, self._url, self._failures, retry.attempts, pause, said)
        return pause
