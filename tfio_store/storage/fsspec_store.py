"""Any filesystem that fsspec has a class for, through what all of those classes offer."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from tfio_store.storage import threads
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import ShortBodyError, redacted
from tfio_store.storage.leftovers import final_name, temporary_path
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, PendingUpload

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["FsspecStore"]

T = TypeVar("T")

SPOOL_BYTES = 8 << 20
"""How much of an object being written stays in memory, before it moves to a temporary file."""

LARGE_RANGE = 64 << 20
"""Ranges longer than this are cut to the object first: some filesystems allocate what is asked."""


class FsspecStore:
    """A `Store` over an fsspec filesystem of which nothing more is known.

    Such a filesystem cannot decide conditions, so `conditional` is False: ``if_absent`` and
    ``if_match`` look first and then write. Where it has a rename of its own (SFTP, HDFS, SMB),
    an upload may show its beginning before its end has arrived, so objects are written
    under a temporary name.
    """

    conditional = False
    range_bytes = 8 << 20
    in_flight = 16

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        import fsspec

        self._scheme = scheme
        self._options = dict(options)
        self._retry = retry
        self._connection = Connection(fsspec.get_filesystem_class(scheme), self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._scheme!r})"  # options may hold credentials

    def __reduce__(self) -> tuple[object, ...]:
        from tfio_store.storage.resolve import shared_store

        return shared_store, (type(self), self._scheme, self._options, self._retry)

    def url(self, path: str) -> str:
        return redacted(self._connection.fs.unstrip_protocol(path))

    def info(self, path: str) -> ObjectInfo:
        return object_info(path, self._call("info", path, path), self.url(path))

    def read(self, path: str, start: int, stop: int) -> Future[BytesLike]:
        if self._connection.asynchronous:
            return self._connection.start(self._read(path, start, stop))
        return threads.pool().submit(self._read_blocking, path, start, stop)

    async def _read(self, path: str, start: int, stop: int) -> BytesLike:
        fs = self._connection.fs

        async def attempt() -> bytes:
            end = stop
            if stop - start > LARGE_RANGE:
                end = min(stop, (await fs._info(path))["size"])
            data: bytes = await fs._cat_file(path, start=start, end=end)
            if len(data) == stop - start:
                return data
            return ranged(data, start, stop, (await fs._info(path))["size"])

        if stop <= start:
            return b""
        return await self._retry.run(attempt, self.url(path), nbytes=stop - start)

    def _read_blocking(self, path: str, start: int, stop: int) -> BytesLike:
        fs = self._connection.fs

        def attempt() -> bytes:
            end = stop
            if stop - start > LARGE_RANGE:
                end = min(stop, fs.info(path)["size"])
            data: bytes = fs.cat_file(path, start=start, end=end)
            if len(data) == stop - start:
                return data
            return ranged(data, start, stop, fs.info(path)["size"])

        if stop <= start:
            return b""
        return self._retry.run_blocking(attempt, self.url(path))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        for path, found in sorted(self._found(folder).items()):
            if found["type"] == "file" and final_name(os.path.basename(path)) is None:
                yield object_info(path, found, path)

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        found = self._call("glob", pattern, pattern, detail=True)
        return [
            object_info(path, info, path)
            for path, info in sorted(found.items())
            if info["type"] == "file" and final_name(os.path.basename(path)) is None
        ]

    def open_output(self, path: str, *, part_bytes: int | None = None) -> SpooledOutput:
        del part_bytes
        return SpooledOutput(self, path)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        return self._publish(path, bytes(data), if_absent, if_match)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._call("rm_file", path, path)

    def pending_uploads(self, folder: str) -> builtins.list[PendingUpload]:
        pending = []
        for path in sorted(self._found(folder)):
            parent, _, name = path.rpartition("/")
            final = final_name(name)
            if final is not None:
                pending.append(PendingUpload(f"{parent}/{final}", path))
        return pending

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self.delete(upload.token for upload in uploads)

    def _found(self, folder: str) -> dict[str, dict[str, Any]]:
        try:
            found: dict[str, dict[str, Any]] = self._call("find", folder, folder, detail=True)
        except FileNotFoundError:
            return {}
        return {path: info for path, info in found.items() if path != folder}

    def _publish(
        self, path: str, data: bytes | str, if_absent: bool, if_match: str | None = None
    ) -> ObjectInfo:
        self._check_condition(path, if_absent, if_match)
        return self._place(path, data)

    def _check_condition(self, path: str, if_absent: bool, if_match: str | None) -> None:
        if not if_absent and if_match is None:
            return
        try:
            etag = self.info(path).etag
        except FileNotFoundError:
            if if_absent:
                return
            etag = None
        if if_absent or etag != if_match:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))

    def _place(self, path: str, data: bytes | str) -> ObjectInfo:
        """Write ``data``, or the local file of that name, to ``path`` so that it appears whole."""
        try:
            if self._connection.renames:
                self._place_by_rename(path, data)
            else:
                self._send(path, data)
        except NotImplementedError as fault:
            raise io.UnsupportedOperation(f"{self.url(path)}: cannot be written to") from fault
        return self.info(path)

    def _place_by_rename(self, path: str, data: bytes | str) -> None:
        temporary = temporary_path(path)
        self._call("makedirs", path, path.rpartition("/")[0], exist_ok=True)
        try:
            self._send(temporary, data)
            try:
                self._call("mv", path, temporary, path)
            except OSError:  # SFTP does not rename onto a name that is taken
                self.info(temporary)
                self._call("rm_file", path, path)
                self._call("mv", path, temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.delete([temporary])
            raise

    def _send(self, path: str, data: bytes | str) -> None:
        if isinstance(data, bytes):
            self._call("pipe_file", path, path, data)
        else:
            self._call("put_file", path, data, path)

    def _call(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        fs = self._connection.fs
        url = self.url(path)
        work: Callable[..., Coroutine[Any, Any, Any]] | None = getattr(fs, f"_{method}", None)
        if self._connection.asynchronous and work is not None and method != "mv":
            return self._connection.wait(self._retry.run(lambda: work(*args, **kwargs), url))
        return self._retry.run_blocking(lambda: getattr(fs, method)(*args, **kwargs), url)


class SpooledOutput:
    """Keeps an object in memory or a temporary local file until it is whole."""

    def __init__(self, store: FsspecStore, path: str) -> None:
        self._store = store
        self._path = path
        self._file = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115

    def write(self, data: BytesLike) -> None:
        if self._file.closed:
            raise ValueError(f"{self._store.url(self._path)}: write() after commit() or abort()")
        self._file.write(data)

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        del crc32c
        if self._file.closed:
            raise ValueError(f"{self._store.url(self._path)}: commit() after commit() or abort()")
        info = self._store._publish(self._path, self._content(), if_absent)
        self._file.close()
        return info

    def _content(self) -> bytes | str:
        """The bytes, or the name by which this process can open their file."""
        if self._file.tell() > SPOOL_BYTES:
            self._file.flush()
            return f"/proc/self/fd/{self._file.fileno()}"
        self._file.seek(0)
        return self._file.read()

    def abort(self) -> None:
        self._file.close()


def ranged(data: bytes, start: int, stop: int, size: int) -> bytes:
    """Bytes [start, stop) of an object of ``size`` bytes, from an answer of another length."""
    expected = max(min(stop, size) - start, 0)
    if len(data) == expected:
        return data
    if len(data) == size:  # a server that does not know ranges sends everything
        return data[start:stop]
    raise ShortBodyError(
        errno.ECONNRESET, f"answered {len(data)} of the {expected} bytes from offset {start}"
    )


def object_info(path: str, found: Mapping[str, Any], url: str) -> ObjectInfo:
    if found.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url)
    etag = next((found[key] for key in ("ETag", "etag", "generation") if found.get(key)), None)
    return ObjectInfo(path, int(found["size"]), str(etag).strip('"') if etag else None)
