"""Any filesystem that fsspec has a class for. It uses only what all of those classes offer."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.storage import threads
from tfio_store.storage.connection import Connection
from tfio_store.storage.local import final_name, temporary_path, write_all
from tfio_store.storage.pace import Pace
from tfio_store.storage.ranges import check_size, short
from tfio_store.storage.redaction import redacted, secrets_in
from tfio_store.storage.registry import Origin, shared_store
from tfio_store.storage.retry import Retry, place_of, repeated, repeated_blocking
from tfio_store.storage.store import ObjectInfo, PendingUpload, Version, copied_through, seconds_of
from tfio_store.storage.threads import Owner, PerProcess

__all__ = ["FsspecStore", "MemoryStore"]

T = TypeVar("T")

SPOOL_BYTES = 8 << 20
"""Bytes of an object being written that stay in memory before it moves to a temporary file."""

DESCRIPTORS = "/proc/self/fd"
"""Where Linux has names for the files that a process has open."""

LARGE_RANGE = 64 << 20
"""Longer ranges are first cut to the object's size: some filesystems allocate all that is asked."""

LOOKS = 10
"""How often an object that changes while it is read is read again."""

CHANGED = ("mtime", "modified", "last_modified", "LastModified", "modifiedTime", "updated")
"""Keys under which filesystems say when a file was changed."""


