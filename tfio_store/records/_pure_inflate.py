"""Inflating from a checkpoint on, by Python's zlib.

It has no way to begin at a bit, or inside of a deflate block. So it is given another stream: the
first bits of that block, and then those of the symbols that are wanted. Stored blocks begin at
bytes, so the bits must stand in their bytes as they did: empty blocks in front of all see to that.
"""

from __future__ import annotations

import zlib
from typing import final

from typing_extensions import Buffer as BytesLike

from tfio_store.records.compiled import ADVICE

__all__ = ["Inflater", "inflate_block"]

_SLICE = 16 << 10
_TRAILER = {"GZIP": 8, "ZLIB": 4}
_CONTAINER = {"GZIP": 31, "ZLIB": 15}
_FIXED_EMPTY, _FIXED_BITS = 0b010, 10
"""An empty block of the fixed codes: its type, and seven zeros that end it."""


@final
class Inflater:
    """The compiled core alone has an inflater that can be resumed."""

    def __init__(self, codec: str) -> None:
        raise ImportError(
            f"indexing a {codec} file needs tfio_store's compiled core, which is missing; {ADVICE}"
        )


def _odd_empty() -> tuple[int, int]:
    """An empty block of an odd number of bits, and that number. Of its codes only that of the end
    is used."""
    parts = [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)]  # dynamic; 257 and 1 lengths; 18 of them
    parts += [({2: 2, 3: 2, 17: 1}.get(i, 0), 3) for i in range(18)]  # of symbols 18, 0 and 1
    parts += [(0b11, 2), (127, 7), (0b11, 2), (107, 7), (0, 1)]  # 138 and 118 zeros, then a one
    parts += [(0b01, 2), (0, 1)]  # no distance; the end
    found = at = 0
    for value, bits in parts:
        found |= value << at
        at += bits
    return found, at


def _front(bits: int) -> tuple[int, int]:
    """Empty blocks of so many bits, modulo 8, and how many they are."""
    found, at = _odd_empty() if bits % 2 else (0, 0)
    while (at - bits) % 8:
        found |= _FIXED_EMPTY << at
        at += _FIXED_BITS
    return found, at


def _spliced(data: memoryview, bit: int, header: bytes, header_bits: int) -> bytes:
    """A deflate stream that begins with a header and goes on at a bit of ``data``."""
    number, at = _front((bit - header_bits) % 8)
    number |= int.from_bytes(header, "little") << at
    at += header_bits
    symbols = int.from_bytes(data[bit >> 3 :], "little") >> (bit & 7)
    size = at + 8 * len(data) - bit
    return (number | symbols << at).to_bytes((size + 7) // 8, "little")


def inflate_block(
    data: BytesLike,
    codec: str,
    *,
    bit: int,
    header: bytes,
    header_bits: int,
    window: bytes,
    skip: int,
    nbytes: int,
) -> tuple[memoryview, str | None]:
    view = memoryview(data).cast("B")
    if len(header) != (header_bits + 7) // 8 or not 0 <= bit <= 8 * len(view):
        raise ValueError("no inflater was marked so")
    inside = header_bits > 0
    left = _spliced(view, bit, header, header_bits) if inside else bytes(view[bit >> 3 :])
    out, wanted, why = bytearray(), skip + nbytes, "the data ends too early"
    while len(out) < wanted and left:
        wbits = -15 if inside else _CONTAINER[codec]
        member = zlib.decompressobj(wbits, zdict=window) if inside else zlib.decompressobj(wbits)
        at = 0
        try:
            while (
                len(out) < wanted and not member.eof and (at < len(left) or member.unconsumed_tail)
            ):
                piece = member.unconsumed_tail or left[at : at + _SLICE]
                at += 0 if member.unconsumed_tail else len(piece)
                out += member.decompress(piece, wanted - len(out))
        except zlib.error as error:
            why = str(error)
            break
        left = member.unused_data + left[at:]
        left = left[_TRAILER[codec] :] if inside else left
        inside = False
        if not member.eof:
            break
    found = memoryview(bytes(out[skip:wanted]))
    return found, None if len(found) == nbytes else why
