"""What a `RecordSource` keeps for later questions: blocks, and records that were read alone."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

__all__ = ["BlockCache"]


class BlockCache:
    """The blocks and records used last, up to a number of bytes. A block goes by its number, and a
    record by the complement of its own. It pickles empty. Each process has its own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._nbytes = 0

    def get(self, key: int) -> Any:
        """The RecordBatch of a block, the bytes of a record, or None."""
        if self._pid != os.getpid():
            self._clear()  # another thread of the parent may have held the lock
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: int, value: Any, nbytes: int) -> None:
        """Keep ``value``, which takes ``nbytes``, unless that is more than there is room for."""
        with self._lock:
            if key in self._entries or nbytes > self._limit:
                return
            self._entries[key] = value, nbytes
            self._nbytes += nbytes
            while self._nbytes > self._limit:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._nbytes -= dropped

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockCache, (self._limit,)