class FsspecStore:
    """A `Store` over an fsspec filesystem about which nothing more is known.

    Such a filesystem cannot decide conditions, so `conditional` is False: ``if_absent`` and
    ``if_match`` look first, and then write. If it has a rename of its own (SFTP, HDFS, SMB), an
    upload may show its beginning before its end has arrived. So objects are written under a
    temporary name.
    """

    conditional = asks_once = False
    range_bytes = 8 << 20
    in_flight = most_in_flight = 16
    lists_cheaply = False
    copies_through = True
    """Whether a copy takes its bytes through this machine."""
    service: str | None = None

    def __init__(
        self,
        scheme: str,
        options: Mapping[str, Any],
        retry: Retry,
        origin: Origin | None = None,
    ) -> None:
        import fsspec

        self._scheme = scheme
        self._options = dict(options)
        self._retry = retry
        self._origin = origin
        self._secrets = secrets_in(options)
        self._connection = Connection(fsspec.get_filesystem_class(scheme), self._options)
        self._answering: PerProcess[set[str]] = PerProcess(set)
        """The servers that have answered."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._scheme!r})"  # options may hold credentials

    def __reduce__(self) -> tuple[object, ...]:
        return shared_store, (type(self), self._scheme, self._options, self._retry, self._origin)

    def address(self, path: str) -> str:
        if self._origin is not None:
            return self._origin.url(path)
        address: str = self._connection.fs.unstrip_protocol(path)
        return address

    def url(self, path: str) -> str:
        return redacted(self.address(path))

    def info(self, path: str) -> ObjectInfo:
        return object_info(path, self._call("info", path, path), self.url(path))

    def look(self, path: str) -> ObjectInfo | None:
        try:
            return self.info(path)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        """Between two looks that find the same object: fsspec gives no version with the bytes."""
        info = self.info(path)
        for _ in range(LOOKS):
            check_size(info.size, most, self.url(path))
            data: bytes = self._call("cat_file", path, path)
            before, info = info, self.info(path)
            if info == before and len(data) == info.size:
                return data, info
        raise OSError(errno.EBUSY, "the object changed while it was read", self.url(path))

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        version = None if etag is None else Version.of(etag)
        if self._connection.asynchronous:
            return self._connection.start(self._read(path, start, stop, version))
        return threads.pool().submit(self._read_blocking, path, start, stop, version)

    async def _read(self, path: str, start: int, stop: int, version: Version | None) -> BytesLike:
        fs, wanted = self._connection.fs, Wanted(path, self.url(path), start, stop, version)

        async def attempt() -> bytes:
            end = wanted.end(await fs._info(path)) if wanted.looks_before() else stop
            data: bytes = await fs._cat_file(path, start=start, end=end)
            return wanted.checked(data, await fs._info(path) if wanted.looks_after(data) else None)

        if stop <= start:
            return b""
        return await self._tried(attempt, self.url(path), stop - start)

    def _read_blocking(
        self, path: str, start: int, stop: int, version: Version | None
    ) -> BytesLike:
        fs, wanted = self._connection.fs, Wanted(path, self.url(path), start, stop, version)

        def attempt() -> bytes:
            end = wanted.end(fs.info(path)) if wanted.looks_before() else stop
            data: bytes = fs.cat_file(path, start=start, end=end)
            return wanted.checked(data, fs.info(path) if wanted.looks_after(data) else None)

        if stop <= start:
            return b""
        return self._tried_here(attempt, self.url(path))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        yield from objects(self._found(folder))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [*objects(self._call("glob", pattern, pattern, detail=True))]

    def some_names(self, folder: str, beginning: str) -> Iterator[str]:
        """See `names_in`."""
        del beginning
        for info in self._call("ls", folder, folder, detail=True):
            name = str(info["name"]).rstrip("/").rpartition("/")[2]
            yield f"{name}/" if info["type"] == "directory" else name

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> SpooledOutput:
        del part_bytes
        return SpooledOutput(self, path, if_match)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        return self._publish(path, bytes(data), if_absent, if_match)

    def copy(self, source: str, target: str) -> ObjectInfo:
        return copied_through(self, source, target)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._call("rm_file", path, path)

    def delete_version(self, path: str, etag: str | None) -> None:
        with contextlib.suppress(FileNotFoundError):
            if etag is None or self.info(path).etag == etag:
                self.delete([path])

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        pending = []
        for path in sorted(self._found(folder, deep=deep)):
            parent, _, name = path.rpartition("/")
            final = final_name(name)
            if final is not None:
                pending.append(PendingUpload(f"{parent}/{final}", path))
        return pending

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self.delete(upload.token for upload in uploads)

    def _found(self, folder: str, *, deep: bool = True) -> dict[str, dict[str, Any]]:
        depth = {} if deep else {"maxdepth": 1}
        try:
            found: dict[str, dict[str, Any]] = self._call(
                "find", folder, folder, detail=True, **depth
            )
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
        fs = self._connection.opened(self._shown(path))
        url = self.url(path)
        work: Callable[..., Coroutine[Any, Any, Any]] | None = getattr(fs, f"_{method}", None)
        if self._connection.asynchronous and work is not None and method != "mv":
            return self._connection.wait(self._tried(lambda: work(*args, **kwargs), url))
        return self._tried_here(lambda: getattr(fs, method)(*args, **kwargs), url)

    async def _tried(self, attempt: Callable[[], Awaitable[T]], url: str, nbytes: int = 0) -> T:
        with self._pace_at(url) as pace:
            return await repeated(self._retry, attempt, url, nbytes, pace, self._secrets)

    def _tried_here(self, attempt: Callable[[], T], url: str) -> T:
        with self._pace_at(url) as pace:
            answer = repeated_blocking(self._retry, attempt, url, pace, self._secrets)
            pace.answered = True
            return answer

    @contextlib.contextmanager
    def _pace_at(self, url: str) -> Iterator[Pace]:
        """One for each request, which knows whether its server has answered an earlier one."""
        answered, server = self._answering.here, place_of(url)
        pace = Pace()
        pace.answered = server in answered
        try:
            yield pace
        finally:
            if pace.answered:
                answered.add(server)

    def _shown(self, path: str) -> str:
        """`url`, which may ask a filesystem that can't be made."""
        return redacted(f"{self._scheme}://{path}") if self._origin is None else self.url(path)


