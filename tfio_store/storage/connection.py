"""An fsspec filesystem of our own, and the loop that its requests run on."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from fsspec import AbstractFileSystem
from fsspec.dircache import DirCache

__all__ = ["Connection"]

T = TypeVar("T")


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_inherited: list[Connection] = []

# Whatever a parent had open must not be collected in its child: see Connection.
os.register_at_fork(after_in_child=lambda: _inherited.extend(_connections))


class Connection:
    """Makes ``cls(**options)`` when first asked for it, once in each process.

    fsspec shares instances between all who ask with the same options, and with them the listings
    that they cache: ours is nobody else's, and caches none. A forked child cannot use its parent's
    sockets and loop, nor close them (the two share one epoll set): it makes its own instance and
    lets the other be.
    """

    def __init__(
        self,
        cls: type[Any],
        options: Mapping[str, Any],
        prepare: Callable[[Any], None] = lambda fs: None,
    ) -> None:
        self._cls = cls
        self._options = dict(options)
        self._prepare = prepare
        self._by_process: dict[int, Any] = {}
        _connections.add(self)

    @property
    def fs(self) -> Any:
        found = self._by_process.get(os.getpid())
        if found is None:
            found = self._by_process.setdefault(os.getpid(), self._made())
        return found

    def _made(self) -> Any:
        fs = self._cls(**{**self._options, "skip_instance_cache": True})
        listings = getattr(fs, "dircache", None)
        if isinstance(listings, DirCache):
            listings.use_listings_cache = False
        self._prepare(fs)
        return fs

    @property
    def asynchronous(self) -> bool:
        if not getattr(self._cls, "async_impl", False):
            return False
        # wrappers (DirFileSystem) are as asynchronous as what they wrap
        return bool(getattr(getattr(self.fs, "fs", None), "async_impl", True))

    @property
    def renames(self) -> bool:
        """Whether its `mv` is more than fsspec's copy and delete."""
        return any(
            name in vars(cls)
            for cls in self._cls.__mro__
            if cls is not AbstractFileSystem
            for name in ("mv", "_mv", "mv_file")
        )

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` on the filesystem's loop. Cancelling the future cancels the request."""
        return asyncio.run_coroutine_threadsafe(work, self.fs.loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.start(work)
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt too: nobody is left to want the answer
            future.cancel()
            raise
