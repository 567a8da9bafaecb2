"""Threads and processes: who owns what, and one executor for each kind of work."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import ref

from tfio_store.storage.faults import SHUTTING_DOWN, is_shutdown

__all__ = [
    "NoThreadError",
    "Owner",
    "PerProcess",
    "Threads",
    "begun",
    "cancelled_with",
    "collection_in",
    "collects_here",
    "mapped",
    "pool",
    "quietly",
    "start_daemon",
    "starting_threads",
    "then",
]


# Which process an object belongs to; and letting go of objects that are no longer used.
#
# A forked child inherits every object, and nothing of what stands behind some of them: threads,
# uploads, temporary files, a place in a store. Those stay the parent's.
#
# And the garbage collector runs finalizers in whatever thread happens to allocate: perhaps the
# very one that does a store's I/O, perhaps inside a lock of `threading`. So a finalizer may
# neither wait nor take a lock. It says what is to be done, and a thread does it (`Owner.later`).
#
# An object may also end after the names of our modules are gone: the interpreter has made them None
# by then. A finalizer that runs so late finds what it calls in an argument or an attribute.


T = TypeVar("T")
Work = Callable[[], object]


class PerProcess(Generic[T]):
    """State of the whole process: a lock, a table, an executor.

    Each process makes its own when it first asks. A forked child has neither its parent's threads
    nor, perhaps, a free lock. The parent's stays referenced, so that the child does not tear down
    what it does not own.
    """

    __slots__ = ("_by_process", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._by_process: dict[int, T] = {}

    @property
    def here(self) -> T:
        """The one of this process."""
        pid = os.getpid()
        found = self._by_process.get(pid)
        if found is None:
            found = self._by_process.setdefault(pid, self._make())  # of two threads, one wins
        return found


class NoThreadError(RuntimeError):
    """The system starts no more threads."""


@contextlib.contextmanager
def starting_threads() -> Iterator[None]:
    """RuntimeError when the interpreter ends: from Python 3.12 on it starts no thread then.
    NoThreadError when there are as many as there may be."""
    try:
        yield
    except RuntimeError as error:
        if is_shutdown(error):
            raise RuntimeError(SHUTTING_DOWN) from error
        raise NoThreadError(
            f"{error}: there are as many threads as the system allows; see ulimit -u, and the "
            "limits of its container"
        ) from error


def start_daemon(work: Work, name: str) -> None:
    """Let a thread that nobody waits for do this. See `starting_threads`."""
    with starting_threads():
        threading.Thread(target=work, name=name, daemon=True).start()


def begun(work: Callable[[], T], name: str) -> Future[T]:
    """What a thread that nobody waits for makes of ``work``. RuntimeError if none can start. The
    future is running: cancelling it has no effect, so that several may wait for it."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    start_daemon(run, name)
    return answer


class Owner:
    """The process that made this object. Make one before what it stands for."""

    __slots__ = ("_pid",)

    _getpid = staticmethod(os.getpid)
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self) -> None:
        self._pid = self._getpid()
        _afterwards.start()

    @property
    def is_here(self) -> bool:
        """Whether this is that process, and not one that was forked off it."""
        return self._pid == self._getpid()

    def check(self, what: str) -> None:
        """Raise RuntimeError in any other process. ``what``: the caller's name for the object."""
        if not self.is_here:
            raise RuntimeError(
                f"{what} belongs to process {self._pid}, which forked this one: "
                "use it there, or make another one here"
            )

    def later(self, work: Callable[..., object], *arguments: Any) -> None:
        """Let a thread call ``work`` soon. Its exceptions are dropped. It is for finalizers, so it
        takes no lock. It does nothing in another process, nor while the interpreter ends."""
        if self.is_here and not self._is_finalizing():
            _afterwards.add(partial(work, *arguments))


