"""S3, GCS and Azure with their ranges fetched by obstore, whose requests run in threads of Rust.

A thread of ours waits for each of them, without Python's lock (`cloud/blocking.py`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import joined
from tfio_store.storage.answers import StatusError, beginning, message_in
from tfio_store.storage.cloud.azure import AzureStore
from tfio_store.storage.cloud.blocking import Wanted, asked, calls, rest
from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.cloud.gcs import GCSStore
from tfio_store.storage.cloud.obstore_native import (
    MOST_BYTES,
    UnfitError,
    azure_native,
    gcs_native,
    s3_native,
)
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.storage.faults import TRANSIENT_CODES, TRANSIENT_STATUS, ShortBodyError
from tfio_store.storage.ranges import nothing_there, unquoted, wanted_range
from tfio_store.storage.redaction import redacted
from tfio_store.storage.retry import log, repeated_blocking
from tfio_store.storage.store import Version
from tfio_store.storage.threads import Owner

__all__ = [
    "AutoAzureStore",
    "AutoGCSStore",
    "AutoS3Store",
    "ObstoreAzureStore",
    "ObstoreGCSStore",
    "ObstoreReads",
    "ObstoreS3Store",
]


# Finds the meaning of obstore's exceptions. Most are of one type, and only the text differs.
#
# Their text holds what was asked for, signatures included, so that they are no cause to hand on.


WRONG_RANGE = ("UnexpectedRange", "NoContentRange", "ParseContentRange", "InvalidContentRange")
"""Answers with another range than was asked for, or without a range."""

CODE = re.compile(r"<Code>(\w+)</Code>")

TIMED_OUT = ("operation timed out", "TimedOut")

MOST_TEXT = 4096
"""Characters of a text that are looked at. It has the body of a refusal, however long that is."""


class RefusedError(OSError):
    """A request that obstore could not make, and could not make a second time."""


class PassingAnswerError(StatusError):
    """An answer that another one may follow. ``error_code`` is the store's, if it gave one."""

    def __init__(self, status: int, text: str, code: str | None) -> None:
        super().__init__(status, text)
        self.error_code = code


def status_in(said: str) -> int | None:
    found = re.search(r"status code: (\d{3})", said)
    return int(found[1]) if found else None


def is_beyond_end(said: str) -> bool:
    """Whether a range was refused because it begins at or behind the object's end."""
    return status_in(said) == 416 or "Wanted range starting at" in said


def meaning(kind: str, said: str, url: str) -> Exception:
    """The exception that tells whether a fault of this class and text may pass: an OSError with
    errno, or a PassingAnswerError."""
    if kind in ("FileNotFoundError", "NotFoundError"):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    # the first line; Rust's view of the matter follows
    text = redacted(f"{kind}: {said.partition(chr(10))[0]}")
    status = status_in(said)
    if any(words in said for words in WRONG_RANGE):
        return ShortBodyError(errno.ECONNRESET, text)
    if status is None and any(words in said for words in TIMED_OUT):
        return TimeoutError(errno.ETIMEDOUT, text)
    code = CODE.search(said)
    if status is not None and (
        status in TRANSIENT_STATUS or (code is not None and code[1] in TRANSIENT_CODES)
    ):
        if code is None:
            return PassingAnswerError(status, text, None)
        told = message_in(said.partition("Debug source:")[0])  # which repeats it
        return PassingAnswerError(status, redacted(told), code[1])
    if status is None and "HTTP error" in text and "builder error" not in text:
        if "dns error" in said:
            return socket.gaierror(socket.EAI_NONAME, f"dns error: {text}")
        refused = "Connection refused" in said
        number = errno.ECONNREFUSED if refused else errno.ECONNRESET
        return (ConnectionRefusedError if refused else ConnectionError)(number, text)
    return RefusedError(errno.EIO, text, url)


UNPLAIN = re.compile(r"^/|//|/$|(^|/)\.\.?(/|$)|[\x00-\x1f\x7f]")
"""Keys that obstore cannot name. It takes some of them for others (``/a`` for ``a``)."""

UNKNOWN: Any = object()

T = TypeVar("T")

_PIECE = 256 << 10
"""Bytes of an answer that obstore gives at a time, at least."""

_MOST_PLACES = 1024
"""Paths of which the bucket and key are kept."""

_PROBATION = 8
"""So many answers of a bucket must have the length that they announce before it is trusted to."""

_used_by: Owner | None = None
"""The process that used obstore first: its forked children inherit a runtime without threads."""


def is_usable() -> bool:
    """Whether this is not the child of a process that has used obstore. Notes the use, too."""
    global _used_by
    if _used_by is None:
        _used_by = Owner()
    return _used_by.is_here


