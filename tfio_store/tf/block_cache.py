"""Blocks that are being fetched, or are used by more than one call. Knows no TensorFlow.

A pipeline says which blocks it will want (`begin`) well before it wants them (`take`), so that
many requests are in flight while no thread of TensorFlow's waits. A block that is cut into several
batches is fetched and decompressed once, and let go when the last of its records was taken. Only
ever a cache: whatever is not found is fetched.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["BlockCache", "Key"]

Key: TypeAlias = "tuple[str, int, int, str]"
"""URL, stored bytes from and to, access."""

IDLE_SECONDS = 30.0
"""Blocks that nobody came for (an iterator was dropped) are let go after this."""


class _Entry:
    __slots__ = ("data", "future", "left", "lock", "nbytes", "used")

    def __init__(self, future: Future[BytesLike], nbytes: int) -> None:
        self.future = future
        self.nbytes = nbytes
        self.data: BytesLike | None = None
        self.left: int | None = None
        self.lock = threading.Lock()
        self.used = time.monotonic()

    def decoded(self, decode: Callable[[BytesLike], BytesLike]) -> BytesLike:
        with self.lock:
            if self.data is None:
                self.data = decode(self.future.result())
            return self.data


class BlockCache:
    """At most ``limit`` uncompressed bytes; beyond that the longest unused block goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._nbytes = 0
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A forked child has neither its parent's connections nor, perhaps, a free lock."""
        self._lock = threading.Lock()
        self._entries = OrderedDict()
        self._nbytes = 0

    def begin(self, key: Key, nbytes: int, fetch: Callable[[], Future[BytesLike]]) -> None:
        """Have the block fetched, unless it is; ``nbytes`` is its uncompressed size."""
        with self._lock:
            if key not in self._entries:
                self._add(key, _Entry(fetch(), nbytes))

    def take(
        self,
        key: Key,
        nbytes: int,
        fetch: Callable[[], Future[BytesLike]],
        decode: Callable[[BytesLike], BytesLike],
        *,
        share: tuple[int, int],
    ) -> BytesLike:
        """The block's uncompressed bytes. ``share`` is (its records, how many of them are used)."""
        records, used = share
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = _Entry(fetch(), nbytes)
                if used < records:
                    self._add(key, entry)
            else:
                self._entries.move_to_end(key)
            entry.left = (records if entry.left is None else entry.left) - used
            entry.used = time.monotonic()
            if entry.left <= 0:
                self._drop(key, entry)
        try:
            return entry.decoded(decode)
        except BaseException:
            with self._lock:
                self._drop(key, entry)  # the next to ask tries again
            raise

    def _add(self, key: Key, entry: _Entry) -> None:
        self._entries[key] = entry
        self._nbytes += entry.nbytes
        while len(self._entries) > 1:
            oldest, first = next(iter(self._entries.items()))
            if self._nbytes <= self._limit and entry.used - first.used < IDLE_SECONDS:
                break
            first.future.cancel()
            self._drop(oldest, first)

    def _drop(self, key: Key, entry: _Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]
            self._nbytes -= entry.nbytes
