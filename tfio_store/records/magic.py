"""Recognise a codec by an object's first bytes."""

from __future__ import annotations

import struct
import zlib

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import masked_crc32c

__all__ = ["begins_raw", "detect"]


def detect(first_bytes: BytesLike) -> str | None:
    """Return the codec of an object with these first bytes; None if they are, or may be, raw
    records. A raw file begins with a length whose CRC holds. This is checked first, so that no
    record length passes for a magic number. Give 64 bytes or more if the object has them.
    """
    head = bytes(memoryview(first_bytes)[:512])
    if begins_raw(head):
        return None
    if head[:3] == b"\x1f\x8b\x08":
        return "GZIP"
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return "ZSTD"
    return "ZLIB" if _is_zlib(head) else None


def begins_raw(head: bytes) -> bool:
    """Whether the first bytes are the header of a record."""
    return len(head) >= 12 and struct.unpack_from("<I", head, 8)[0] == masked_crc32c(head[:8])


def _is_zlib(head: bytes) -> bool:
    """Two bytes of a zlib header prove little, so what follows must inflate too."""
    if len(head) < 2 or head[0] & 0x8F != 0x08 or int.from_bytes(head[:2], "big") % 31:
        return False
    try:
        zlib.decompressobj().decompress(head, 64)
    except zlib.error:
        return False
    return True