class ObstoreReads(BucketStore):
    """Fetches ranges by obstore; all else is the store that it is mixed into.

    One client understands the settings: where a bucket is and who asks for it comes from the fsspec
    filesystem (`obstore_native`). Whatever obstore cannot do as that filesystem does goes through
    it: settings and keys that obstore does not know, and requests that were refused, so that its
    answer is the one that counts. Tokio, which runs obstore's requests, does not survive a fork:
    the child of a process that has used obstore goes there, too.
    """

    range_bytes = 4 << 20  # an answer is joined from its pieces, and so takes twice its size
    in_flight = 32
    most_in_flight = 128
    fallback_level = logging.WARNING
    """Of the line that says that a bucket is read by fsspec."""
    same_interface = True
    """Whether obstore and fsspec ask the service alike. An emulator may lack one of two interfaces,
    and find nothing there."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._places: dict[str, tuple[str, str] | None] = {}
        """Bucket and key of paths that were asked for; None of one that obstore cannot name."""
        self._natives: dict[str, Any] = {}
        """obstore's store of each bucket; None for a bucket that is read through fsspec."""
        self._proven: dict[str, int] = {}
        """How many ranges of each bucket obstore has read, as far as that matters."""
        self._once_refused: set[str] = set()
        """Buckets in which fsspec got what obstore was refused."""
        self._unfit: dict[str, str] = {}
        """Why a bucket is read through fsspec."""
        self._making = threading.Lock()

    @abstractmethod
    async def _make(self, bucket: str) -> Any:
        """obstore's store of a bucket. Raises UnfitError where there can be none."""

    def client_of(self, path: str) -> str:
        bucket, _ = self._split(path)
        if not is_usable() or self._native(bucket) is None:
            return f"fsspec: {self._unfit.get(bucket, 'this process was forked')}"
        return "obstore"

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        reading = self._reading(path, start, stop, Version.of(etag))
        return super().read(path, start, stop, etag=etag) if reading is None else asked(reading)

    def worked(
        self, path: str, start: int, stop: int, version: Version, work: Callable[[BytesLike], T]
    ) -> Future[T] | None:
        """What ``work`` makes of the bytes, in the very thread that waits for them. None where none
        does, and they are to be read."""
        reading = self._reading(path, start, stop, version)
        return None if reading is None else asked(lambda wanted: work(reading(wanted)))

    def _reading(
        self, path: str, start: int, stop: int, version: Version
    ) -> Callable[[Wanted], BytesLike] | None:
        """What reads by obstore in the calling thread. None where fsspec must."""
        if not self._natives:
            self._connection.opened(self.url(path))  # wrong options fail here, with their own error
        place = self._place(path)
        if stop <= start or place is None or not is_usable():
            return None
        if self._natives.get(place[0], UNKNOWN) is None:
            return None
        return partial(self._read_now, path, place, (start, stop), version)

    def _place(self, path: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = self._places.get(path, UNKNOWN)
        if found is UNKNOWN:
            bucket, key = self._split(path)
            found = None if not key or UNPLAIN.search(key) else (bucket, key)
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[path] = found
        return found

    def _read_now(
        self,
        path: str,
        place: tuple[str, str],
        span: tuple[int, int],
        version: Version,
        wanted: Wanted,
    ) -> BytesLike:
        """Read in this thread, as long as that is ``wanted``."""
        native: Any = None
        start, stop = span
        pieces, at, end, size = list[memoryview](), start, start, stop
        pace, url = self._pace.here, self.url(path)

        def attempt() -> tuple[memoryview, int] | None:
            nonlocal native
            native = self._native(place[0])
            if native is None:
                return None
            try:
                trusted = self._proven.get(place[0], 0) == _PROBATION
                return self._fetch((native, place[1]), path, (at, end), version, trusted)
            except FileNotFoundError as missing:
                if self.same_interface or place[0] in self._proven:
                    raise
                words = "obstore finds nothing"
                raise RefusedError(errno.EIO, words, url) from missing

        while at < min(stop, size):
            end = min(at + MOST_BYTES, stop)
            try:
                pause = partial(rest, wanted)
                found = repeated_blocking(self._retry, attempt, url, pace, self._secrets, pause)
            except RefusedError as refusal:
                data = self._read_by_fsspec(path, start, stop, version)
                self._distrust(place[0], native, refusal)
                return data
            if found is None:
                return self._read_by_fsspec(path, start, stop, version)
            if (count := self._proven.get(place[0], 0)) < _PROBATION:
                self._proven[place[0]] = count + 1
            pace.answered = True
            piece, size = found
            pieces.append(piece)
            at = end
        return pieces[0] if len(pieces) == 1 else joined(pieces)

    def _read_by_fsspec(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        return self._wait(path, self._read(path, start, stop, version))

    def _fetch(
        self,
        place: tuple[Any, str],
        path: str,
        span: tuple[int, int],
        version: Version,
        trusted: bool,
    ) -> tuple[memoryview, int]:
        """A range of an object, and the object's size."""
        import obstore

        options: Any = {"range": span}
        try:
            with calls:
                answer = obstore.get(*place, options=options)
                data = _body(answer, trusted)
        except RuntimeError:
            raise  # the interpreter is on its way out
        except Exception as fault:
            kind, said = type(fault).__name__, beginning(str(fault), MOST_TEXT)
        else:
            meta = answer.meta
            version.hold(self._etag(meta), self.url(path))
            size = meta["size"]
            return wanted_range(data, answer.range, size, *span), size
        if not is_beyond_end(said):
            raise meaning(kind, said, self.url(path))  # outside the handler, which would chain them
        info = self.info(path)
        version.hold(info.etag, self.url(path))
        return memoryview(nothing_there(span[0], info)), info.size

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        return unquoted(meta.get("e_tag"))

    def _native(self, bucket: str) -> Any:
        """Made once. Whoever asks meanwhile waits."""
        found = self._natives.get(bucket, UNKNOWN)
        if found is UNKNOWN:
            with self._making:
                found = self._natives.get(bucket, UNKNOWN)
                if found is UNKNOWN:
                    made = asyncio.wait_for(self._made(bucket), self._retry.timeout)
                    found = self._natives[bucket] = self._wait(bucket, made)
        return found

    async def _made(self, bucket: str) -> Any:
        try:
            return await self._make(bucket)
        except UnfitError as reason:
            self._leave(bucket, "read through fsspec, not obstore", reason)
            return None

    def _leave(self, bucket: str, words: str, reason: Exception) -> None:
        why = self._unfit[bucket] = redacted(str(reason), self._secrets)
        log.log(self.fallback_level, "%s: %s: %s", self.url(bucket), words, why)

    def _distrust(self, bucket: str, native: Any, refusal: RefusedError) -> None:
        """After a first refusal ask again where the bucket is: fsspec may know its region by now.
        After a second one, leave the bucket to fsspec. Of many requests that one store of obstore's
        was refused at a time, one counts."""
        with self._making:
            if self._natives.get(bucket) is not native:
                return
            del self._natives[bucket]
            if bucket in self._once_refused:
                self._leave(bucket, "read through fsspec from now on", refusal)
                self._natives[bucket] = None
            self._once_refused.add(bucket)


def _body(answer: Any, trusted: bool) -> memoryview:
    """The bytes of the range that was announced. obstore copies a stream's pieces under Python's
    lock, and a whole body not at all; but it reads as much of that as is sent, and a harmful server
    may send for ever. So only of servers that are ``trusted`` the body is taken whole."""
    if trusted:
        return memoryview(answer.bytes())
    start, stop = answer.range
    left, pieces = stop - start, list[bytes]()
    for piece in answer.stream(min_chunk_size=_PIECE):
        left -= len(piece)
        if left < 0:
            words = f"answered more than the {stop - start} bytes announced"
            raise ValueError(f"{WRONG_RANGE[0]}: {words}")
        pieces.append(piece)
    return memoryview(pieces[0]) if len(pieces) == 1 else joined(pieces)


class ObstoreS3Store(ObstoreReads, S3Store):
    """A `Store` of S3 objects, read by obstore."""

    async def _make(self, bucket: str) -> Any:
        return await s3_native(self._connection, bucket, self._retry)


class ObstoreGCSStore(ObstoreReads, GCSStore):
    """A `Store` of GCS objects, read by obstore. Its etags are generations."""

    same_interface = False  # obstore asks for XML, gcsfs for JSON

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        return meta.get("version")

    async def _make(self, bucket: str) -> Any:
        return await gcs_native(self._connection, self._client.tokens, bucket, self._retry)


class ObstoreAzureStore(ObstoreReads, AzureStore):
    """A `Store` of block blobs, read by obstore."""

    async def _make(self, bucket: str) -> Any:
        return await azure_native(self._connection, bucket, self._retry)


# Where nobody has asked for obstore by its name, it is nothing to warn of that fsspec reads.


class AutoS3Store(ObstoreS3Store):
    """The store of ``backend="auto"``."""

    fallback_level = logging.INFO


class AutoGCSStore(ObstoreGCSStore):
    """The store of ``backend="auto"``."""

    fallback_level = logging.INFO


class AutoAzureStore(ObstoreAzureStore):
    """The store of ``backend="auto"``."""

    fallback_level = logging.INFO
