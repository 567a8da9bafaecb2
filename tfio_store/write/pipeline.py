"""The threads of a writer: compression, uploads, a memory budget, and the first failure.

The caller's thread frames records and hands over full blocks. `Pipeline.reserve` makes it wait
while more than the budget is under way, so a slow store slows the caller down instead of filling
memory. Whatever fails first, in any thread, is raised in the caller's thread at its next call.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tfio_store.storage.process import Owner
from tfio_store.storage.threads import Threads

__all__ = ["Pipeline", "SerialQueue"]

T = TypeVar("T")

_UPLOAD_THREADS = 16


class Pipeline:
    """Threads and memory shared by all the shards of one writer.

    ``budget`` in bytes. ``on_failure`` is a weak reference to the writer's function. With a strong
    one, threads would keep a dropped writer alive.
    """

    def __init__(
        self,
        *,
        budget: int,
        shards: int,
        on_failure: Callable[[], Callable[[BaseException], None] | None],
    ) -> None:
        self.owner = Owner()
        self._budget = budget
        self._used = 0
        self._failure: BaseException | None = None
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._cpu = Threads(os.cpu_count() or 1, "tfio_store-compress")
        self._io = Threads(min(shards, _UPLOAD_THREADS), "tfio_store-upload")

    def reserve(self, nbytes: int) -> None:
        """Wait until ``nbytes`` more fit into the budget (a single larger block may pass alone)."""
        self.owner.check("the writer")
        with self._changed:
            while self._used and self._used + nbytes > self._budget and self._failure is None:
                self._changed.wait()
            self._used += nbytes
        self.check()

    def release(self, nbytes: int) -> None:
        with self._changed:
            self._used -= nbytes
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Remember the first failure, tell the writer of it, and wake the caller."""
        with self._changed:
            first, self._failure = self._failure is None, self._failure or failure
            self._changed.notify_all()
        if first and (tell := self._on_failure()) is not None:
            tell(failure)

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def check(self) -> None:
        """Raise the first failure, if there was one."""
        self.owner.check("the writer")
        if self._failure is not None:
            raise self._failure

    def compute(self, task: Callable[[], T]) -> Future[T]:
        """Run ``task`` in a thread that is meant for work without the GIL."""
        return self._cpu.submit(task)

    def serial(self) -> SerialQueue:
        """Make a queue for one shard's uploads."""
        return SerialQueue(self._io)

    def shut_down(self) -> None:
        """End the threads after their current work. What waits is dropped."""
        self._cpu.shutdown(wait=False, cancel_futures=True)
        self._io.shutdown(wait=False, cancel_futures=True)


class SerialQueue:
    """Tasks that run in a pool's threads, but one at a time and in order."""

    def __init__(self, pool: Threads) -> None:
        self._pool = pool
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False
        self._lock = threading.Lock()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            self._waiting.append(run)
            if self._running:
                return future
            self._running = True
        self._pool.submit(self._run_all)
        return future

    def _run_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                task = self._waiting.popleft()
            task()
