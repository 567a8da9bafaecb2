"""The file of one kept range: a header, and the range's bytes as the store has them.

All numbers are little-endian::

    "TFIOSRNG"  20 bytes of the object's digest  u64 start  u64 stop
    u32         CRC32C of each `PIECE_BYTES` bytes of the range, the last of which may be fewer
    u32         CRC32C of all of the above
    bytes       the range

By the CRCs of pieces a part of the range is checked without reading all of it.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfio_store.records.framing import Buffer, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["DIGEST_BYTES", "DamagedError", "Entry"]

DIGEST_BYTES = 20
PIECE_BYTES = 64 << 10
STEP_BYTES = 4 * PIECE_BYTES
"""What is read and then checked while it is in the processor's cache."""

_MAGIC = b"TFIOSRNG"
_HEAD = struct.Struct(f"<8s{DIGEST_BYTES}sQQ")
_CRC = struct.Struct("<I")


class DamagedError(Exception):
    """The file is not what was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Bytes ``start:stop`` of the object of this digest."""

    digest: bytes
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return self._data_at + self.stop - self.start

    @property
    def _data_at(self) -> int:
        pieces = -(-(self.stop - self.start) // PIECE_BYTES)
        return _HEAD.size + _CRC.size * (pieces + 1)

    def header(self, data: BytesLike) -> bytes:
        """What stands before the range's ``data``."""
        view = memoryview(data).cast("B")
        pieces = range(0, len(view), PIECE_BYTES)
        crcs = b"".join(_CRC.pack(crc32c(view[at : at + PIECE_BYTES])) for at in pieces)
        head = _HEAD.pack(_MAGIC, self.digest, self.start, self.stop) + crcs
        return head + _CRC.pack(crc32c(head))

    def read(self, descriptor: int, start: int, stop: int) -> memoryview:
        """Bytes ``start:stop`` of the object, which are part of the range, from the entry's file.
        Raises DamagedError."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is no file of bytes")
        if status.st_size != self.nbytes:
            raise DamagedError(f"it has not the {self.nbytes} bytes that belong to its range")
        crcs = self._crcs(descriptor)
        first = (start - self.start) // PIECE_BYTES
        begin = first * PIECE_BYTES
        end = min(-(-(stop - self.start) // PIECE_BYTES) * PIECE_BYTES, self.stop - self.start)
        view = memoryview(Buffer(end - begin))
        for number, at in enumerate(range(0, len(view), PIECE_BYTES), first):
            if at % STEP_BYTES == 0:
                fill(view[at : at + STEP_BYTES], descriptor, self._data_at + begin + at)
            if crc32c(view[at : at + PIECE_BYTES]) != crcs[number]:
                raise DamagedError("a checksum of its data does not hold")
        return view[start - self.start - begin : stop - self.start - begin]

    def _crcs(self, descriptor: int) -> tuple[int, ...]:
        head = memoryview(bytearray(self._data_at))
        fill(head, descriptor, 0)
        body, crc = head[: -_CRC.size], _CRC.unpack(head[-_CRC.size :])[0]
        if crc32c(body) != crc:
            raise DamagedError("the checksum of its header does not hold")
        if _HEAD.unpack_from(body) != (_MAGIC, self.digest, self.start, self.stop):
            raise DamagedError("it is of another range")
        return struct.unpack(f"<{(len(body) - _HEAD.size) // _CRC.size}I", body[_HEAD.size :])


def fill(view: memoryview, descriptor: int, offset: int) -> None:
    got = 0
    while got < len(view):
        count = os.preadv(descriptor, [view[got:]], offset + got)
        if count == 0:
            raise DamagedError("it was cut")
        got += count
