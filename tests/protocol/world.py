"""The state of a store that all actors share, and what each request does to it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from hashlib import blake2b

from tfio_store.errors import ReplacedError
from tfio_store.storage import ObjectInfo, PendingUpload
from tfio_store.storage.cloud.bucket_store import matcher

DAY = 86400.0
FOLDER = "ds"


def digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def failure(kind: type[OSError], number: int, path: str) -> OSError:
    return kind(number, os.strerror(number), f"sim://{path}")


@dataclass(frozen=True, slots=True)
class Stored:
    """An object. Its ETag tells content, as on S3, or which write it was, as on local files."""

    data: bytes
    digest: int
    etag: str

    def info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, len(self.data), self.etag)


@dataclass(slots=True)
class World:
    """Objects by path, uploads by token, and the time."""

    objects: dict[str, Stored] = field(default_factory=dict)
    uploads: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Path and beginning of each."""
    writes: dict[str, int] = field(default_factory=dict)
    """How often each path was written: what a store's versions count."""
    clock: float = 1e9
    etags_count: bool = False
    """Whether ETags tell writes apart that wrote the same."""
    shown: dict[str, bytes] = field(default_factory=dict)
    """What actors have sent to each other, past the store."""

    def copy(self) -> World:
        return World(
            dict(self.objects),
            dict(self.uploads),
            dict(self.writes),
            self.clock,
            self.etags_count,
            dict(self.shown),
        )

    def fingerprint(self) -> int:
        stored = frozenset((path, found.etag) for path, found in self.objects.items())
        written = frozenset(self.writes.items()) if self.etags_count else None
        shown = frozenset(self.shown)
        return hash((stored, frozenset(self.uploads.items()), self.clock, written, shown))

    # Requests

    def info(self, path: str) -> ObjectInfo:
        return self._found(path).info(path)

    def get(self, path: str) -> tuple[bytes, ObjectInfo]:
        found = self._found(path)
        return found.data, found.info(path)

    def read(self, path: str, start: int, stop: int, etag: str | None) -> tuple[bytes, str]:
        found = self._found(path)
        if etag is not None and found.etag != etag:
            raise failure(ReplacedError, errno.ESTALE, path)
        return found.data[start:stop], found.etag

    def glob(self, pattern: str) -> list[ObjectInfo]:
        matches = matcher(pattern).match
        return [self.objects[path].info(path) for path in sorted(self.objects) if matches(path)]

    def below(self, folder: str) -> list[ObjectInfo]:
        return self.glob(f"{folder}/**")

    def put(
        self, path: str, data: bytes, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        found = self.objects.get(path)
        if (if_absent and found) or (if_match and (found is None or found.etag != if_match)):
            raise failure(FileExistsError, errno.EEXIST, path)
        self.writes[path] = count = self.writes.get(path, 0) + 1
        told = digest(data)
        etag = f"{told:016x}.{count}" if self.etags_count else f"{told:016x}"
        self.objects[path] = stored = Stored(data, told, etag)
        return stored.info(path)

    def duplicate(self, path: str, source: str) -> ObjectInfo:
        return self.put(path, self._found(source).data, if_absent=True)

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)

    def delete_version(self, path: str, etag: str | None) -> None:
        found = self.objects.get(path)
        if found is not None and etag in (None, found.etag):
            del self.objects[path]

    def begin(self, path: str, token: str) -> str:
        self.uploads[token] = path, self.clock
        return token

    def complete(self, path: str, token: str, data: bytes, if_absent: bool) -> ObjectInfo:
        if token not in self.uploads:
            raise failure(FileNotFoundError, errno.ENOENT, path)
        info = self.put(path, data, if_absent)
        del self.uploads[token]
        return info

    def drop(self, token: str) -> None:
        self.uploads.pop(token, None)

    def pending(self, folder: str) -> list[PendingUpload]:
        return sorted(
            (
                PendingUpload(path, token, begun)
                for token, (path, begun) in self.uploads.items()
                if path.startswith(f"{folder}/")
            ),
            key=lambda upload: upload.token,
        )

    # What is no request to a store

    def show(self, name: str, data: bytes) -> None:
        self.shown[name] = data

    def wait(self, name: str) -> bytes:
        return self.shown[name]

    def sleep(self, who: str, seconds: float) -> None:
        self.clock += seconds

    def _found(self, path: str) -> Stored:
        found = self.objects.get(path)
        if found is None:
            raise failure(FileNotFoundError, errno.ENOENT, path)
        return found