class SpooledOutput:
    """Keeps an object in memory or a temporary local file until it is whole. Unbuffered, as is
    `LocalOutput`."""

    def __init__(self, store: FsspecStore, path: str, if_match: str | None) -> None:
        self._owner = Owner()
        self._if_match = if_match
        self._store = store
        self._path = path
        self._file = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES, buffering=0)  # noqa: SIM115

    def write(self, data: BytesLike) -> None:
        self._check("write")
        write_all(self._file, data)

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        del crc32c
        self._check("commit")
        with self._content() as content:
            info = self._store._publish(self._path, content, if_absent, self._if_match)
        self._file.close()
        return info

    @contextlib.contextmanager
    def _content(self) -> Iterator[bytes | str]:
        """The bytes, or a name by which this process can open a file of them."""
        if self._file.tell() <= SPOOL_BYTES:
            self._file.seek(0)
            yield self._file.read()
        elif os.path.isdir(DESCRIPTORS):
            self._file.flush()
            yield f"{DESCRIPTORS}/{self._file.fileno()}"
        else:
            # The file has no name, so that it goes with this process however that ends. Here, as
            # on macOS, a copy has one while it is sent, and only this user may open it.
            with tempfile.NamedTemporaryFile() as named:
                self._file.seek(0)
                shutil.copyfileobj(self._file, named, SPOOL_BYTES)
                named.flush()
                yield named.name

    def abort(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _check(self, action: str) -> None:
        url = self._store.url(self._path)
        self._owner.check(f"{url}: this object being written")
        if self._file.closed:
            raise ValueError(f"{url}: {action}() after commit() or abort()")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A range of a filesystem that gives neither size nor version with the bytes. After the bytes
    have come, a look at the object checks them."""

    path: str
    url: str
    start: int
    stop: int
    version: Version | None

    def looks_before(self) -> bool:
        unknown = self.version is not None and self.version.etag is None
        return unknown or self.stop - self.start > LARGE_RANGE

    def end(self, found: Mapping[str, Any]) -> int:
        """Where to stop asking."""
        return min(self.stop, self._held(found).size)

    def looks_after(self, data: bytes) -> bool:
        return self.version is not None or len(data) != self.stop - self.start

    def checked(self, data: bytes, found: Mapping[str, Any] | None) -> bytes:
        """The range's bytes."""
        if found is None:
            return data
        size = self._held(found).size
        expected = max(min(self.stop, size) - self.start, 0)
        if len(data) == expected:
            return data
        if len(data) == size:  # a server that does not know ranges sends everything
            return data[self.start : self.stop]
        raise short(f"answered {len(data)} of the {expected} bytes from offset {self.start}")

    def _held(self, found: Mapping[str, Any]) -> ObjectInfo:
        info = object_info(self.path, found, self.url)
        if self.version is not None:
            self.version.hold(info.etag, self.url)
        return info


def objects(found: Mapping[str, Mapping[str, Any]]) -> Iterator[ObjectInfo]:
    """The files that are no longer being written, sorted by path."""
    for path, info in sorted(found.items()):
        if info["type"] == "file" and final_name(os.path.basename(path)) is None:
            yield object_info(path, info, path)


def object_info(path: str, found: Mapping[str, Any], url: str) -> ObjectInfo:
    if found.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), url)
    times = (seconds_of(found.get(name)) for name in CHANGED)
    modified = next((when for when in times if when is not None), None)
    return ObjectInfo(path, int(found["size"]), version_of(found), modified=modified)


def version_of(found: Mapping[str, Any]) -> str | None:
    """The mark of an object's version: the filesystem's own, or else when and where it
    was written."""
    etag = next((found[key] for key in ("ETag", "etag", "generation") if found.get(key)), None)
    if etag:
        return str(etag).strip('"')
    changed = next((found[key] for key in CHANGED if found.get(key)), None)
    return None if changed is None else f"{changed}-{found.get('ino', '')}-{found['size']}"


# fsspec's in-memory filesystem: one dict, shared by the whole process, gone with it.


# Between a look and a write no other thread of this process writes.
_turn = threading.RLock()


class MemoryStore(FsspecStore):
    """A `Store` in memory. Objects appear at once and whole, conditions hold within the process."""

    conditional = asks_once = True
    copies_through = False
    range_bytes = 1 << 20
    in_flight = most_in_flight = 4

    def address(self, path: str) -> str:
        return f"memory:/{path}"

    def info(self, path: str) -> ObjectInfo:
        found = self._described(path)
        return super().info(path) if found is None else found  # a folder, or FileNotFoundError

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return self._versions(super().list(folder))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        return [*self._versions(super().glob(pattern))]

    def _versions(self, found: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        """The same with their versions, which fsspec does not list."""
        described = (self._described(one.path) for one in found)
        return (one for one in described if one is not None)  # None: gone since

    def _described(self, path: str) -> ObjectInfo | None:
        file = self._connection.fs.store.get(path)
        if file is None:
            return None
        modified = file.modified.timestamp()
        return ObjectInfo(path, file.size, memory_version(file), modified=modified)

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        file = self._connection.fs.store.get(path)
        if file is None:
            self.info(path)  # FileNotFoundError, or a folder's
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))
        data = file.getvalue()
        check_size(len(data), most, self.url(path))
        return data, ObjectInfo(path, len(data), memory_version(file))

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


def memory_version(file: Any) -> str:
    return f"{id(file):x}-{file.modified.timestamp():.6f}"
