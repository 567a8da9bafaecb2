"""What the library asks of a place that keeps objects: the `Store` protocol.

A store is bound to one scheme and one set of storage options. Its *paths* are
what `open_store` gives beside it (``bucket/key``, ``/folder/file``); `Store.url` turns one
back into what a person would type. Failures are ``OSError`` subclasses that
name the URL: ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError``,
``FileExistsError`` for a lost condition, ``TimeoutError`` and ``ConnectionError`` once the
retries of a passing fault are used up.
"""

from __future__ import annotations

import builtins  # because `Store.list` hides the type within the class
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

    from tfio_store.storage.version import Version

__all__ = ["ObjectInfo", "Output", "PendingUpload", "Store"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object. ``crc32c`` is what the store computed or checked; None if it tells
    none. ``modified`` is when it was last written, in seconds since 1970, if `Store.info` asked
    and the store tells."""

    path: str
    size: int
    etag: str | None = None
    crc32c: int | None = None
    modified: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that was begun and neither committed nor aborted."""

    path: str
    token: str
    begun: float | None = None
    """When, in Unix time. None if nobody knows."""


class Output(Protocol):
    """A new object being written. Nobody sees it before `commit`."""

    def write(self, data: BytesLike) -> None:
        """Take ``data``, in order. The caller must not change it afterwards. The upload may run in
        the background. A failure is raised here or at `commit`, with its cause."""

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        """Make the object visible, whole, at once. ``if_absent``: FileExistsError when the path is
        taken (where the store can tell; see `Store.conditional`). ``crc32c`` of all bytes is sent
        along where the store verifies it."""

    def abort(self) -> None:
        """Leave nothing behind. Idempotent; does nothing after `commit`."""


class Store(Protocol):
    """Ranged reads, listing, and transactional writing. Safe to use from several threads."""

    @property
    def conditional(self) -> bool:
        """Whether ``if_absent`` and ``if_match`` of `put` are decided by the store, atomically."""

    @property
    def asks_once(self) -> bool:
        """Whether nothing below this store sends a request again by itself. HTTP clients do
        (aiohttp repeats a PUT if a kept connection breaks), and so do proxies. Then a refusal is
        not final: an earlier copy of the request may still be carried out. A store that does not
        tell counts as one that may repeat."""

    @property
    def range_bytes(self) -> int:
        """How many bytes one request should ask for, if there is much to read."""

    @property
    def in_flight(self) -> int:
        """How many such requests at a time are usually fastest."""

    @property
    def most_in_flight(self) -> int:
        """How many requests at a time there may be, if more are faster still."""

    @property
    def lists_cheaply(self) -> bool:
        """Whether a listing is one small request, which nobody regrets, and which does not keep
        other requests waiting."""

    @property
    def service(self) -> str | None:
        """What tells this service from another that has the same URLs; not to show. None if the
        store can't tell it, or can't tell versions: then nothing of it is cached."""

    def address(self, path: str) -> str:
        """The URL that `open_store` turns into this path and this place, whatever account or host
        the first URL named. It may hold a password or signature: do not show it."""

    def url(self, path: str) -> str:
        """The address without credentials, to show."""

    def info(self, path: str) -> ObjectInfo:
        """FileNotFoundError, IsADirectoryError, PermissionError."""

    def look(self, path: str) -> ObjectInfo | None:
        """What `info` tells, or None if there is no object: one request, where `info` may make a
        second one to tell a folder from nothing."""

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        """Read a small object whole by one request, with the size and etag of exactly these bytes.
        FileNotFoundError, IsADirectoryError; OSError if it has more than ``most`` bytes. (If only
        the fsspec class of a filesystem is known, a look is a request of its own.)"""

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        """Begin to read bytes [start, stop). The result has exactly that many, and fewer only if
        the object is known to end there. Cancelling the future cancels the request. Passing faults
        are retried; a short answer is one. With ``etag`` the bytes are of that version, or
        ReplacedError is raised. A `Version` that knows no etag yet takes that of the first
        answer."""

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        """Every object below ``folder``, at any depth, sorted by path. An empty folder is no
        error."""

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        """The objects that match, sorted by path."""

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> Output:
        """Begin an object. With ``if_match`` it replaces only the object of that etag. If that is
        gone, or another is there, `Output.commit` raises FileExistsError."""

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        """Write a small object in one atomic request. FileExistsError if ``if_absent`` finds an
        object, or if no object has the etag ``if_match`` any more. PermissionError if it still has
        that etag, and the store refuses all the same."""

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Make ``target`` an object of the same bytes, whole and at once. The service copies by
        itself, if it can. FileExistsError when the path is taken (where the store can tell; see
        `Store.conditional`). If an answer was lost, the object may be this copy."""

    def delete(self, paths: Iterable[str]) -> None:
        """Missing ones are no error."""

    def delete_version(self, path: str, etag: str | None) -> None:
        """Delete the object if it still has this etag, and leave it otherwise. If the service can't
        compare, look first. With None, delete any version."""

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        """Uploads under ``folder`` that a dead writer left (multipart uploads, temporary files).
        Those of folders in it may be left out unless ``deep``."""

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None: ...
