"""Checkpoints of an inflater: where one can begin inside of a GZIP or ZLIB stream that others
compressed, and those of all blocks of such a stream. No I/O.

Whoever wants bytes from the middle of a stream needs three things: the bit at which a symbol
begins, the Huffman codes that hold there, and what is copied of the 32 KiB before it. The last two
are the checkpoint's *seed*: the first bits of the deflate block, as they stand in the file, and the
window. It begins with the first byte that is copied, and bytes that are not are zeros, which hardly
take room. A seed is packed by zlib::

    u16 bits of the header    its bytes, from bit 0 on    the window, up to 32 KiB

A checkpoint at a member's first byte has an empty seed.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tfio_store.records.arrays import Int64Array
from tfio_store.records.compression import StreamError, most_ratio
from tfio_store.records.framing import crc32c, inflate_block
from tfio_store.storage import Version

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


UInt32Array = npt.NDArray[np.uint32]

_HEADER = struct.Struct("<H")
_MOST_HEADER_BITS = 8 * 320
_MOST_WINDOW = 32 << 10
_MOST_UNPACKED = _HEADER.size + _MOST_HEADER_BITS // 8 + _MOST_WINDOW
_LEVEL = 6

MOST_SEED_BYTES = _MOST_UNPACKED + 1024
"""No packed seed is longer, whatever it holds."""

MOST_SKIP = 1 << 17
"""Bytes between a checkpoint and the first record behind it, at most."""

_MOST_RATIO = most_ratio("GZIP")


class CheckpointError(Exception):
    """The index of a stream is damaged, or says what the stream is not."""


class Checkpoint(NamedTuple):
    """Where the inflater of a block begins: at ``bit`` of the stored object. The block comes
    ``skip`` bytes of output later, and ``crc32c`` is that of its bytes. Nothing comes behind the
    last one."""

    bit: int
    skip: int
    crc32c: int
    is_last: bool


def pack_seed(header: bytes, header_bits: int, window: bytes) -> bytes:
    """The seed of a checkpoint inside of a member."""
    return zlib.compress(_HEADER.pack(header_bits) + header + window, _LEVEL)


def _unpacked(seed: BytesLike) -> tuple[bytes, int, bytes]:
    """The header, how many bits it has, and the window. CheckpointError for what is no seed."""
    if not len(memoryview(seed)):
        return b"", 0, b""
    decoder = zlib.decompressobj()
    try:
        data = decoder.decompress(seed, _MOST_UNPACKED)
    except zlib.error as error:
        raise CheckpointError(f"one of its checkpoints is damaged ({error})") from None
    if not decoder.eof or len(data) < _HEADER.size:
        raise CheckpointError("one of its checkpoints is damaged")
    (bits,) = _HEADER.unpack_from(data)
    end = _HEADER.size + (bits + 7) // 8
    if not 0 < bits <= _MOST_HEADER_BITS or not end <= len(data) <= end + _MOST_WINDOW:
        raise CheckpointError("one of its checkpoints is damaged")
    return data[_HEADER.size : end], bits, data[end:]


def check_seed(seed: BytesLike) -> None:
    """CheckpointError for what is no seed."""
    _unpacked(seed)


def inflate_from(
    point: Checkpoint, seed: BytesLike, data: BytesLike, codec: str, *, start: int, nbytes: int
) -> tuple[memoryview, str | None]:
    """The ``nbytes`` bytes of a block out of its stored ``data``, which begins at byte ``start`` of
    the object: as many as there are, and what is wrong with them, or None.

    StreamError if nothing can be inflated. CheckpointError if that is the fault of the index. It
    allocates no more than ``data`` may stand for.
    """
    header, header_bits, window = _unpacked(seed)
    size = len(memoryview(data))
    if not 0 <= point.skip <= MOST_SKIP or point.skip + nbytes > _MOST_RATIO * (size + 8):
        raise StreamError(f"{size} bytes cannot inflate to a block of {nbytes} bytes")
    try:
        raw, why = inflate_block(
            data,
            codec,
            bit=point.bit - 8 * start,
            header=header,
            header_bits=header_bits,
            window=window,
            skip=point.skip,
            nbytes=nbytes + point.is_last,  # whether there is more shows whether it is the last
        )
    except ValueError as error:
        raise CheckpointError(f"one of its checkpoints is damaged ({error})") from None
    if point.is_last and len(raw) >= nbytes:
        raw, why, goes_on = raw[:nbytes], None, len(raw) > nbytes
    else:
        goes_on = False
    if why is None and crc32c(raw) != point.crc32c:
        why = "the data inflates to other bytes than its index says"
    elif goes_on:
        raise CheckpointError("the file goes on behind its last block")
    return raw, why


# Those of all blocks of a stream.


class Restart(NamedTuple):
    """How to inflate one block: from its checkpoint on, whose seed is bytes ``start:stop`` of the
    object ``address``."""

    point: Checkpoint
    address: str
    version: Version
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoints:
    """One checkpoint for each block of a table.

    Block b is inflated from bit ``bits[b]`` of the stored object on, and its bytes begin
    ``skips[b]`` bytes later. It needs what is stored before byte ``stops[b]``. ``crcs`` are CRC32C
    of the blocks' bytes. Its seed is bytes ``seeds[b]:seeds[b + 1]`` of the object ``address``,
    which holds the index. ``end`` is the stored object's size: the last block ends there.
    """

    bits: Int64Array
    stops: Int64Array
    skips: UInt32Array
    crcs: UInt32Array
    seeds: Int64Array
    address: str
    end: int
    version: Version = field(default_factory=Version)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arrays = (self.bits, self.stops, self.skips, self.crcs, self.seeds)
        return sum(array.nbytes for array in arrays)

    def __getitem__(self, block: int) -> Restart:
        is_last = int(self.stops[block]) == self.end
        return Restart(
            Checkpoint(
                int(self.bits[block]), int(self.skips[block]), int(self.crcs[block]), is_last
            ),
            self.address,
            self.version,
            int(self.seeds[block]),
            int(self.seeds[block + 1]),
        )

    def part(self, begin: int, end: int) -> Checkpoints:
        """Those of blocks ``begin:end``."""
        blocks = slice(begin, end)
        return Checkpoints(
            self.bits[blocks],
            self.stops[blocks],
            self.skips[blocks],
            self.crcs[blocks],
            self.seeds[begin : end + 1],
            self.address,
            self.end,
            self.version,
        )
