"""fsspec's in-memory filesystem: one dict, shared by the whole process, gone with it."""

from __future__ import annotations

import threading

from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.store import ObjectInfo

__all__ = ["MemoryStore"]

# Between a look and a write nobody else of this process writes.
_turn = threading.RLock()


class MemoryStore(FsspecStore):
    """A `Store` in memory. Objects appear at once and whole, conditions hold within the process."""

    conditional = True
    range_bytes = 1 << 20
    in_flight = 4

    def url(self, path: str) -> str:
        return f"memory:/{path}"

    def info(self, path: str) -> ObjectInfo:
        info = super().info(path)
        file = self._connection.fs.store.get(path)
        return ObjectInfo(path, info.size, f"{id(file):x}-{file.modified.timestamp():.6f}")

    def _publish(
        self, path: str, data: bytes | str, if_absent: bool, if_match: str | None = None
    ) -> ObjectInfo:
        with _turn:
            return super()._publish(path, data, if_absent, if_match)
