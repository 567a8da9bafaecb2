"""`SimulatedStore`: the `Store` protocol, each of whose requests waits for its turn."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from tests.protocol.actor import execution
from tests.protocol.requests import Request
from tfio_store.storage import ObjectInfo, PendingUpload, Retry
from tfio_store.storage.store import Version


def ask(kind: str, path: str, *arguments: Any) -> Any:
    return execution().ask(Request(kind, path, arguments))


class SimulatedStore:
    """Keeps nothing itself: the objects are in a `World`."""

    conditional = True
    asks_once = False
    range_bytes = 1 << 20
    in_flight = most_in_flight = 4
    lists_cheaply = False
    service = None

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        del scheme, options, retry

    def __reduce__(self) -> tuple[object, ...]:
        return SimulatedStore, ("sim", {}, Retry())

    def address(self, path: str) -> str:
        return f"sim://{path}"

    def url(self, path: str) -> str:
        return f"sim://{path}"

    def info(self, path: str) -> ObjectInfo:
        found: ObjectInfo = ask("info", path)
        return found

    def look(self, path: str) -> ObjectInfo | None:
        try:
            return self.info(path)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        data, info = ask("get", path)
        if most is not None and len(data) > most:
            raise OSError(f"sim://{path}: {len(data)} bytes where at most {most} were expected")
        return data, info

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[bytes]:
        version, future = Version.of(etag), Future[bytes]()
        try:
            data, found = ask("read", path, start, stop, version.etag)
            version.hold(found, self.url(path))
            future.set_result(data)
        except Exception as fault:
            future.set_exception(fault)
        return future

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return iter(ask("below", folder))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        found: builtins.list[ObjectInfo] = ask("glob", pattern)
        return found

    def open_output(self, path: str, *, part_bytes: int | None = None) -> SimulatedOutput:
        del part_bytes
        return SimulatedOutput(path)

    def put(
        self, path: str, data: Any, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        found: ObjectInfo = ask("put", path, bytes(data), if_absent, if_match)
        return found

    def copy(self, source: str, target: str) -> ObjectInfo:
        found: ObjectInfo = ask("duplicate", target, source)
        return found

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            ask("delete", path)

    def delete_version(self, path: str, etag: str | None) -> None:
        ask("delete_version", path, etag)

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        del deep
        found: builtins.list[PendingUpload] = ask("pending", folder)
        return found

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        for upload in uploads:
            ask("drop", upload.token)


class SimulatedOutput:
    """An object being written: one request at its end, or, staged, one to begin and one to end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._data = b""
        self._done = False
        self._token = ""
        if execution().role.staged:
            self._token = ask("begin", path, execution().token(4))

    def write(self, data: Any) -> None:
        self._data += bytes(data)

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        del crc32c
        info: ObjectInfo
        if self._token:
            info = ask("complete", self._path, self._token, self._data, if_absent)
        else:
            info = ask("put", self._path, self._data, if_absent, None)
        self._done = True
        return info

    def abort(self) -> None:
        if self._token and not self._done:
            ask("drop", self._token)
        self._done = True
