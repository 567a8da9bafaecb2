"""Remembers what a listing said about names, for the questions that follow it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

__all__ = ["Hints"]

SECONDS = 5.0


class Hints:
    """Whether listed paths are folders, remembered for a few seconds.

    ``tf.io.gfile.walk`` asks ``isdir`` about every name of a listing. Without the memory, 10,000
    keys would take 10,000 requests. Only ``isdir`` uses it, and any change made here clears it. So
    at worst somebody else's change is seen a few seconds late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, bool] = {}
        self._until = 0.0

    def learn(self, listed: Iterable[tuple[str, bool]]) -> None:
        now = time.monotonic()
        with self._lock:
            if now > self._until:
                self._known.clear()
                self._until = now + SECONDS
            self._known.update(listed)

    def is_folder(self, path: str) -> bool | None:
        """None: not known."""
        with self._lock:
            return self._known.get(path) if time.monotonic() <= self._until else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
