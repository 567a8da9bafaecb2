"""S3, GCS and Azure with their ranges fetched by obstore, whose requests run in threads of Rust."""

from __future__ import annotations

import asyncio
import atexit
import errno
import os
import re
import time
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.cloud.azure import AzureStore
from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.cloud.gcs import GCSStore
from tfio_store.storage.cloud.obstore_native import UnfitError, azure_native, gcs_native, s3_native
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.storage.faults import TRANSIENT_STATUS, ShortBodyError
from tfio_store.storage.ranges import nothing_there, unquoted, whole_range
from tfio_store.storage.redaction import redacted
from tfio_store.storage.retry import log
from tfio_store.storage.store import Version
from tfio_store.storage.threads import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["ObstoreAzureStore", "ObstoreGCSStore", "ObstoreS3Store"]


# Finds the meaning of obstore's exceptions. Most are of one type, and only the text differs.
#
# Their text holds what was asked for, signatures included, so that they are no cause to hand on.


WRONG_RANGE = ("UnexpectedRange", "NoContentRange", "ParseContentRange", "InvalidContentRange")
"""Answers with another range than was asked for, or without a range."""


class RefusedError(OSError):
    """A request that obstore could not make, and could not make a second time."""


def status_in(fault: BaseException) -> int | None:
    found = re.search(r"status code: (\d{3})", str(fault))
    return int(found[1]) if found else None


def is_beyond_end(fault: BaseException) -> bool:
    """Whether a range was refused because it begins at or behind the object's end."""
    return status_in(fault) == 416 or "Wanted range starting at" in str(fault)


