"""Copies that a store makes by itself. We look at each copy, whatever the store says.

A rename is a copy, and then a delete of the source. If the copy was only begun, or only announced,
the object would be lost.
"""

from __future__ import annotations

import errno

from tfio_store.storage.store import ObjectInfo

__all__ = ["check_copy"]


def check_copy(source: ObjectInfo, copy: ObjectInfo, url: str) -> None:
    """Raise OSError unless ``copy`` is as long as the source, and of the same CRC where both are
    known."""
    if copy.size != source.size:
        raise OSError(errno.EIO, f"the store copied {copy.size} of {source.size} bytes", url)
    if None not in (copy.crc32c, source.crc32c) and copy.crc32c != source.crc32c:
        raise OSError(errno.EIO, "the store's copy has another CRC32C than its source", url)
