"""Uploads an object in parts, in the background, while its next part fills."""

from __future__ import annotations

import base64
import errno
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import crc32c as crc32c_of, crc32c_combine
from tfio_store.storage.connection import Connection
from tfio_store.storage.ranges import well_formed
from tfio_store.storage.store import ObjectInfo
from tfio_store.storage.threads import Owner, PerProcess

__all__ = ["DEFAULT_PART_BYTES", "MultipartOutput", "Upload", "as_checksum"]

T = TypeVar("T")

DEFAULT_PART_BYTES = 8 << 20
PARTS_IN_FLIGHT = 8
"""How many parts of one object are in flight at once."""
BYTES_IN_FLIGHT = 64 << 20
"""Bytes of parts in flight at once in a process, for all objects together."""
PARTS_PER_SIZE = 1000
"""Stores allow 10,000 parts or more. With twice the size after each thousand, that is terabytes."""


class Upload(Protocol):
    """The requests of a store for one object in parts. Each request retries by itself."""

    url: str
    least_part_bytes: int
    """The least bytes of every part but the last."""
    part_step: int
    """The size of each of these parts is a multiple of it."""
    ordered: bool
    """Whether a part must wait until the one before it has arrived."""
    equal_parts: bool

    async def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo:
        """Write the whole object at once, if it ends before its first part is full."""

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        """Upload part ``number``, counted from 0. The first call begins the upload."""

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo: ...

    async def discard(self) -> None:
        """Make the store forget the parts. Called when no part is in flight any more."""


class ByteGate:
    """Lets so many bytes through at once. A single part may always pass, however large."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._changed = threading.Condition()

    def enter(self, nbytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + nbytes <= self._limit)
            self._held += nbytes

    def leave(self, nbytes: int) -> None:
        with self._changed:
            self._held -= nbytes
            self._changed.notify_all()


_gate = PerProcess(partial(ByteGate, BYTES_IN_FLIGHT))
"""Uploads of a parent do not go on in its child."""


class MultipartOutput:
    """The `Output` over an `Upload`. It holds one part in memory, and those in flight."""

    def __init__(self, upload: Upload, connection: Connection, part_bytes: int | None) -> None:
        self._owner = Owner()
        self._upload = upload
        self._connection = connection
        wanted = max(part_bytes or DEFAULT_PART_BYTES, upload.least_part_bytes)
        self._part_bytes = -(-wanted // upload.part_step) * upload.part_step
        self._filling = bytearray()
        self._travelling: list[Future[None]] = []
        self._sent = 0
        self._size = 0
        self._crc32c = 0
        self._failure: BaseException | None = None
        self._done = False

    def write(self, data: BytesLike) -> None:
        self._check("write")
        left = memoryview(data).cast("B")
        while len(left):
            # A full part waits for the byte after it, because the last part must be sent as the
            # last.
            if len(self._filling) == self._part_bytes:
                self._send(last=False)
            room = self._part_bytes - len(self._filling)
            self._filling += left[:room]
            left = left[room:]

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        self._check("commit")
        work: Coroutine[Any, Any, ObjectInfo]
        if self._sent:
            self._send(last=True)
            self._wait_until_travelling(0)
            self._compare(self._crc32c, crc32c)
            work = self._upload.finish(size=self._size, crc32c=self._crc32c, if_absent=if_absent)
        else:
            self._compare(crc32c_of(self._filling), crc32c)
            work = self._upload.put(self._filling, if_absent=if_absent)
        info: ObjectInfo = self._result(self._start(work))
        self._done = True
        self._filling = bytearray()
        return info

    def _compare(self, found: int, expected: int | None) -> None:
        if expected is not None and found != expected:
            self._failure = OSError(
                errno.EIO,
                f"the bytes written have the CRC32C {found:#010x}, not {expected:#010x} as the "
                "caller computed; nothing was committed",
                self._upload.url,
            )
            raise self._failure

    def abort(self) -> None:
        if self._done or not self._owner.is_here:
            return
        self._done = True
        self._filling = bytearray()
        if self._sent:
            give_up(self._travelling, self._connection, self._upload)

    def __del__(self) -> None:
        if not getattr(self, "_done", True) and self._sent:
            self._owner.later(give_up, self._travelling, self._connection, self._upload)

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._connection.start(well_formed(work, self._upload.url))

    def _check(self, action: str) -> None:
        self._owner.check(f"{self._upload.url}: this upload")
        if self._done:
            raise ValueError(f"{self._upload.url}: {action}() after commit() or abort()")
        if self._failure is not None:
            raise self._failure

    def _send(self, *, last: bool) -> None:
        self._wait_until_travelling(0 if self._upload.ordered else PARTS_IN_FLIGHT - 1)
        data, self._filling = self._filling, bytearray()
        crc = crc32c_of(data)
        self._crc32c = crc32c_combine(self._crc32c, crc, len(data))
        gate = _gate.here
        gate.enter(len(data))
        try:
            work = self._upload.send(self._sent, data, crc, last=last)
            future = self._start(work)
        except BaseException:
            gate.leave(len(data))
            raise
        nbytes = len(data)
        future.add_done_callback(lambda _: gate.leave(nbytes))
        self._travelling.append(future)
        self._sent += 1
        self._size += nbytes
        if self._sent % PARTS_PER_SIZE == 0 and not self._upload.equal_parts:
            self._part_bytes *= 2

    def _wait_until_travelling(self, most: int) -> None:
        """Wait for the oldest parts until at most ``most`` are in flight. Raise the first
        failure."""
        while len(self._travelling) > most:
            self._result(self._travelling[0])
            del self._travelling[0]
        for future in [future for future in self._travelling if future.done()]:
            self._result(future)
            self._travelling.remove(future)

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except Exception as fault:
            self._failure = fault
            raise


def give_up(travelling: Iterable[Future[None]], connection: Connection, upload: Upload) -> None:
    for future in travelling:
        future.cancel()
    connection.wait(upload.discard())


def as_checksum(crc32c: int) -> str:
    """A CRC as S3 and GCS write it in headers."""
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode()
