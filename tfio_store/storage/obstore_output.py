"""An object that obstore uploads in parts."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tfio_store.framing import crc32c as crc32c_of
from tfio_store.storage.multipart import BYTES_IN_FLIGHT, DEFAULT_PART_BYTES
from tfio_store.storage.store import ObjectInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["ObstoreOutput", "Target"]

LEAST_PART_BYTES = 5 << 20

_uploading: weakref.WeakSet[ObstoreOutput] = weakref.WeakSet()
_lock = threading.Lock()


class Target(Protocol):
    """What an output needs of its store, for one path."""

    @property
    def url(self) -> str: ...

    def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo: ...

    def open_writer(self, token: str, part_bytes: int, parts_in_flight: int) -> Any:
        """obstore's file object for a multipart upload of an object that carries ``token``."""

    def carries(self, token: str) -> bool:
        """Whether the store has an object there, and it carries ``token``."""

    def info(self) -> ObjectInfo: ...

    def translated(self, fault: Exception) -> Exception: ...


class ObstoreOutput:
    """One PUT for an object that ends within its first part, else obstore's multipart upload.

    obstore has no conditional completion: ``if_absent`` is looked up before a large object is
    completed, so of two that race for one path the last may win. What decides a dataset, its
    manifest, is small, and written by one conditional request.
    """

    def __init__(self, target: Target, part_bytes: int | None) -> None:
        self._target = target
        self._part_bytes = max(part_bytes or DEFAULT_PART_BYTES, LEAST_PART_BYTES)
        self._beginning = bytearray()
        self._writer: Any = None
        self._token = secrets.token_hex(16)
        self._size = 0
        self._crc32c = 0
        self._done = False
        self._process = os.getpid()

    def write(self, data: BytesLike) -> None:
        self._check("write")
        view = memoryview(data).cast("B")
        self._crc32c = crc32c_of(view, self._crc32c)
        self._size += len(view)
        if self._writer is None:
            self._beginning += view
            if len(self._beginning) <= self._part_bytes:
                return
            view, self._beginning = memoryview(self._beginning), bytearray()
            self._writer = self._target.open_writer(self._token, self._part_bytes, self._share())
        self._guarded(lambda: self._writer.write(view))

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        self._check("commit")
        if crc32c is not None and crc32c != self._crc32c:
            raise OSError(
                errno.EIO,
                f"the bytes written have the CRC32C {self._crc32c:#010x}, not {crc32c:#010x} as "
                "the caller computed; nothing was committed",
                self._target.url,
            )
        if self._writer is None:
            info = self._target.put(self._beginning, if_absent=if_absent)
        else:
            info = self._complete(if_absent)
        self._done = True
        return info

    def _complete(self, if_absent: bool) -> ObjectInfo:
        if if_absent:
            with contextlib.suppress(FileNotFoundError):
                self._target.info()
                raise FileExistsError(errno.EEXIST, "the path is taken", self._target.url)
        try:
            self._guarded(self._writer.close)
        except OSError:  # perhaps of a second attempt, after one whose answer was lost
            if not self._target.carries(self._token):
                raise
        info = self._target.info()
        if info.size != self._size:
            raise OSError(
                errno.EIO, f"the store has {info.size} of {self._size} bytes", self._target.url
            )
        return info

    def abort(self) -> None:
        if self._done or self._process != os.getpid():
            return
        self._done = True
        self._beginning = bytearray()
        if self._writer is not None:
            # with an exception its context manager aborts the upload, without it completes it
            give_up = RuntimeError("aborted")
            self._guarded(lambda: self._writer.__exit__(RuntimeError, give_up, None))

    def __del__(self) -> None:
        if not getattr(self, "_done", True):
            with contextlib.suppress(Exception):
                self.abort()

    def _check(self, action: str) -> None:
        if self._done:
            raise ValueError(f"{self._target.url}: {action}() after commit() or abort()")

    def _share(self) -> int:
        """How many parts of this object may travel, so that all that are open keep the bound."""
        with _lock:
            _uploading.add(self)
            outputs = len(_uploading)
        return max(BYTES_IN_FLIGHT // (self._part_bytes * outputs), 1)

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as fault:
            raise self._target.translated(fault) from fault
