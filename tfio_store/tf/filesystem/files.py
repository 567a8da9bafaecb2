"""One file that TensorFlow reads, one that it writes."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import ReplacedError
from tfio_store.storage.read_ahead import cancel_all
from tfio_store.storage.store import ObjectInfo, Output, Store
from tfio_store.storage.threads import Owner

APPEND_LIMIT = 64 << 20
"""Bytes of the largest file that can be appended to: an append writes the object anew."""

SMALL_SYNC = 1 << 20
"""Up to this many bytes a sync always writes the object anew."""

PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file's size in bytes, and a mark of this version (None: unknown)."""

    size: int
    version: str | None


class ReadFile:
    """An object open for reading. The block cache above asks for ranges of it."""

    def __init__(self, store: Store, path: str, url: str) -> None:
        self.url = url
        self._owner = Owner()
        self.range_bytes = store.range_bytes
        self._store = store
        self._path = path
        self._under_way: set[Future[BytesLike]] = set()
        self.snapshot = self.look_again()

    def look_again(self) -> Snapshot:
        """Look at the file as it is now."""
        info = self._store.info(self._path)
        return Snapshot(info.size, f"{self.url}\n{info.etag}" if info.etag else None)

    def fetch(self, start: int, stop: int, arrived: Callable[[Future[BytesLike]], Any]) -> None:
        """Begin reading [start, stop); ``arrived`` is called with the finished future."""
        future = self._store.read(self._path, start, stop)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        future.add_done_callback(arrived)

    def close(self) -> None:
        """Cancel what was fetched ahead and has not come. Finalizers may call it."""
        under_way = self._under_way.copy()
        if under_way:
            self._owner.later(cancel_all, under_way)


class WriteFile:
    """A file being written. It appears whole when it is finished, or at a sync.

    An append goes to the version that was there when the file was opened. It is refused if somebody
    else has written another version. The same holds for what follows a sync.

    A sync is how an event file shows itself while the program runs. An object cannot grow, so each
    sync writes it anew with what came since. To keep that from taking quadratic time, a file of
    over `SMALL_SYNC` bytes is written anew only once it has grown by a quarter; the rest is seen at
    a later sync, or when the file is finished.

    What is done to it is a row of steps. Those that a finalizer asks for are left to a thread.
    """

    def __init__(
        self, store: Store, path: str, url: str, *, append: bool, found: ObjectInfo | None = None
    ) -> None:
        self.url = url
        self.owner = Owner()
        self.position = found.size if found else 0
        self._store = store
        self._path = path
        self._append = append
        self._published = found.size if found else None
        self._etag = found.etag if found else None
        self._synced = False
        self._output: Output | None = None
        self._failed = False
        self._finished = False
        self._lock = threading.RLock()
        self._steps: deque[Callable[[], None]] = deque()

    def do(self, step: Callable[[], None]) -> None:
        """Take one of the steps below, behind those that were left."""
        with self._lock:
            self.catch_up()
            step()

    def put_off(self, step: Callable[[], None]) -> None:
        """Leave a step to whoever comes next. It takes no lock, and waits for nothing."""
        self.owner.check("the file")
        self._steps.append(step)

    def catch_up(self) -> None:
        """Take the steps that were left. Those behind one that fails would fail too, and go: also
        those that were left after it, since its failure was reported."""
        with self._lock:
            if self._failed:
                self._steps.clear()
            while self._steps:
                step = self._steps.popleft()
                try:
                    step()
                except BaseException:
                    self._steps.clear()
                    raise

    def write(self, data: bytes) -> None:
        with self._working():
            self._opened().write(data)
            self.position += len(data)

    def sync(self) -> None:
        with self._working():
            self._synced = True
            if self._worth_showing():
                self._publish()

    def finish(self, data: bytes) -> None:
        """Make the file visible, whole, with its last bytes."""
        if data:
            self.write(data)
        with self._working():
            if not self._finished and (self._output or self._published is None):
                self._publish()
            self._finished = True

    @property
    def is_finished(self) -> bool:
        return self._finished

    @property
    def is_shown(self) -> bool:
        """Whether others see something of it."""
        return self._published is not None

    def end_with(self, data: bytes) -> None:
        """Finish a file that was not closed. If a step has failed before, that was reported."""
        if not self._finished and not self._failed:
            self.finish(data)

    def leave(self) -> bool:
        """At exit, show what an event file has. False for a file that was not finished, and is now
        lost. A forked child leaves everything to its parent."""
        if not self.owner.is_here:
            return True
        with self._lock:
            self.catch_up()
            if self._synced and not self._failed:
                self.finish(b"")
            lost = not self._finished
            self._abort()
            return not lost

    def _worth_showing(self) -> bool:
        if self._published is None:
            return True
        grown = self.position - self._published
        return grown > 0 and (self.position <= SMALL_SYNC or grown * 4 >= self._published)

    def _publish(self) -> None:
        new = self._append and self._published is None
        try:
            info = self._opened().commit(if_absent=True) if new else self._opened().commit()
        except FileExistsError as fault:
            raise self._overtaken() from fault
        self._output = None
        self._published, self._etag = self.position, info.etag

    def _overtaken(self) -> OSError:
        return OSError(
            errno.ESTALE, "somebody else wrote it meanwhile; nothing of this was added", self.url
        )

    def _opened(self) -> Output:
        """The output for what comes next. It begins with what is published already."""
        if self._finished:
            raise ValueError("it was written to after it was closed")
        if self._output is None:
            self._output = self._store.open_output(self._path, if_match=self._etag)
            for piece in self._shown():
                self._output.write(piece)
        return self._output

    def _shown(self) -> Iterator[BytesLike]:
        size = self._published or 0
        for start in range(0, size, PIECE_BYTES):
            stop = min(start + PIECE_BYTES, size)
            try:
                piece = self._store.read(self._path, start, stop, etag=self._etag).result()
            except ReplacedError as fault:
                raise self._overtaken() from fault
            if memoryview(piece).nbytes != stop - start:
                raise self._overtaken()
            yield piece

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """After a failure every later call fails too, because the bytes of a failed write are
        gone."""
        self.owner.check("the file")
        if self._failed:
            raise OSError(errno.EIO, "an earlier write to it failed; nothing of it is kept")
        try:
            yield
        except BaseException:
            self._failed = True
            self._abort()
            raise

    def _abort(self) -> None:
        output, self._output = self._output, None
        if output is not None:
            with contextlib.suppress(OSError):
                output.abort()
