"""Files as bytes, for tests that damage them."""

from __future__ import annotations

from tfio_store.records.framing import FrameWriter


def framed(items: list[bytes]) -> bytes:
    """A raw TFRecord file of these records."""
    writer = FrameWriter()
    writer.write_many(items)
    return bytes(writer.take())
