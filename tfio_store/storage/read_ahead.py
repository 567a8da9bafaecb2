"""Ordered read-ahead: many ranges in flight, a budget of bytes, and one place that stops all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import Reason, TruncatedRecordError
from tfio_store.storage import Store, Version
from tfio_store.storage.threads import Owner

__all__ = ["Fetch", "ReadAhead", "RequestWindow", "cancel_all", "split_range"]


# `RequestWindow`: how many requests are worth having in flight.


WORTH = 1.1
"""Twice the requests must bring so many times the bytes a second, or they are not worth it."""

WAITING = 0.5
"""The share of its time that a reader waits for the store, if the store is what holds it up."""


class RequestWindow:
    """How many requests a reader has in flight: ``size``.

    It begins at half of the store's usual number, or at ``first``: a reader that wants three
    records must not pay for everything that could be in flight. The first answer takes it to the
    usual number. From
    there it is judged by rounds of ``size`` answers. While the reader mostly waits, it is doubled,
    up to the store's most. If a doubling does not bring more bytes a second, it is taken back, and
    it was the last.

    The caller passes the time, in seconds from any moment. No clock is looked at here.
    """

    def __init__(self, usual: int, most: int, first: int | None = None) -> None:
        self.limits = usual, most  # as the store has them
        self.usual = min(usual, most)
        self.most = most
        self.size = min(self.usual, first or max(2, usual // 2))
        self._settled = usual >= most
        self._slower: tuple[int, float] | None = None  # size and bytes a second before a doubling
        self._begin(0.0)

    def answered(self, nbytes: int, asked: float, came: float) -> None:
        """The reader wanted the next answer at the time ``asked``, and had it when it ``came``."""
        if self.size < self.usual:
            self._early, self.size = self.size, self.usual
        elif self._early:  # it was asked for before the window grew, and says nothing of that
            self._early -= 1
            if not self._early:
                self._begin(came)
        elif not self._settled:
            self._nbytes += nbytes
            self._waited += came - asked
            self._left -= 1
            if not self._left:
                self._judge(came)

    def _begin(self, now: float) -> None:
        """Begin a round."""
        self._began = now
        self._early = 0
        self._left = self.size
        self._nbytes = 0
        self._waited = 0.0

    def _judge(self, now: float) -> None:
        seconds = max(now - self._began, 1e-9)
        rate = self._nbytes / seconds
        if self._slower is not None and rate < WORTH * self._slower[1]:
            self.size, self._settled = self._slower[0], True
        elif self.size >= self.most:
            self._settled = True
        elif self._waited > WAITING * seconds:
            self._slower = self.size, rate
            self._early, self.size = self.size, min(2 * self.size, self.most)
        else:
            self._slower = None
            self._begin(now)


Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Fetch(Generic[Tag]):
    """Bytes ``start:stop`` of an object, and the caller's tag for them. ``cost`` is what the range
    takes of the budget while it is worked on: its own length, or more if it is decompressed.
    ``version``: the version that the bytes must be of.
    """

    store: Store
    path: str
    start: int
    stop: int
    tag: Tag
    cost: int
    version: Version = field(default_factory=Version)


class ReadAhead(Iterator[tuple[Fetch[Tag], "BytesLike"]]):
    """Gives the ranges' bytes in order, fetched ahead of their use. At most ``budget`` bytes are in
    flight or wait (a single larger range goes alone), in as many requests as `RequestWindow` finds
    worth having. If an object ends before a range does, that is a TruncatedRecordError, or with
    ``may_be_short`` the bytes that exist come, and `Version.end` says where the object ends.
    ``first``: how many requests begin before the first answer is there, if not as many as usual.

    Closing gives up every request; an abandoned iterator closes itself. Neither waits: to cancel a
    future takes its lock, so that is left to a thread.
    """

    def __init__(
        self,
        ranges: Iterable[Fetch[Tag]],
        *,
        budget: int,
        may_be_short: bool = False,
        first: int | None = None,
    ) -> None:
        self._owner = Owner()
        self._ranges = iter(ranges)
        self._budget = budget
        self._may_be_short = may_be_short
        self._first = first
        self._window: RequestWindow | None = None
        self._waiting: deque[tuple[Fetch[Tag], Future[BytesLike]]] = deque()
        self._next: Fetch[Tag] | None = None
        self._spent = 0

    def __next__(self) -> tuple[Fetch[Tag], BytesLike]:
        self._fill()
        if not self._waiting:
            raise StopIteration
        fetch, future = self._waiting.popleft()
        asked = monotonic()
        try:
            data = self._answer(fetch, future)
            nbytes = len(memoryview(data))
            self._check(fetch, nbytes)
        except BaseException:
            self.close()
            raise
        self._spent -= fetch.cost
        self._window_of(fetch.store).answered(nbytes, asked, monotonic())
        return fetch, data

    def _answer(self, fetch: Fetch[Tag], future: Future[BytesLike]) -> BytesLike:
        """The bytes, wherever they are by now."""
        path = fetch.path
        while True:
            try:
                return future.result()
            except FileNotFoundError as missing:
                if fetch.version.now is None or fetch.version.now[0] == path:
                    fetch.version.move(fetch.store, path, missing)
                assert fetch.version.now is not None
                path = fetch.version.now[0]
                future = self._begin(fetch)

    @staticmethod
    def _begin(fetch: Fetch[Tag]) -> Future[BytesLike]:
        path, version = fetch.version.now or (fetch.path, fetch.version)
        return fetch.store.read(path, fetch.start, fetch.stop, etag=version)

    def _window_of(self, store: Store) -> RequestWindow:
        """The window for the store of the moment: the shards of a dataset may lie in several."""
        window, limits = self._window, (store.in_flight, store.most_in_flight)
        if window is None or window.limits != limits:
            window = self._window = RequestWindow(*limits, self._first)
        return window

    def _check(self, fetch: Fetch[Tag], nbytes: int) -> None:
        if nbytes == fetch.stop - fetch.start:
            return
        end = fetch.start + nbytes
        if not self._may_be_short:
            raise TruncatedRecordError(
                f"the file ends at byte {end}, before the byte {fetch.stop} that its listing, "
                "manifest or index says",
                path=fetch.store.url(fetch.path),
                offset=end,
                kind=Reason.SHORT_FILE,
            )
        fetch.version.end = end if fetch.version.end is None else min(end, fetch.version.end)

    def _fill(self) -> None:
        while self._window is None or len(self._waiting) < self._window.size:
            fetch = self._next or next(self._ranges, None)
            self._next = fetch
            if fetch is None or (self._waiting and self._spent + fetch.cost > self._budget):
                return
            self._window = self._window or self._window_of(fetch.store)
            self._next = None
            self._spent += fetch.cost
            future = self._begin(fetch)
            self._waiting.append((fetch, future))
            if future.done():
                return  # what is there at once is best used while it is in the cache

    def close(self) -> None:
        """Give up what is in flight. Idempotent."""
        self._ranges = iter(())
        self._next = None
        self._spent = 0
        waiting = [future for _, future in self._waiting]
        self._waiting.clear()
        if waiting:
            self._owner.later(cancel_all, waiting)

    def __del__(self) -> None:
        if hasattr(self, "_spent"):
            self.close()


def cancel_all(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def split_range(start: int, stop: int, piece: int) -> Iterator[tuple[int, int]]:
    """[start, stop) in consecutive pieces of at most ``piece`` bytes."""
    for at in range(start, stop, piece):
        yield at, min(at + piece, stop)
