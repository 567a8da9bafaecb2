"""Blocks that are being fetched and decompressed. Knows no TensorFlow.

A pipeline says which blocks it will want (`begin`) well before it wants them (`take`), so that
many requests are in flight, and all cores decompress, while no thread of TensorFlow's waits. Only
ever a head start: whatever is not found is fetched.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tfio_store.storage import threads

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["BegunBlocks", "Key", "then"]

Key: TypeAlias = "tuple[str, str, int, int, str]"
"""URL, version, stored bytes from and to, access."""

IDLE_SECONDS = 30.0
"""Blocks that nobody came for (an iterator was dropped) are let go after this."""


def then(first: Future[BytesLike], change: Callable[[BytesLike], BytesLike]) -> Future[BytesLike]:
    """What ``change`` makes of what ``first`` brings, made by one of as many threads as cores."""
    pool = threads.pool("decode", os.cpu_count() or 1)
    changed: Future[BytesLike] = Future()

    def run() -> None:
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(change(first.result()))
        except BaseException as error:
            changed.set_exception(error)

    def schedule(_: object) -> None:
        try:
            pool.submit(run)
        except RuntimeError as error:  # the interpreter is on its way out
            if changed.set_running_or_notify_cancel():
                changed.set_exception(error)

    first.add_done_callback(schedule)
    return changed


class _Entry(NamedTuple):
    future: Future[BytesLike]
    nbytes: int
    begun: float


class BegunBlocks:
    """At most ``limit`` uncompressed bytes; beyond that the first begun goes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A forked child has neither its parent's connections nor, perhaps, a free lock."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._nbytes = 0

    def begin(self, key: Key, nbytes: int, load: Callable[[], Future[BytesLike]]) -> None:
        """Have the block loaded, unless it is being; ``nbytes`` is its uncompressed size."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = _Entry(load(), nbytes, time.monotonic())
            self._nbytes += nbytes
            self._drop_old()

    def take(self, key: Key, load: Callable[[], Future[BytesLike]]) -> BytesLike:
        """The block's uncompressed bytes, which are the caller's from here on."""
        with self._lock:
            entry = self._entries.pop(key, None)
            self._nbytes -= entry.nbytes if entry is not None else 0
        fresh = entry is not None and time.monotonic() - entry.begun < IDLE_SECONDS
        future = entry.future if entry is not None and fresh else load()
        return future.result()

    def drop(self) -> None:
        """Let all go that nobody came for yet: files of no known version may have changed."""
        with self._lock:
            for entry in self._entries.values():
                entry.future.cancel()
            self._entries.clear()
            self._nbytes = 0

    def _drop_old(self) -> None:
        now = time.monotonic()
        while len(self._entries) > 1:
            key, first = next(iter(self._entries.items()))
            if self._nbytes <= self._limit and now - first.begun < IDLE_SECONDS:
                break
            first.future.cancel()
            del self._entries[key]
            self._nbytes -= first.nbytes
