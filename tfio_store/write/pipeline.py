"""The threads of a writer, and its memory budget: compression, uploads, and the first failure."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from tfio_store.dataset.block_tables import MOST_BLOCK_BYTES
from tfio_store.storage.cores import cores
from tfio_store.storage.threads import NoThreadError, Owner, Threads

# Shares out a writer's memory budget among the blocks and parts on their way to the store.


_MIB = 1 << 20
_LEAST_BLOCK, _MOST_BLOCK = 64 << 10, _MIB
_LEAST_CHOSEN = 4 << 10
_LEAST_PART, _MOST_PART = 5 * _MIB, 16 * _MIB  # S3 takes no smaller part
_IN_FLIGHT = 128 * _MIB  # the most that a process's uploads hold, see storage.cloud.multipart


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes for: one block being framed, one part being filled, all blocks that wait."""

    block_bytes: int
    part_bytes: int
    queue_bytes: int

    @classmethod
    def plan(cls, budget: int, open_shards: int, block_bytes: int | None = None) -> Memory:
        """Every open shard fills a block and a part; the rest is shared. ``block_bytes``: what the
        caller wants a block to be."""
        if not isinstance(budget, int) or budget < 16 * _MIB:
            raise ValueError(f"memory_budget must be at least 16 MiB in bytes, not {budget!r}")
        block = _block(block_bytes, budget, open_shards)
        part = _between(_LEAST_PART, budget // (8 * open_shards), _MOST_PART)
        in_flight = min(_IN_FLIGHT, 4 * part * open_shards)
        queue = budget - open_shards * (block + part) - in_flight
        return cls(block, part, max(queue, 8 * min(block, _MIB), 2 * block))


def _block(chosen: int | None, budget: int, open_shards: int) -> int:
    if chosen is None:
        return _between(_LEAST_BLOCK, budget // (8 * open_shards), _MOST_BLOCK)
    if not isinstance(chosen, int) or not _LEAST_CHOSEN <= chosen <= MOST_BLOCK_BYTES:
        raise ValueError(
            f"block_bytes must be {_LEAST_CHOSEN} to {MOST_BLOCK_BYTES}, not {chosen!r}"
        )
    if chosen * open_shards > budget // 8:
        raise ValueError(
            f"block_bytes: {open_shards} open shards with a block of {chosen} bytes each take more "
            f"than an eighth of memory_budget={budget}"
        )
    return chosen


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))


# The caller's thread frames records and hands over full blocks. `Pipeline.reserve` makes it wait
# while more than the budget is under way, so a slow store slows the caller down instead of filling
# memory. Whatever fails first, in any thread, is raised in the caller's thread at its next call.


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
        self._cpu = Threads(cores(), "tfio_store-compress")
        # one more, since one may wait until shards have ended
        self.io = Threads(min(shards, _UPLOAD_THREADS) + 1, "tfio_store-upload")
        """Make a `SerialQueue`: one for each shard's uploads."""

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
        """Remember the first failure, report it to the writer, and wake the caller."""
        with self._changed:
            first, self._failure = self._failure is None, self._failure or failure
            self._changed.notify_all()
        if first and (report := self._on_failure()) is not None:
            report(failure)

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def check(self) -> None:
        """Raise the first failure, if there was one."""
        self.owner.check("the writer")
        if self._failure is not None:
            raise self._failure

    def step(self, work: Callable[[], T]) -> Callable[[], T]:
        """``work``, unless anything has failed by then. If it fails itself, so does the writer."""

        def checked() -> T:
            self.check()
            try:
                return work()
            except BaseException as error:
                self.fail(error)
                raise

        return checked

    def compute(self, task: Callable[[], T]) -> Future[T]:
        """Run ``task`` in a thread that is meant for work without the GIL."""
        return self._cpu.submit(task)

    def shut_down(self) -> None:
        """End the threads after their current work. What waits is dropped."""
        self._cpu.shutdown(wait=False, cancel_futures=True)
        self.io.shutdown(wait=False, cancel_futures=True)


class SerialQueue:
    """Tasks that run in a pool's threads, but one at a time and in order. Only a thread that runs
    them says so. Whoever submits may be stopped at any line, as by Control-C. Then a task may wait,
    but the next one takes it along."""

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
            idle = not self._running
        if idle:
            try:
                self._pool.submit(self._run_all)
            except NoThreadError:  # what has begun must end all the same
                self._run_all()
        return future

    def _run_all(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                task = self._waiting.popleft()
            task()
