"""`Zstd`: one ZSTD frame per block. TensorFlow cannot read it. No I/O."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.codec import Codec

_MOST_WINDOW = 128 << 20
"""Bytes that a frame may have the decoder look back."""


class Zstd(Codec):
    """One frame per block."""

    name = "ZSTD"
    levels = (1, 22, 3)
    most_ratio = 1 << 15  # a block of 128 KiB that repeats one byte takes four
    step = 1 << 10
    bounded = False
    beginning = re.compile(rb"\x28\xb5\x2f\xfd")

    def checked_name(self) -> str:
        _zstandard()
        return self.name

    def compress(self, block: BytesLike, level: int) -> BytesLike:
        # A fresh one per block: contexts aren't safe to share, and making one costs 20 µs of 3 ms.
        compressor = _zstandard().ZstdCompressor(
            level=level, write_content_size=True, write_checksum=True
        )
        return bytes(compressor.compress(block))

    def decompress_known(self, data: BytesLike, nbytes: int) -> BytesLike | None:
        """At once, and so without a second copy of all, if the data are one frame of that size."""
        zstandard = _zstandard()
        try:
            # what the frame claims is allocated, so it is checked first
            if zstandard.get_frame_parameters(data).content_size == nbytes:
                decoder = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
                raw: bytes = decoder.decompress(data, allow_extra_data=False)
                return raw
        except zstandard.ZstdError:
            pass  # by steps it is found where, and what
        return None

    def member(self, *, copyable: bool = False) -> Any:
        del copyable  # it has none
        return _zstandard().ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_zstandard().ZstdError,)

    def begins(self, head: bytes) -> bool:
        return head[:4] == b"\x28\xb5\x2f\xfd"


@lru_cache(maxsize=1)
def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ImportError(
            'compression "ZSTD" needs the zstandard package: pip install "tfio_store[zstd]"'
        ) from error
    return zstandard