class Afterwards:
    """The thread that takes the work of finalizers, and gives each piece to a thread of its own."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A forked child has neither the thread nor, perhaps, a free lock."""
        self._lock = threading.Lock()
        self._started = False
        self._works: SimpleQueue[Work] = SimpleQueue()

    def start(self) -> None:
        """Call this before `add`, which must not wait for a thread to start."""
        if self._started:
            return
        with self._lock:
            if not self._started:
                start_daemon(self._run, "tfio_store-afterwards")
                self._started = True

    def add(self, work: Work) -> None:
        self._works.put(work)  # which is made to be called by finalizers

    def _run(self) -> None:
        works = self._works
        while True:
            work = works.get()
            try:
                threading.Thread(target=quietly, args=(work,), daemon=True).start()
            except RuntimeError:  # there are as many threads as there may be
                quietly(work)
            del work  # what it holds must not be kept until the next one comes


def quietly(work: Work) -> None:
    with contextlib.suppress(Exception):  # no caller is left
        work()


_afterwards = Afterwards()
os.register_at_fork(after_in_child=_afterwards.forget)


# Whether the garbage collector runs, and where. It runs in one thread at a time.


class Collector:
    """The collector calls this at its start and at its end."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A forked child may have another thread of the same number."""
        self.thread = self.count = 0

    def __call__(self, phase: str, _: object) -> None:
        self.count += 1
        self.thread = threading.get_ident() if phase == "start" else 0


_collector = Collector()
gc.callbacks.append(_collector)
os.register_at_fork(after_in_child=_collector.forget)


def collects_here() -> bool:
    """Whether this thread is in the middle of a collection, so that a finalizer is asking."""
    return _collector.thread == threading.get_ident()


def collection_in(thread: int) -> int | None:
    """The number of the collection that this thread is in the middle of, if any."""
    return _collector.count if _collector.thread == thread else None


# Threads that outlive calls: one executor for each kind of work, in each process.


A = TypeVar("A")
P = ParamSpec("P")

WORKERS = 16


class Threads(ThreadPoolExecutor):
    """An executor that only the interpreter shuts down while it is in use."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with starting_threads():
            return super().submit(fn, *args, **kwargs)


def mapped(work: Callable[[A], T], items: Iterable[A], at_once: int) -> Iterator[T]:
    """``work`` of each item, in order, by threads that end with the iteration. A single
    item needs none."""
    every = list(items)
    if min(at_once, len(every)) < 2:
        yield from map(work, every)
        return
    with Threads(min(at_once, len(every)), "tfio_store-mapped") as threads:
        yield from threads.map(work, every)


_pools: PerProcess[dict[str, Threads]] = PerProcess(dict)


def pool(work: str = "io", workers: int = WORKERS) -> Threads:
    """This process's executor for a kind of work. "io" is reading from filesystems that block.
    Threads start as they are needed."""
    pools = _pools.here
    if work not in pools:
        pools.setdefault(work, Threads(workers, thread_name_prefix=f"tfio_store-{work}"))
    return pools[work]


def cancelled_with(answer: Future[Any], request: Future[Any]) -> None:
    """Cancel the ``request`` when ``answer``, which is made of it, is cancelled. A future keeps its
    callbacks. If each of the two held the other, what was read would wait for the collector."""
    held = ref(request)

    def cancel(answer: Future[Any]) -> None:
        request = held()
        if answer.cancelled() and request is not None:
            request.cancel()

    answer.add_done_callback(cancel)


def then(executor: Threads, first: Future[Any], work: Callable[[], T]) -> Future[T]:
    """What the executor makes of ``work``, which it begins when ``first`` is done. To cancel it
    does not cancel ``first``."""
    changed: Future[T] = Future()
    # a future keeps its callbacks, and work its future: a circle with all that was read
    works = [work]
    del work

    def run() -> None:
        work = works.pop()
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(work())
        except BaseException as error:
            changed.set_exception(error)

    def schedule(_: object) -> None:
        try:
            executor.submit(run)
        except RuntimeError as error:  # the interpreter is on its way out
            if changed.set_running_or_notify_cancel():
                changed.set_exception(error)

    first.add_done_callback(schedule)
    return changed
