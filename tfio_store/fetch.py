"""Ordered read-ahead: many ranges in flight, a budget of bytes, and one place to stop it all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from tfio_store.storage import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Fetch", "ReadAhead", "split_range"]

Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Fetch(Generic[Tag]):
    """Bytes ``start:stop`` of an object, and what the asker wants to remember of them.

    ``cost`` is what the range occupies of the budget once it is worked on: its own length, or more
    where it is to be decompressed.
    """

    store: Store
    path: str
    start: int
    stop: int
    tag: Tag
    cost: int


class ReadAhead(Iterator[tuple[Fetch[Tag], "BytesLike"]]):
    """The ranges' bytes in the order asked for, fetched ahead of their use.

    At most ``budget`` bytes are out or waiting (a single larger range goes alone), in as many
    requests as the store likes. The window begins at half of that, so that somebody who wants
    three records does not pay for everything that could be in flight.

    Closing gives up every request; an abandoned iterator closes itself.
    """

    def __init__(self, ranges: Iterable[Fetch[Tag]], *, budget: int) -> None:
        self._ranges = iter(ranges)
        self._budget = budget
        self._window = 0
        self._waiting: deque[tuple[Fetch[Tag], Future[BytesLike]]] = deque()
        self._next: Fetch[Tag] | None = None
        self._spent = 0

    def __next__(self) -> tuple[Fetch[Tag], BytesLike]:
        self._fill()
        if not self._waiting:
            raise StopIteration
        fetch, future = self._waiting.popleft()
        try:
            data = future.result()
        except BaseException:
            self.close()
            raise
        self._spent -= fetch.cost
        self._window = min(self._window * 2, fetch.store.in_flight)
        return fetch, data

    def _fill(self) -> None:
        while len(self._waiting) < max(self._window, 1):
            fetch = self._next or next(self._ranges, None)
            self._next = fetch
            if fetch is None or (self._waiting and self._spent + fetch.cost > self._budget):
                return
            self._window = self._window or max(2, fetch.store.in_flight // 2)
            self._next = None
            self._spent += fetch.cost
            future = fetch.store.read(fetch.path, fetch.start, fetch.stop)
            self._waiting.append((fetch, future))
            if future.done():
                return  # what is there at once is best used while it is in the cache

    def close(self) -> None:
        """Give up what is in flight. Idempotent."""
        self._ranges = iter(())
        self._next = None
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        self._spent = 0

    def __del__(self) -> None:
        self.close()


def split_range(start: int, stop: int, piece: int) -> Iterator[tuple[int, int]]:
    """[start, stop) in consecutive pieces of at most ``piece`` bytes."""
    for at in range(start, stop, piece):
        yield at, min(at + piece, stop)