def meaning(fault: Exception, url: str) -> OSError:
    """Turn ``fault`` into an OSError with errno and ``url``: ConnectionError if it may pass."""
    if isinstance(fault, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    # the first line; Rust's view of the matter follows
    text = redacted(f"{type(fault).__name__}: {str(fault).partition(chr(10))[0]}")
    status = status_in(fault)
    if any(kind in str(fault) for kind in WRONG_RANGE):
        return ShortBodyError(errno.ECONNRESET, text)
    passing = status is None and "HTTP error" in text and "builder error" not in text
    if status in TRANSIENT_STATUS or passing:
        refused = "Connection refused" in str(fault)
        number = errno.ECONNREFUSED if refused else errno.ECONNRESET
        return (ConnectionRefusedError if refused else ConnectionError)(number, text)
    return RefusedError(errno.EIO, text, url)


# A process that used obstore ends only when Rust's threads have nothing left to do.
#
# They drop what Python lent them a moment after they have answered. One that does so while the
# interpreter ends is stopped inside Rust, which aborts the process. Nothing says when they are
# done, but on Linux one can see them sleep.


LONGEST_S = 5.0
STEP_S = 0.02
STEPS = 10
"""This many looks in a row must find all of them asleep."""

BLIND_S = 0.25
"""Where threads cannot be seen."""

TASKS = "/proc/self/task"


def let_go() -> None:
    """Wait until Rust's threads sleep, for a limited time."""
    if not os.path.isdir(TASKS):
        time.sleep(BLIND_S)
        return
    asleep, end = 0, time.monotonic() + LONGEST_S
    while asleep < STEPS and time.monotonic() < end:
        time.sleep(STEP_S)  # without Python's lock, which they may wait for
        asleep = 0 if any_awake() else asleep + 1


def any_awake() -> bool:
    """Whether a thread of Rust's runtime runs, or would run if a core were free."""
    return any(is_rusts_and_awake(task) for task in os.listdir(TASKS))


def is_rusts_and_awake(task: str) -> bool:
    try:
        with open(f"{TASKS}/{task}/stat", encoding="utf-8", errors="replace") as file:
            name, _, state = file.read().partition("(")[2].rpartition(")")
    except OSError:  # it has ended
        return False
    return name.startswith("tokio") and not state.strip().startswith("S")


atexit.register(let_go)

UNPLAIN = re.compile(r"^/|//|/$|(^|/)\.\.?(/|$)|[\x00-\x1f\x7f]")
"""Keys that obstore cannot name. It takes some of them for others (``/a`` for ``a``)."""

_used_by: Owner | None = None
"""The process that used obstore first: its forked children inherit a runtime without threads."""


def is_forked() -> bool:
    """Whether this is the child of a process that has used obstore. Notes the use, too."""
    global _used_by
    if _used_by is None:
        _used_by = Owner()
    return not _used_by.is_here


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

    @cached_property
    def _natives(self) -> dict[str, asyncio.Future[Any]]:
        """obstore's store of each bucket; None for a bucket that is read through fsspec."""
        return {}

    @cached_property
    def _once_refused(self) -> set[str]:
        """Buckets in which fsspec got what obstore was refused."""
        return set()

    @abstractmethod
    async def _make(self, bucket: str) -> Any:
        """obstore's store of a bucket. Raises UnfitError where there can be none."""

    async def _read(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if stop <= start:
            return b""
        bucket, key = self._split(path)
        if not key or UNPLAIN.search(key) or is_forked():
            return await self._read_by_fsspec(path, start, stop, version)

        native: Any = None

        async def attempt() -> BytesLike | None:
            nonlocal native
            native = await self._native(bucket)
            if native is None:
                return None
            return await self._fetch((native, key), path, (start, stop), version)

        try:
            data = await self._ask(path, attempt, nbytes=stop - start)
        except RefusedError as refusal:
            data = await self._read_by_fsspec(path, start, stop, version)
            self._distrust(bucket, native, refusal)
            return data
        return data if data is not None else await self._read_by_fsspec(path, start, stop, version)

    async def _read_by_fsspec(
        self, path: str, start: int, stop: int, version: Version
    ) -> BytesLike:
        return await super()._read(path, start, stop, version)

    async def _fetch(
        self, place: tuple[Any, str], path: str, span: tuple[int, int], version: Version
    ) -> BytesLike:
        import obstore

        options: Any = {"range": span}
        try:
            answer = await obstore.get_async(*place, options=options)
            data = memoryview(await answer.bytes_async())
        except Exception as fault:
            if not is_beyond_end(fault):
                raise meaning(fault, self.url(path)) from None
            info = await self._info(path)
            version.hold(info.etag, self.url(path))
            return nothing_there(span[0], info)
        version.hold(self._etag(answer.meta), self.url(path))
        first, end = answer.range
        content_range = f"bytes {first}-{end - 1}/{answer.meta['size']}"
        return whole_range(data, None, content_range, *span)

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        return unquoted(meta.get("e_tag"))

    async def _native(self, bucket: str) -> Any:
        making = self._natives.get(bucket)
        if making is None:
            making = self._natives[bucket] = asyncio.ensure_future(self._made(bucket))
        try:
            return await asyncio.shield(making)
        except Exception:
            self._natives.pop(bucket, None)
            raise

    async def _made(self, bucket: str) -> Any:
        try:
            return await self._make(bucket)
        except UnfitError as reason:
            log.warning("%s: read through fsspec, not obstore: %s", self.url(bucket), reason)
            return None

    def _distrust(self, bucket: str, native: Any, refusal: RefusedError) -> None:
        """After a first refusal ask again where the bucket is: fsspec may know its region by now.
        After a second one, leave the bucket to fsspec. Of many requests that one store of obstore's
        was refused at a time, one counts."""
        made = self._natives.get(bucket)
        if made is None or not made.done() or made.result() is not native:
            return
        del self._natives[bucket]
        if bucket in self._once_refused:
            log.warning("%s: read through fsspec from now on: %s", self.url(bucket), refusal)
            nothing = self._natives[bucket] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
        self._once_refused.add(bucket)


class ObstoreS3Store(ObstoreReads, S3Store):
    """A `Store` of S3 objects, read by obstore."""

    async def _make(self, bucket: str) -> Any:
        return await s3_native(self._connection.fs, bucket)


class ObstoreGCSStore(ObstoreReads, GCSStore):
    """A `Store` of GCS objects, read by obstore. Its etags are generations."""

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        return meta.get("version")

    async def _make(self, bucket: str) -> Any:
        fs = self._connection.fs
        return await gcs_native(fs, self._client.tokens, bucket, self._retry.timeout)


class ObstoreAzureStore(ObstoreReads, AzureStore):
    """A `Store` of block blobs, read by obstore."""

    async def _make(self, bucket: str) -> Any:
        return await azure_native(self._connection.fs, bucket, self._retry.timeout)
