"""fsspec's in-memory filesystem: one dict, shared by the whole process, gone with it."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.ranges import check_size
from tfio_store.storage.store import ObjectInfo
from tfio_store.storage.version import Version

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["MemoryStore"]

# Between a look and a write nobody else of this process writes.
_turn = threading.RLock()


class MemoryStore(FsspecStore):
    """A `Store` in memory. Objects appear at once and whole, conditions hold within the process."""

    conditional = asks_once = True
    range_bytes = 1 << 20
    in_flight = most_in_flight = 4

    def address(self, path: str) -> str:
        return f"memory:/{path}"

    def info(self, path: str) -> ObjectInfo:
        info = super().info(path)
        file = self._connection.fs.store.get(path)
        modified = file.modified.timestamp()
        return ObjectInfo(path, info.size, version_of(file), modified=modified)

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        file = self._connection.fs.store.get(path)
        if file is None:
            self.info(path)  # FileNotFoundError, or a folder's
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))
        data = file.getvalue()
        check_size(len(data), most, self.url(path))
        return data, ObjectInfo(path, len(data), version_of(file))

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        done: Future[BytesLike] = Future()
        try:
            data, info = self.get(path)
            Version.of(etag).hold(info.etag, self.url(path))
            done.set_result(memoryview(data)[start:stop])
        except OSError as fault:
            done.set_exception(fault)
        return done

    def delete_version(self, path: str, etag: str | None) -> None:
        with _turn:
            super().delete_version(path, etag)

    def _publish(
        self, path: str, data: bytes | str, if_absent: bool, if_match: str | None = None
    ) -> ObjectInfo:
        with _turn:
            return super()._publish(path, data, if_absent, if_match)


def version_of(file: Any) -> str:
    return f"{id(file):x}-{file.modified.timestamp():.6f}"
