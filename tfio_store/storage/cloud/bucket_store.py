"""The common part of S3, GCS and Azure: buckets of keys behind an asynchronous client."""

from __future__ import annotations

import asyncio
import builtins
import errno
import json
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.cloud.multipart import MultipartOutput, Upload
from tfio_store.storage.connection import Connection
from tfio_store.storage.pace import Pace
from tfio_store.storage.ranges import well_formed
from tfio_store.storage.redaction import redacted_url, secrets_in
from tfio_store.storage.registry import Origin, shared_store
from tfio_store.storage.retry import Retry, repeated
from tfio_store.storage.store import (
    ConditionRefusedError,
    ObjectInfo,
    PendingUpload,
    Version,
    first_names,
)
from tfio_store.storage.threads import PerProcess

__all__ = ["DELETES_AT_ONCE", "BucketStore", "Mark", "Page", "at_once", "check_copy", "matcher"]


# Copies that a store makes by itself. We look at each copy, whatever the store says.
#
# A rename is a copy, and then a delete of the source. If the copy was only begun, or only
# announced, the object would be lost.


def check_copy(source: ObjectInfo, copy: ObjectInfo, url: str) -> None:
    """Raise OSError unless ``copy`` is as long as the source, and of the same CRC where both are
    known."""
    if copy.size != source.size:
        raise OSError(errno.EIO, f"the store copied {copy.size} of {source.size} bytes", url)
    if None not in (copy.crc32c, source.crc32c) and copy.crc32c != source.crc32c:
        raise OSError(errno.EIO, "the store's copy has another CRC32C than its source", url)


# How the writer of an object knows it again when the answer to its own request was lost.
#
# A store's "the condition does not hold", or "no such upload", may answer the second attempt at
# what a first one did. Then the object carries the writer's mark, and the refusal is success.


class Mark:
    """A random text in the metadata of one object. No two writers have the same."""

    def __init__(self, key: str = "tfio-store-attempt") -> None:
        self._key = key
        self.text = secrets.token_hex(16)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that the object is written with."""
        return {self._key: self.text}

    def is_on(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether an object with this metadata is this writer's. None: there is no object."""
        return metadata is not None and metadata.get(self._key) == self.text


# Shell patterns over the flat names of an object store.


def matcher(pattern: str) -> re.Pattern[str]:
    """``*``, ``?``, ``[seq]`` within a name, ``**`` across folders, as fsspec's glob does."""
    from fsspec.utils import glob_translate

    return re.compile(glob_translate(pattern))


T = TypeVar("T")
Page = tuple[list[ObjectInfo], list[str], str | None]
"""Some objects, some folders, and the token that asks for the next page; None after the last."""

DELETES_AT_ONCE = 32

PLACES = (
    "endpoint_url", "endpoint", "base_url", "account_name", "account_host", "connection_string",
)  # fmt: skip
"""Options that say which of several services is meant."""

LOOKS_AGAIN = (0.05, 0.2, 0.75)
"""Seconds between looks at an object whose replacement was refused."""


