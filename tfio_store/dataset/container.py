"""The container of all indexes: a header and sections, each with its kind, its length and its CRC.
No I/O.

All numbers are little-endian::

    "TFIOSIDX"  u32 version = 1  u32 0                           the header
    8 bytes kind  u64 length  payload  zeros  u32 CRC32C         a section

``kind`` is ASCII, with zeros behind it, and ``length`` counts the bytes of the payload. The zeros
make a section's bytes a multiple of 8. The CRC is that of all bytes of the section before it. So a
section is read alone by whoever knows its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tfio_store.records.framing import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


_MAGIC, _VERSION = b"TFIOSIDX", 1
_HEADER = struct.Struct("<8sII")
_HEAD = struct.Struct("<8sQ")
_CRC = struct.Struct("<I")
_ALIGNMENT = 8

HEADER_BYTES = _HEADER.size
SECTION_HEAD_BYTES = _HEAD.size


def container(parts: Iterable[bytes | memoryview]) -> bytes:
    """The object that holds these encoded sections."""
    return b"".join([_HEADER.pack(_MAGIC, _VERSION, 0), *parts])


def check_header(data: BytesLike) -> None:
    """ValueError unless ``data`` begins as a container does."""
    head = bytes(memoryview(data).cast("B")[:HEADER_BYTES])
    if len(head) < HEADER_BYTES or not head.startswith(_MAGIC):
        raise ValueError("it does not begin as an index does")
    if head != _HEADER.pack(_MAGIC, _VERSION, 0):
        raise ValueError(
            f"it has version {_HEADER.unpack(head)[1]}, and this library reads {_VERSION}; a newer "
            "tfio_store may read it"
        )


def section_bytes(length: int) -> int:
    """The bytes of a section whose payload has ``length``."""
    return -(-(_HEAD.size + length + _CRC.size) // _ALIGNMENT) * _ALIGNMENT


def section(kind: bytes, *pieces: bytes) -> bytes:
    """The section that has these pieces, one behind the other, as its payload."""
    return b"".join(streamed_section(kind, sum(map(len, pieces)), pieces))


def streamed_section(kind: bytes, length: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A section in pieces, of whose payload the length is known."""
    head = _HEAD.pack(kind, length)
    yield head
    crc = crc32c(head)
    for piece in pieces:
        yield piece
        crc = crc32c(piece, crc)
    zeros = bytes(section_bytes(length) - _HEAD.size - length - _CRC.size)
    yield zeros + _CRC.pack(crc32c(zeros, crc))


def first_section_bytes(data: BytesLike) -> int:
    """The bytes of the section that begins with ``data``. ValueError if its head is cut off."""
    view = memoryview(data).cast("B")
    if len(view) < _HEAD.size:
        raise ValueError(f"a section is cut off after {len(view)} bytes")
    return section_bytes(_HEAD.unpack_from(view)[1])


def section_crc(data: BytesLike) -> int:
    """The CRC32C that a section ends with."""
    return int.from_bytes(bytes(memoryview(data).cast("B")[-_CRC.size :]), "little")


def payload_of(data: BytesLike, kind: bytes) -> memoryview:
    """The payload of a section, which is all of ``data``. ValueError says why it is none."""
    view = memoryview(data).cast("B")
    if len(view) < _HEAD.size + _CRC.size:
        raise ValueError(f"it is cut off after {len(view)} bytes")
    found, length = _HEAD.unpack_from(view)
    if crc32c(view[: -_CRC.size]) != section_crc(view):
        raise ValueError("its checksum does not hold")
    if found.rstrip(b"\0") != kind:
        raise ValueError(f"it is a section of kind {found!r}, not {kind!r}")
    if section_bytes(length) != len(view) or any(view[_HEAD.size + length : -_CRC.size]):
        raise ValueError(f"its {len(view)} bytes are not those of a payload of {length}")
    return view[_HEAD.size : _HEAD.size + length]


def sections(data: BytesLike) -> Iterator[memoryview]:
    """The sections that lie one behind the other in ``data``. ValueError if one is cut off; whether
    it is sound, `payload_of` tells."""
    view, at = memoryview(data).cast("B"), 0
    while at < len(view):
        stop = at + first_section_bytes(view[at:])
        if stop > len(view):
            raise ValueError(f"a section of {stop - at} bytes is cut off")
        yield view[at:stop]
        at = stop
