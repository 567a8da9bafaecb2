"""Files as bytes, for tests that damage them."""

from __future__ import annotations

from tfio_store.records.framing import FrameWriter


def framed(items: list[bytes]) -> bytes:
    """A raw TFRecord file of these records."""
    writer = FrameWriter()
    writer.write_many(items)
    return bytes(writer.take())


def flipped(data: bytes, *places: int) -> bytes:
    """The same with a bit changed in each of these bytes."""
    found = bytearray(data)
    for place in places:
        found[place] ^= 1
    return bytes(found)
