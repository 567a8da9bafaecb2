"""`MemoryCache`: what was fetched stays in memory: blocks, records, pages, block tables."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Any

from tfio_store.storage.threads import PerProcess

__all__ = ["MemoryCache"]


class _Kept:
    """The cache of one process. A forked child begins anew: a thread of its parent may have held
    the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.nbytes = 0


class MemoryCache:
    """A cache of the items used last, up to a number of bytes. It pickles empty. Each process has
    its own.

    ``newest``: what was put last stays, alone, though it takes more.
    """

    def __init__(self, limit: int, *, newest: bool = False) -> None:
        self._limit = limit
        self._newest = newest
        self._kept: PerProcess[_Kept] = PerProcess(_Kept)

    def get(self, key: Hashable) -> Any:
        """The item of this key, or None."""
        kept = self._kept.here
        with kept.lock:
            entry = kept.entries.get(key)
            if entry is None:
                return None
            kept.entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep ``value``, which takes ``nbytes``, as far as there is room."""
        kept = self._kept.here
        with kept.lock:
            if key in kept.entries or (nbytes > self._limit and not self._newest):
                return
            kept.entries[key] = value, nbytes
            kept.nbytes += nbytes
            while kept.nbytes > self._limit and len(kept.entries) > self._newest:
                _, (_, dropped) = kept.entries.popitem(last=False)
                kept.nbytes -= dropped

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(MemoryCache, newest=self._newest), (self._limit,)
