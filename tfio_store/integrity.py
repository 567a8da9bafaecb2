"""Whether the store holds what was written: sizes and CRC32Cs, as it reports them or read back."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

from tfio_store.framing import crc32c

if TYPE_CHECKING:
    from tfio_store.storage import ObjectInfo, Store

__all__ = ["check_stored", "read_back"]

_RANGE = 8 << 20
_RANGES_AHEAD = 4


def check_stored(stored: ObjectInfo, url: str, *, nbytes: int, crc: int) -> None:
    """OSError unless ``stored`` has that size and, where it tells, that CRC32C."""
    if stored.size != nbytes:
        raise OSError(
            errno.EIO, f"{nbytes} bytes were written, and the store holds {stored.size}", url
        )
    if stored.crc32c is not None and stored.crc32c != crc:
        raise OSError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those in the store {stored.crc32c:08x}",
            url,
        )


def read_back(store: Store, path: str, *, nbytes: int, crc: int) -> None:
    """OSError unless the object's bytes, read now, have that CRC32C."""
    found = 0
    starts = range(0, nbytes, _RANGE)
    reads = (store.read(path, start, min(start + _RANGE, nbytes)) for start in starts)
    pending = deque(next(reads) for _ in range(min(_RANGES_AHEAD, len(starts))))
    while pending:
        found = crc32c(pending.popleft().result(), found)
        if (more := next(reads, None)) is not None:
            pending.append(more)
    if found != crc:
        raise OSError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those read back {found:08x}",
            store.url(path),
        )
