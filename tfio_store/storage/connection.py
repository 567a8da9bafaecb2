"""An fsspec filesystem of our own, and the loop that its requests run on."""

from __future__ import annotations

import asyncio
import errno
import os
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from threading import get_ident
from typing import Any, TypeVar

from fsspec import AbstractFileSystem
from fsspec.asyn import get_loop
from fsspec.dircache import DirCache

from tfio_store.storage.faults import unopened
from tfio_store.storage.threads import Owner, collects_here

__all__ = [
    "Connection",
    "begun_on",
    "check_may_wait",
    "give_up_waiting",
    "may_wait",
    "on_loop",
    "thread_of_requests",
]

T = TypeVar("T")


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_inherited: list[Connection] = []


def _keep_inherited() -> None:
    """A child must neither collect nor close what its parent has open. See Connection."""
    for connection in list(_connections):
        _inherited.append(connection)
        for _, fs in connection._by_process.values():
            for finalizer in finalizers_of(fs):
                finalizer.detach()


os.register_at_fork(after_in_child=_keep_inherited)


class Connection:
    """Makes ``cls(**options)`` on first use, once in each process.

    fsspec shares instances between all callers with the same options, and with them their cached
    listings. Our instance is not shared, and caches nothing. A forked child can neither use nor
    close its parent's sockets and loop, because the two share one epoll set. So it makes its own
    instance, and leaves the other alone. An instance waits for its loop when it closes. So a thread
    closes one that is no longer used (see `tfio_store.storage.threads`).
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
        self._by_process: dict[int, tuple[Owner, Any]] = {}
        _connections.add(self)
        # the finalizer's hold on the instances keeps the collector from meeting them itself
        weakref.finalize(self, let_go, self._by_process).atexit = False

    @property
    def fs(self) -> Any:
        found = self._by_process.get(os.getpid())
        if found is None:
            found = self._by_process.setdefault(os.getpid(), (Owner(), self._made()))
        return found[1]

    def _made(self) -> Any:
        """Raises what `unopened` makes of a fault, with no more of a URL than its scheme."""
        try:
            fs = self._cls(**{**self._options, "skip_instance_cache": True})
        except Exception as fault:
            protocol = self._cls.protocol
            scheme = protocol if isinstance(protocol, str) else protocol[0]
            error = unopened(fault, f"{scheme}://", self._options)
        else:
            return self._prepared(fs)
        raise error  # outside the handler, which would chain the fault to it as it was

    def _prepared(self, fs: Any) -> Any:
        listings = getattr(fs, "dircache", None)
        if isinstance(listings, DirCache):
            listings.use_listings_cache = False
        self._prepare(fs)
        return fs

    def opened(self, url: str) -> Any:
        """`fs`. Where it connects when it is made, and can't, the error names ``url``."""
        try:
            return self.fs
        except OSError as error:
            if str(error.filename).endswith("://"):
                error.filename = url
            raise

    def check_for(self, work: Coroutine[Any, Any, Any], url: str) -> None:
        """Let wrong options fail here, with their own error, and not on the loop."""
        try:
            self.opened(url)
        except BaseException:
            work.close()  # or Python warns that it was never awaited
            raise

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
        return begun_on(self.fs.loop, work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            check_may_wait()
        except OSError:
            work.close()
            raise
        future = self.start(work)
        thread = get_ident()
        _waits[thread] = future
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt too: no caller is left
            future.cancel()
            raise
        finally:
            _waits.pop(thread, None)
            # Its exception holds this frame, and with it those of all callers. Held by this frame
            # in turn, it would be garbage for the collector, which may meet it on the loop.
            del future


def begun_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> Future[T]:
    """As `asyncio.run_coroutine_threadsafe`. But where ``work`` fails when it is cancelled, asyncio
    does not log that nobody has asked for the failure."""

    async def asked() -> T:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        del task  # its failure holds this frame
        return await work  # at once: a task that is given up meets that behind its first step

    return asyncio.run_coroutine_threadsafe(asked(), loop)


_waits: dict[int, Future[Any]] = {}
"""What each thread waits for."""


def give_up_waiting(thread: int) -> None:
    """Let what this thread waits for end with CancelledError."""
    future = _waits.get(thread)
    if future is not None:
        future.cancel()


def thread_of_requests() -> int:
    """The thread of the loop that does all connections' requests."""

    async def ask() -> int:
        return get_ident()

    return asyncio.run_coroutine_threadsafe(ask(), get_loop()).result()


def on_loop() -> bool:
    """Whether this thread's loop does the requests of all connections. It must not wait for a
    request: that would be for ever. Only a finalizer can get there."""
    try:
        return asyncio.get_running_loop() is get_loop()
    except RuntimeError:
        return False


def may_wait() -> bool:
    """Whether this thread may wait for a request: not on the loop, nor while it collects garbage.
    The collector runs in the middle of anything, inside a lock that a request needs too."""
    return not on_loop() and not collects_here()


def check_may_wait(url: str | None = None) -> None:
    """Raise OSError on the loop. The collector runs wherever somebody allocates, on the loop too,
    and may end objects of TensorFlow that ask a store for something in their last moment."""
    if on_loop():
        reason = "a finalizer asks for it on the thread that does all requests, and can't wait"
        raise OSError(errno.EDEADLK, reason, url)


def let_go(by_process: dict[int, tuple[Owner, Any]]) -> None:
    for owner, fs in by_process.values():
        owner.later(close, fs)


def close(fs: Any) -> None:
    for finalizer in finalizers_of(fs):
        finalizer()


def finalizers_of(fs: Any) -> Iterator[weakref.finalize[Any, Any]]:
    """The finalizers that the class of ``fs`` has registered. Python has no public way to find
    them, and fsspec's classes keep no list."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        alive = finalizer.peek()
        if alive is not None and alive[0] is fs:
            yield finalizer
