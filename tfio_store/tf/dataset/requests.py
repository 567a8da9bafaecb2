"""What the ops ask of Python, for all but raw local files. ``ext/tensorflow/ops/op_python.h`` has
the same messages in C, and `tfio_store.tf.dataset.runtime` answers them.
"""

from __future__ import annotations

from typing import NamedTuple

from tfio_store.tf.dataset.options import Settings

__all__ = ["BlockRequest", "StreamRequest"]


class BlockRequest(NamedTuple):
    """These bytes of one block."""

    url: str
    codec: str
    """As `tfio_store.tf.dataset.runtime.codec_text` gives it; "" stands for none."""
    version: str
    """Of the file. "" stands for any."""
    stored: tuple[int, int]
    """Its bytes in the file, from and to."""
    raw: tuple[int, int]
    """The same in the uncompressed stream."""
    sums: tuple[int, int]
    """Of its records, up to the block and up to its end; negative if they are unknown."""
    file_blocks: int
    """The number of blocks that the file is read in."""
    settings: Settings


class StreamRequest(NamedTuple):
    """The next records of one file."""

    url: str
    codec: str
    """May be "auto"."""
    version: str
    """Of the file. "" stands for any."""
    position: tuple[int, int]
    """The records before it, and its byte in a raw stream, or -1."""
    settings: Settings
