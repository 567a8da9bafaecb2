"""Storage whose reads are watched: an object's CRC32C comes of the ranges that others read."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, cast

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import crc32c, crc32c_combine
from tfio_store.storage import Storage, Store, Version
from tfio_store.storage.threads import cancelled_with

_Ranges = dict[int, tuple[int, int]]
"""Of each start, the end and the CRC32C."""


class WatchedStorage:
    """The same storage. Whoever reads it need not read an object again for its checksum."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._stores: dict[int, WatchedStore] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def as_storage(self) -> Storage:
        return cast(Storage, self)

    def open(self, url: str) -> tuple[Store, str]:
        store, path = self._storage.open(url)
        watched = self._stores.setdefault(id(store), WatchedStore(store))
        return cast(Store, watched), path

    def crc32c(self, url: str, nbytes: int) -> int | None:
        """That of the object, whose parts that nobody has read are read now. None if they were not
        read one behind the other, as behind damage."""
        store, path = self.open(url)
        return cast(WatchedStore, store).crc32c(path, nbytes)


class WatchedStore:
    """Notes the checksum of each range that it reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, _Ranges] = {}
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        answer: Future[BytesLike] = Future()
        reading = self._store.read(path, start, stop, etag=etag)
        cancelled_with(answer, reading)

        def note(reading: Future[BytesLike]) -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                data = reading.result()
                self._note(path, start, data)
                answer.set_result(data)
            except BaseException as error:
                answer.set_exception(error)

        reading.add_done_callback(note)
        return answer

    def _note(self, path: str, start: int, data: BytesLike) -> None:
        end, crc = start + memoryview(data).nbytes, crc32c(data)
        with self._lock:
            self._read.setdefault(path, {})[start] = end, crc

    def crc32c(self, path: str, nbytes: int) -> int | None:
        ranges = sorted(self._read.pop(path, {}).items())
        found = at = 0
        for start, (end, crc) in [*ranges, (nbytes, (nbytes, 0))]:
            if start < at:
                return None
            while at < start:  # such as a header, which belongs to no block
                stop = min(start, at + self._store.range_bytes)
                found = crc32c(self._store.read(path, at, stop).result(), found)
                at = stop
            found, at = crc32c_combine(found, crc, end - start), end
        return found if at == nbytes else None
