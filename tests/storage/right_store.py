"""A small store that does all that `Store` asks for: a dict, and one lock. What `wrong_stores.py`
changes of it, a few lines at a time, `tfio_store.testing` must find."""

from __future__ import annotations

import builtins
import errno
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import ReplacedError
from tfio_store.records.framing import crc32c
from tfio_store.storage import Retry, Version
from tfio_store.storage.cloud.bucket_store import matcher
from tfio_store.storage.registry import shared_store
from tfio_store.storage.store import ObjectInfo, PendingUpload

OBJECTS: dict[str, Stored] = {}
UPLOADS: dict[str, RightOutput] = {}
LOCK = threading.RLock()
NUMBERS = count(1)


@dataclass(frozen=True)
class Stored:
    data: bytes
    etag: str
    modified: float

    @classmethod
    def of(cls, data: BytesLike) -> Stored:
        return cls(bytes(data), f"v{next(NUMBERS)}", time.time())


class RightStore:
    """Each process has its own objects. Paths are what follows ``kind://``."""

    conditional = asks_once = True
    range_bytes = 1 << 20
    in_flight = most_in_flight = 4
    lists_cheaply = False
    service: str | None = None

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._arguments = scheme, dict(options), retry
        self._scheme = scheme
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return shared_store, (type(self), *self._arguments)

    def address(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def url(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    # What wrong stores get wrong stands in methods of its own.

    def key(self, path: str) -> str:
        return path

    def found(self, path: str) -> Stored:
        with LOCK:
            stored = OBJECTS.get(self.key(path))
            folder = any(name.startswith(f"{path}/") for name in OBJECTS)
        if stored is not None:
            return stored
        number = errno.EISDIR if folder else errno.ENOENT
        raise OSError(number, os.strerror(number), self.url(path))

    def described(self, path: str, stored: Stored) -> ObjectInfo:
        return ObjectInfo(
            path, len(stored.data), stored.etag, crc32c(stored.data), modified=stored.modified
        )

    def piece(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        stored = self.found(path)
        version.hold(stored.etag, self.url(path))
        return stored.data[start:stop]

    def below(self, folder: str) -> list[str]:
        with LOCK:
            return [name for name in OBJECTS if name.startswith(f"{folder.rstrip('/')}/")]

    def taken(self, path: str, if_absent: bool, if_match: str | None) -> bool:
        there = OBJECTS.get(self.key(path))
        etag = None if there is None else there.etag
        return (if_absent and there is not None) or (if_match is not None and etag != if_match)

    def place(self, path: str, stored: Stored) -> None:
        OBJECTS[self.key(path)] = stored

    # Store

    def info(self, path: str) -> ObjectInfo:
        return self.described(path, self.found(path))

    def look(self, path: str) -> ObjectInfo | None:
        try:
            return self.info(path)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        stored = self.found(path)
        if most is not None and len(stored.data) > most:
            words = f"it has {len(stored.data)} bytes, and at most {most} were expected"
            raise OSError(errno.EFBIG, words, self.url(path))
        return stored.data, self.described(path, stored)

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(4)
        return self._pool[1].submit(self.piece, path, start, stop, Version.of(etag))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        for name in sorted(self.below(folder)):
            stored = OBJECTS.get(name)
            if stored is not None:
                yield self.described(name, stored)

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        matches = matcher(pattern)
        folder = re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]
        return [found for found in self.list(folder) if matches.match(found.path)]

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> RightOutput:
        return RightOutput(self, path, if_match)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        stored = Stored.of(data)
        with LOCK:
            if self.taken(path, if_absent, if_match):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))
            self.place(path, stored)
        return self.described(path, stored)

    def copy(self, source: str, target: str) -> ObjectInfo:
        return self.put(target, self.found(source).data, if_absent=True)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            OBJECTS.pop(self.key(path), None)

    def delete_version(self, path: str, etag: str | None) -> None:
        with LOCK:
            stored = OBJECTS.get(path)
            if stored is not None and etag in (None, stored.etag):
                del OBJECTS[path]

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        return [
            PendingUpload(output.path, token, time.time())
            for token, output in sorted(UPLOADS.items())
            if output.path.startswith(f"{folder.rstrip('/')}/")
        ]

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        for upload in uploads:
            UPLOADS.pop(upload.token, None)


class RightOutput:
    def __init__(self, store: RightStore, path: str, if_match: str | None) -> None:
        self.store, self.path, self.if_match = store, path, if_match
        self.data = bytearray()
        self.done = False
        self.token = f"{next(NUMBERS):09}"
        self.begin()

    def begin(self) -> None:
        """A remembered upload would hold what is dropped, so this store lists none."""

    def check(self, action: str) -> None:
        if self.done:
            raise ValueError(f"{self.path}: {action}() after commit() or abort()")

    def write(self, data: BytesLike) -> None:
        self.check("write")
        self.data += data

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        self.check("commit")
        if crc32c not in (None, crc_of(self.data)):
            raise OSError(errno.EIO, "the checksum is not that of the bytes", self.path)
        info = self.placed(if_absent)
        self.done = True
        return info

    def placed(self, if_absent: bool) -> ObjectInfo:
        return self.store.put(self.path, self.data, if_absent=if_absent, if_match=self.if_match)

    def abort(self) -> None:
        self.done = True


def crc_of(data: BytesLike) -> int:
    return crc32c(data)


__all__ = ["LOCK", "OBJECTS", "UPLOADS", "ReplacedError", "RightOutput", "RightStore", "Stored"]
