"""Ordered read-ahead: many ranges in flight, a budget of bytes, and one place that stops all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import Reason
from tfio_store.records.damage import damaged, ends_before
from tfio_store.records.framing import FileScan, pool_serve
from tfio_store.storage import Store, Version
from tfio_store.storage.cores import begin, begins, cores, num_workers, workers
from tfio_store.storage.local import LocalStore
from tfio_store.storage.threads import Owner, then

__all__ = [
    "Fetch",
    "Means",
    "Meter",
    "Read",
    "ReadAhead",
    "RequestWindow",
    "Worked",
    "cancel_all",
    "split_range",
]


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


@dataclass(slots=True)
class Meter:
    """What a reader has asked for and done so far. Seconds of work are those of all threads."""

    requests: int = 0
    nbytes: int = 0
    waited: float = 0.0
    """Seconds until answers were there, when they were wanted."""
    held: int = 0
    """Bytes of the budget that are in use."""
    behind: int = 0
    """Bytes of it that the caller holds, made of what it was given."""
    coming: Future[Any] | None = None
    """What brings the next range, if it comes from afar."""
    read: float = 0.0
    inflate: float = 0.0
    scan: float = 0.0

    def count(self, nbytes: int, waited: float) -> None:
        """Count an answer of so many bytes."""
        self.requests += 1
        self.nbytes += nbytes
        self.waited += waited

    def add(self, work: Meter) -> None:
        """Count the seconds of the work on a range."""
        self.read += work.read
        self.inflate += work.inflate
        self.scan += work.scan


@dataclass(frozen=True, slots=True)
class Means:
    """What a reader may use: ``budget`` bytes, and so many ``threads`` at a time, or all `workers`.
    ``meter`` counts what it does."""

    budget: int
    threads: int | None = None
    meter: Meter = field(default_factory=Meter)


class Worked(NamedTuple):
    """How many bytes of a range there were, what was made of them, and the seconds of the work."""

    nbytes: int
    made: Any
    took: Meter


Read: TypeAlias = "Callable[[], BytesLike | None]"
"""Gives the bytes of a range. None if they are not at hand."""


@dataclass(frozen=True, slots=True)
class Fetch(Generic[Tag]):
    """Bytes ``start:stop`` of an object, and the caller's tag for them. ``cost`` is what the range
    takes of the budget until the next one is asked for: its own length, or more if it is
    decompressed. ``version``: the version that the bytes must be of.

    ``work`` makes something of the bytes in one of the process's threads. It is called with this
    range as it is to be read, a function that reads it, and whether only what is at hand is wanted:
    then it gives None for what is not. Of a local file C may do the most of it: ``task`` makes
    what does, which is handed to the work behind these three.
    """

    store: Store
    path: str
    start: int
    stop: int
    tag: Tag
    cost: int
    version: Version = field(default_factory=Version)
    work: Callable[..., Worked | None] | None = None
    task: Callable[[Fetch[Any]], FileScan | None] | None = None

    @property
    def held(self) -> int:
        """What the range takes of the budget: its cost, and half of its length if it comes from
        afar. Clients join an answer from pieces, which takes it twice, but seldom all at once."""
        far = not isinstance(self.store, LocalStore)
        return self.cost + (self.stop - self.start) // 2 if far else self.cost

    def begin(self) -> Future[BytesLike]:
        """Begin to read the bytes."""
        return self.store.read(self.path, self.start, self.stop, etag=self.version)

    def worked(self) -> Future[tuple[Worked | None, float]] | None:
        """Begin to read the bytes and to work on them, if that is light work and the store has
        threads that wait for it: they do nothing else, and one that has just waited is awake. The
        answer tells when the bytes were there, too."""
        own = getattr(type(self.store), "worked", None)  # not what a wrapper hands on
        if own is None or self.cost > self.stop - self.start:  # it is decompressed
            return None
        begun: Future[tuple[Worked | None, float]] | None
        begun = own(self.store, self.path, self.start, self.stop, self.version, self._work_on)
        return begun

    def _work_on(self, data: BytesLike) -> tuple[Worked | None, float]:
        assert self.work is not None
        came = monotonic()
        return self.work(self, lambda: data, False), came

    def ask(self) -> Callable[[], BytesLike]:
        """Begin to read the bytes, and give them when they are asked for: as many as there are."""
        here = self.here
        return partial(self._answer, here.path, here.begin())

    def _answer(self, path: str, answer: Future[BytesLike]) -> BytesLike:
        while True:
            try:
                return answer.result()
            except FileNotFoundError as missing:
                self.look_for(missing, path)
                here = self.here
                path, answer = here.path, here.begin()

    @property
    def here(self) -> Fetch[Tag]:
        """The same range, wherever its object is by now."""
        if self.version.now is None:
            return self
        path, version = self.version.now
        return replace(self, path=path, version=version)

    def look_for(self, missing: FileNotFoundError, path: str) -> None:
        """The object was not at this path: find out where it is. Raises the error of one that is
        nowhere."""
        if self.version.now is None or self.version.now[0] == path:
            self.version.move(self.store, path, missing)


_SMALL = 256 << 10
"""Bytes that are read and worked on sooner than a thread wakes."""

_ALONE = 0.003
"""Seconds that a reader of local files waits and works before others are woken. To hand a range to
a thread takes as long as to scan some hundred KiB of it: what is small is read sooner by one."""


class _Begun(NamedTuple):
    """A range that was begun, or is left to whoever waits for it: then it has no ``answer`` yet.
    ``request`` brings its bytes, if they come from afar; it is the ``answer`` if who waits for them
    works on them, too. ``work`` can be done by the waiting; what
    is left of it behind a `FileScan` always is."""

    fetch: Fetch[Any]
    path: str
    answer: Future[Any] | FileScan | None
    request: Future[Any] | None = None
    work: Callable[[], Worked | None] | None = None

    def result(self) -> tuple[Any, float]:
        """The answer, and when its bytes were there."""
        answer, request = self.answer, self.request
        if request is not None and request is answer:  # see `Fetch.worked`
            found: tuple[Any, float] = request.result()
            return found
        if request is not None:
            with suppress(Exception):  # the work meets it again
                request.result()
        came = monotonic()
        if answer is not None and not isinstance(answer, Future):
            begins(answer)
            answer = None
        if answer is None or (self.work is not None and not begins(answer)):
            assert self.work is not None
            return self.work(), came
        answer = answer.result()
        return answer, came if request is not None else monotonic()


def _by_caller(fetch: Fetch[Any], read: Any, threads: int | None) -> Worked | None:
    """Work on what is in memory. What has to come from a disk is left to a thread."""
    assert fetch.work is not None
    found = fetch.work(fetch, partial(read, cached=True), True)
    if found is not None:
        return found
    return workers(threads).submit(fetch.work, fetch, read, False).result()


class ReadAhead(Iterator[tuple[Fetch[Tag], Any]]):
    """Gives the ranges' bytes in order, or what their work made of them (`Worked`), ahead of their
    use. At most ``budget`` bytes are in flight or wait (a single larger range goes alone), in as
    many requests as `RequestWindow` finds worth having. If an object ends before a range does, that
    is a TruncatedRecordError, or with ``may_be_short`` the bytes that exist come, and `Version.end`
    says where the object ends. ``first``: how many requests begin before the first answer is there,
    if not as many as usual. ``threads``: how many work on ranges at a time. Default: all `workers`.
    ``meter``: what counts them.

    The caller works on the first local ranges, for which nobody has to be woken, and later on one
    that is wanted at once, while threads work on those behind it. It also works on what no thread
    has begun when its turn comes: no reader waits for what others have begun.

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
        threads: int | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._owner = Owner()
        self._ranges = iter(ranges)
        self._budget = budget
        self._may_be_short = may_be_short
        self._first = first
        self._threads = threads
        self._meter = meter or Meter()
        self._window: RequestWindow | None = None
        self._waiting: deque[_Begun] = deque()
        self._next: Fetch[Tag] | None = None
        self._spent = 0
        self._alone = _ALONE

    def __next__(self) -> tuple[Fetch[Tag], Any]:
        self._fill()
        if not self._waiting:
            self._meter.held = 0
            raise StopIteration
        begun = self._waiting.popleft()
        self._meter.coming = None
        fetch: Fetch[Tag] = begun.fetch
        asked = monotonic()
        try:
            answer, came = self._answer(begun)
            del begun  # or it would keep the bytes
            waited = monotonic() - asked
            self._alone -= waited
            nbytes = self._measure(answer, waited)
            self._check(fetch, nbytes)
        except BaseException:
            self.close()
            raise
        self._meter.held = self._spent
        self._spent -= fetch.held
        self._window_of(fetch.store).answered(nbytes, asked, came)
        self._meter.coming = self._waiting[0].request if self._waiting else None
        return fetch, answer

    def _measure(self, answer: Any, waited: float) -> int:
        """The bytes of an answer, which are counted with what they took."""
        meter = self._meter
        if isinstance(answer, Worked):
            nbytes = answer.nbytes
            meter.add(answer.took)
        else:
            nbytes = len(memoryview(answer))
        meter.count(nbytes, waited)
        return nbytes

    def _answer(self, begun: _Begun) -> tuple[Any, float]:
        while True:
            try:
                return begun.result()
            except FileNotFoundError as missing:
                begun.fetch.look_for(missing, begun.path)
                begun = self._begin(begun.fetch)

    def _begin(self, fetch: Fetch[Tag]) -> _Begun:
        here = fetch.here
        if here.work is None:
            return _Begun(fetch, here.path, here.begin())
        if isinstance(here.store, LocalStore):
            return self._begin_local(fetch, here)
        worked = here.worked()
        if worked is not None:
            return _Begun(fetch, here.path, worked, worked)
        request = here.begin()
        work = partial(here.work, here, request.result, False)
        answer = then(workers(self._threads), request, work)
        return _Begun(fetch, here.path, answer, request, work)

    def _begin_local(self, fetch: Fetch[Tag], here: Fetch[Tag]) -> _Begun:
        assert here.work is not None
        assert isinstance(here.store, LocalStore)
        read = partial(here.store.read_now, here.path, here.start, here.stop, here.version)
        work = partial(here.work, here, read, False)
        if self._waiting:
            task = None if here.task is None else here.task(here)
            if task is not None and begin(task, self._threads):
                return _Begun(fetch, here.path, task, work=partial(work, task))
            return _Begun(fetch, here.path, workers(self._threads).submit(work), work=work)
        return _Begun(fetch, here.path, None, work=partial(_by_caller, here, read, self._threads))

    def _window_of(self, store: Store) -> RequestWindow:
        """The window for the store of the moment: the shards of a dataset may lie in several."""
        window, limits = self._window, (store.in_flight, store.most_in_flight)
        if isinstance(store, LocalStore):
            most = cores()
            threads = self._threads or most
            # one more for each core waits its turn, unless fewer are to work than there are
            at_once = threads if threads < most else threads + most
            limits = at_once, at_once
            if window is None:
                pool_serve(num_workers(self._threads), self._budget)
        if window is None or window.limits != limits:
            window = self._window = RequestWindow(*limits, self._first)
        return window

    def _check(self, fetch: Fetch[Tag], nbytes: int) -> None:
        if nbytes == fetch.stop - fetch.start:
            return
        end = fetch.start + nbytes
        if not self._may_be_short:
            url, reason = fetch.store.url(fetch.path), ends_before(end, fetch.stop)
            raise damaged(Reason.SHORT_FILE, reason, path=url, offset=end)
        fetch.version.end = end if fetch.version.end is None else min(end, fetch.version.end)

    def _fill(self) -> None:
        while self._window is None or len(self._waiting) < self._window.size:
            fetch = self._next or next(self._ranges, None)
            self._next = fetch
            if fetch is None or (self._waiting and self._used + fetch.held > self._budget):
                return
            self._window = self._window or self._window_of(fetch.store)
            self._next = None
            self._spent += fetch.held
            alone = not self._waiting and (self._alone > 0 or fetch.cost <= _SMALL)
            begun = self._begin(fetch)
            self._waiting.append(begun)
            if alone if begun.answer is None else begun.answer.done():
                return  # what is there at once is best used while it is in the cache

    @property
    def _used(self) -> int:
        return self._spent + self._meter.behind

    def close(self) -> None:
        """Give up what is in flight. Idempotent."""
        self._ranges = iter(())
        self._next = None
        self._spent = self._meter.held = 0
        self._meter.coming = None
        both = [begun for each in self._waiting for begun in (each.answer, each.request)]
        waiting = [begun for begun in both if hasattr(begun, "cancel")]  # what C does needs none
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
