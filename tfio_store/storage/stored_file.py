"""Objects of a store as files: for libraries that read and write nothing else."""

from __future__ import annotations

import io
import os

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.store import Output, Store, Version

__all__ = ["OutputFile", "StoredFile"]


class StoredFile(io.RawIOBase):
    """Reads ranges of one version of an object."""

    def __init__(
        self, store: Store, path: str, nbytes: int, version: Version | None = None
    ) -> None:
        super().__init__()
        self._store, self._path, self._nbytes = store, path, nbytes
        self._version = version
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._nbytes}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._store.url(self._path)}: seek to {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: BytesLike) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._nbytes)
        if stop <= self._at:
            return 0
        data = memoryview(
            self._store.read(self._path, self._at, stop, etag=self._version).result()
        ).cast("B")
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class OutputFile(io.RawIOBase):
    """Writes an object that its owner commits or aborts."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: BytesLike) -> int:
        kept = bytes(data)  # which the caller may change
        self._output.write(kept)
        self._at += len(kept)
        return len(kept)
