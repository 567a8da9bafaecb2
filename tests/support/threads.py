"""Threads that begin together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["THREADS", "in_threads"]

THREADS = 8

T = TypeVar("T")


def in_threads(work: Callable[[int], T]) -> list[T]:
    """What ``work`` answers in each of `THREADS`, which it gets the number of. Its first exception
    is raised here."""
    ready = threading.Barrier(THREADS)

    def begin(number: int) -> T:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))
