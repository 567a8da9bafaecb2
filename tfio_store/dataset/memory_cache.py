"""What was fetched, kept in memory for later questions: blocks, records, pages, block tables."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from tfio_store.storage.process import PerProcess

__all__ = ["MemoryCache"]


class _Kept:
    """What one process keeps. A forked child begins anew: a thread of its parent may have held the
    lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.nbytes = 0


class MemoryCache:
    """What was used last, up to a number of bytes. It pickles empty. Each process has its own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: PerProcess[_Kept] = PerProcess(_Kept)

    def get(self, key: Hashable) -> Any:
        """What was kept by this key, or None."""
        kept = self._kept.here
        with kept.lock:
            entry = kept.entries.get(key)
            if entry is None:
                return None
            kept.entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep ``value``, which takes ``nbytes``, unless that is more than there is room for."""
        kept = self._kept.here
        with kept.lock:
            if key in kept.entries or nbytes > self._limit:
                return
            kept.entries[key] = value, nbytes
            kept.nbytes += nbytes
            while kept.nbytes > self._limit:
                _, (_, dropped) = kept.entries.popitem(last=False)
                kept.nbytes -= dropped

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryCache, (self._limit,)