class BucketStore(ABC):
    """A `Store` over requests that one subclass for each service makes. Paths are ``bucket/key``.

    Methods with an underscore run on the connection's loop, and retry by themselves.
    """

    conditional = True
    asks_once = False
    range_bytes = 8 << 20
    in_flight = 16
    most_in_flight = 64
    lists_cheaply = True

    def __init__(
        self,
        scheme: str,
        options: Mapping[str, Any],
        retry: Retry,
        connection: Connection,
        origin: Origin | None = None,
    ) -> None:
        self._scheme = scheme
        self._options = dict(options)
        self._secrets = secrets_in(options)
        self._retry = retry
        self._connection = connection
        self._pace = PerProcess(Pace)  # what waits in a parent never leaves a child's queue
        self._origin = origin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._scheme!r})"  # options may hold credentials

    @property
    def service(self) -> str:
        """From all options that may name it."""
        nested = self._options.get("client_kwargs")
        found = [nested if isinstance(nested, Mapping) else {}, self._options]
        return json.dumps([[str(each.get(name, "")) for name in PLACES] for each in found])

    def __reduce__(self) -> tuple[object, ...]:
        return shared_store, (type(self), self._scheme, self._options, self._retry, self._origin)

    def address(self, path: str) -> str:
        return f"{self._scheme}://{path}" if self._origin is None else self._origin.url(path)

    def url(self, path: str) -> str:
        return redacted_url(self.address(path))

    def client_of(self, path: str) -> str:
        """What reads the bucket, and why if that is not what was wanted: see `diagnose`."""
        del path
        return "fsspec"

    def info(self, path: str) -> ObjectInfo:
        return self._wait(path, self._info(path))

    def look(self, path: str) -> ObjectInfo | None:
        return self._wait(path, self._look(path))

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        return self._wait(path, self._get(path, most))

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        return self._start(path, self._read(path, start, stop, Version.of(etag)))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return self._listed(folder.rstrip("/") + "/", deep=True)

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        prefix, matches = re.split(r"[*?\[]", pattern, maxsplit=1)[0], matcher(pattern)
        if "/" not in prefix:
            raise ValueError(f"{self.url(pattern)}: no patterns in the name of a bucket")
        deep = "/" in pattern[len(prefix) :] or "**" in pattern
        return [found for found in self._listed(prefix, deep) if matches.match(found.path)]

    def some_names(self, folder: str, beginning: str) -> Iterator[str]:
        """A page each of objects in the folder, of those below it, and of those that begin alike.
        See `names_in`."""
        if not folder:
            return
        start = f"{folder.rstrip('/')}/"
        for prefix, deep in ((start, False), (start, True), (f"{start}{beginning}", True)):
            found, folders, token = self._wait(prefix, self._page(prefix, deep, None))
            yield from first_names([*(one.path for one in found), *folders], start)
            if token is None:
                return  # that was all

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> MultipartOutput:
        return MultipartOutput(self._upload(path, if_match), self._connection, part_bytes)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        try:
            return self._wait(path, self._put(path, bytes(data), if_absent, if_match))
        except FileExistsError as fault:
            if if_match is not None and self._stays(path, if_match):
                raise ConditionRefusedError.of(self.url(path)) from fault
            raise

    def _stays(self, path: str, etag: str) -> bool:
        """Whether the object keeps this etag. A store may say that the condition is lost a moment
        before it shows what the winner has written (Ceph does)."""
        for pause in LOOKS_AGAIN:
            if self._etag_now(path) != etag:
                return False
            time.sleep(pause)
        return self._etag_now(path) == etag

    def _etag_now(self, path: str) -> str | None:
        try:
            return self.info(path).etag
        except OSError:
            return None

    def copy(self, source: str, target: str) -> ObjectInfo:
        return self._wait(target, self._copy(source, target, if_absent=True))

    def delete(self, paths: Iterable[str]) -> None:
        self._connection.wait(self._delete_all(paths))

    def delete_version(self, path: str, etag: str | None) -> None:
        self._wait(path, self._delete(path, etag))

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        del deep  # one listing has all
        return self._wait(folder, self._pending(folder.rstrip("/") + "/"))

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self._connection.wait(at_once(DELETES_AT_ONCE, map(self._abort, uploads)))

    def _start(self, path: str, work: Coroutine[Any, Any, T]) -> Future[T]:
        url = self.url(path)
        self._connection.check_for(work, url)
        return self._connection.start(well_formed(work, url))

    def _wait(self, path: str, work: Coroutine[Any, Any, T]) -> T:
        url = self.url(path)
        self._connection.check_for(work, url)
        return self._connection.wait(well_formed(work, url))

    @abstractmethod
    async def _look(self, path: str) -> ObjectInfo | None:
        """None if there is no object."""

    async def _info(self, path: str) -> ObjectInfo:
        found = await self._look(path)
        if found is None:
            raise await self._missing_or_folder(path)
        return found

    def _split(self, path: str) -> tuple[str, str]:
        """Bucket and key."""
        bucket, _, key = path.partition("/")
        return bucket, key

    async def _get(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        if not self._split(path)[1]:
            raise self._is_folder(path)
        return await self._ask(path, partial(self._whole, path, most))

    @abstractmethod
    async def _whole(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        """Ask once for all of an object."""

    async def _read(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if stop <= start:
            return b""
        ask = partial(self._range, path, start, stop, version)
        return await self._ask(path, ask, nbytes=stop - start)

    @abstractmethod
    async def _range(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        """Ask once for a range of an object."""

    @abstractmethod
    async def _page(
        self, prefix: str, deep: bool, token: str | None, most: int | None = None
    ) -> Page:
        """Objects whose paths begin with ``prefix``, sorted by path. Unless ``deep``, only those of
        its level, and the folders there, whose paths end in "/". ``most``: how many are enough."""

    @abstractmethod
    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo: ...

    @abstractmethod
    def _upload(self, path: str, if_match: str | None) -> Upload: ...

    @abstractmethod
    async def _delete(self, path: str, etag: str | None = None) -> None:
        """Delete the object, if it has this etag. A missing one is no error."""

    async def _delete_all(self, paths: Iterable[str]) -> None:
        """The default, for services that delete one object by one request."""
        await at_once(DELETES_AT_ONCE, map(self._delete, paths))

    @abstractmethod
    async def _copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        """Have the service copy an object. Returns once the copy is whole, and raises otherwise.
        ``if_absent``: FileExistsError if the target is taken."""

    async def _check_free(self, path: str) -> None:
        """FileExistsError if there is an object: for copies whose conditions a service's emulators
        ignore."""
        if await self._look(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))

    async def _pending(self, prefix: str) -> builtins.list[PendingUpload]:
        """The default, for services that list no partial uploads, and forget them in time."""
        del prefix
        return []

    async def _abort(self, upload: PendingUpload) -> None:
        raise NotImplementedError(f"{self.url(upload.path)}: its service lists no uploads")

    def _listed(self, prefix: str, deep: bool) -> Iterator[ObjectInfo]:
        token = None
        while True:
            try:
                found, _, token = self._wait(prefix, self._page(prefix, deep, token))
            except FileNotFoundError as fault:  # no such bucket
                fault.filename = self.url(prefix[: prefix.rindex("/") + 1])
                raise
            # a key that ends in "/" is what consoles make in place of a folder
            yield from (one for one in found if not one.path.endswith("/"))
            if token is None:
                return

    async def _ask(self, path: str, ask: Callable[[], Awaitable[T]], *, nbytes: int = 0) -> T:
        """Await ``ask()``, and repeat it after passing faults."""
        return await repeated(
            self._retry, ask, self.url(path), nbytes, self._pace.here, self._secrets
        )

    async def _missing_or_folder(self, path: str) -> OSError:
        """Make the exception for a path without an object."""
        found, _, _ = await self._page(path.rstrip("/") + "/", True, None, 1)
        if found:
            return self._is_folder(path)
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))

    def _is_folder(self, path: str) -> IsADirectoryError:
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.url(path))


async def at_once(limit: int, work: Iterable[Any]) -> None:
    """Await all of ``work``, at most ``limit`` at a time. After a failure nothing new begins."""
    waiting = iter(work)

    async def take_turns() -> None:
        for one in waiting:
            await one

    await asyncio.gather(*(take_turns() for _ in range(limit)))
