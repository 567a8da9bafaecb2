"""A clock that jumps to what comes next, and hosts whose calls wait on it.

Requests are coroutines on an event loop of asyncio, so `Retry.run` runs as it is. The code that
reads is synchronous: each host has a greenlet, which leaves the loop to others while a future of
its own is not done.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import greenlet  # type: ignore[import-untyped]

__all__ = ["Answer", "Clock"]

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the clock goes on by as much as the loop would have slept."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("every host waits for something that nobody does")
        self._clock.now += max(timeout, 0)
        return super().select(0) if timeout <= 0 else []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        super().__init__(_Jumping(clock))
        self._of = clock

    def time(self) -> float:
        return self._of.now


class Clock:
    """Virtual seconds, and the loop that runs on them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.loop = _Loop(self)
        self._hub = greenlet.getcurrent()

    def __call__(self) -> float:
        return self.now

    def begin(self, work: Coroutine[Any, Any, T]) -> Answer[T]:
        """Run a coroutine on the loop."""
        return Answer(self, self.loop.create_task(work))

    def host(self, work: Callable[[], T], *, after: float = 0.0) -> Future[T]:
        """Run synchronous code in a greenlet of its own, some time from now."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        strand = greenlet.greenlet(run, self._hub)
        self.loop.call_at(self.now + after, strand.switch)
        return done

    def wait(self, future: Future[Any]) -> None:
        """Let others go on until this is done. For hosts only."""
        if not future.done():
            strand = greenlet.getcurrent()
            future.add_done_callback(lambda _: self.loop.call_soon(strand.switch))
            self._hub.switch()

    def sleep(self, seconds: float) -> None:
        """For hosts only."""
        self.loop.call_at(self.now + seconds, greenlet.getcurrent().switch)
        self._hub.switch()

    def run(self, *futures: Future[Any]) -> None:
        """Until all of these are done."""
        left = set(futures)

        def over(future: Future[Any]) -> None:
            left.discard(future)
            if not left:
                self.loop.stop()

        for future in futures:
            future.add_done_callback(over)
        if left:
            self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


class Answer(Future[T]):
    """What a task will bring. Its host waits for it, and for nobody else's."""

    def __init__(self, clock: Clock, task: asyncio.Task[T]) -> None:
        super().__init__()
        self._clock, self._task = clock, task
        task.add_done_callback(self._take)

    def _take(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())

    def result(self, timeout: float | None = None) -> T:
        self._clock.wait(self)
        return super().result(0)

    def cancel(self) -> bool:
        return self._task.cancel()
