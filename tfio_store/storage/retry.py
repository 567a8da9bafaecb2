"""How often and how patiently a request is made again."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tfio_store.storage.faults import is_transient, raise_named

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
    bytes. Filesystems without an asynchronous interface keep to their own timeouts.
    """

    attempts: int = 8
    base_delay: float = 0.1
    max_delay: float = 10.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts!r}): pass 1 (no retries) or more")
        for name in ("base_delay", "max_delay"):
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

        failures = 0
        while True:
            try:
                return await asyncio.wait_for(attempt(), self.limit(nbytes))
            except Exception as fault:
                failures += 1
                if failures >= self.attempts or not is_transient(fault):
                    raise_named(fault, url, failures)
                await asyncio.sleep(self.delay(failures))

    def run_blocking(self, attempt: Callable[[], T], url: str) -> T:
        """`run` for a filesystem that blocks."""
        failures = 0
        while True:
            try:
                return attempt()
            except Exception as fault:
                failures += 1
                if failures >= self.attempts or not is_transient(fault):
                    raise_named(fault, url, failures)
                time.sleep(self.delay(failures))
