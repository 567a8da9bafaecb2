"""Compression of blocks and streams: the table of codecs, and bounded decompression. No I/O.

What a shard's bytes are, by codec:

===== =========================================================
None  the frames themselves
GZIP  one gzip member per block
ZLIB  one zlib stream, each block of which inflates by itself
ZSTD  one frame per block; TensorFlow can't read it
===== =========================================================

So blocks of every codec are compressed by many threads at once and decompressed at random.
"""

from __future__ import annotations

import struct
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.codec import Codec, StreamError
from tfio_store.records.damage import HEAD_BYTES
from tfio_store.records.deflate import Gzip, Zlib
from tfio_store.records.framing import joined, masked_crc32c
from tfio_store.records.zstd import Zstd

__all__ = [
    "CODECS",
    "Compressor",
    "Decompressor",
    "StreamError",
    "begins_raw",
    "can_be_indexed",
    "codec_name",
    "decompress",
    "decompress_block",
    "detect",
    "is_as_tensorflow",
    "most_ratio",
]

CODECS: dict[str, Codec] = {codec.name: codec for codec in (Gzip(), Zlib(), Zstd())}
"""Every codec, by name. Files without compression have none."""

_SLICE = 256 << 10
_MOST_COPIED = 8 << 20
"""Bytes of a block that is moved into memory that is used again."""

_UNBOUNDED_SLICES = (64, 4 << 10)
"""Bytes of input at a time, from and to, for a decoder that cannot limit its output."""


def codec_name(name: str | None, *, argument: str = "compression") -> str | None:
    """Return ``name`` if it is in `CODECS` ("" is None, as in TensorFlow). ValueError for any
    other, and ImportError where the codec's library is missing."""
    codec = name or None
    if codec is None:
        return None
    if codec not in CODECS:
        *most, last = (f'"{each}"' for each in CODECS)
        raise ValueError(f"{argument} must be None, {', '.join(most)} or {last}, not {name!r}")
    return CODECS[codec].checked_name()


def most_ratio(codec: str | None) -> int:
    """How many bytes one compressed byte may stand for. ``codec`` may be "auto"."""
    if codec is None:
        return 1
    if codec in CODECS:
        return CODECS[codec].most_ratio
    return max(each.most_ratio for each in CODECS.values())


def is_as_tensorflow(codec: str | None) -> bool:
    """Whether TensorFlow reads files of this codec as this library does. Of a ZLIB file it reads
    the first stream only, and of one whose codec it does not know the bytes."""
    return not codec or (codec in CODECS and CODECS[codec].as_tensorflow)


def can_be_indexed(codec: str) -> bool:
    """Whether a stream that others compressed can have an index."""
    return CODECS[codec].container is not None


class Compressor:
    """How a codec at one level, or none, turns blocks into a shard's bytes.

    A shard is ``header``, then `compress(block)` of each block in order, then
    ``trailer(checksum)``, where checksum is folded with `add` over the blocks' `checksum`
    from ``EMPTY``. Stateless: any number of threads may compress with it at once. Picklable.
    """

    EMPTY = Codec.EMPTY

    def __init__(self, codec: str | None, level: int | None = None) -> None:
        self.codec = codec_name(codec)
        self.level = _check_level(self.codec, level)
        self.header = b"" if self.codec is None else CODECS[self.codec].header

    def compress(self, block: BytesLike) -> BytesLike:
        """``block`` as a piece of a shard of its own; ``block`` itself for no compression."""
        return block if self.codec is None else CODECS[self.codec].compress(block, self.level)

    def checksum(self, block: BytesLike) -> int:
        """The checksum of a block for the trailer (an Adler-32 for ZLIB)."""
        return self.EMPTY if self.codec is None else CODECS[self.codec].checksum(block)

    def add(self, checksum: int, of_block: int, block_bytes: int) -> int:
        """Extend ``checksum`` of the blocks so far by a block of ``block_bytes`` bytes."""
        if self.codec is None:
            return self.EMPTY
        return CODECS[self.codec].add(checksum, of_block, block_bytes)

    def trailer(self, checksum: int, *, empty: bool) -> bytes:
        """The end of a shard. ``empty``: no block was written, yet the file must be valid."""
        if self.codec is None:
            return b""
        return CODECS[self.codec].trailer(checksum, level=self.level, empty=empty)


def _check_level(codec: str | None, level: int | None) -> int:
    if codec is None:
        if level is not None:
            raise ValueError(f"level must be None without compression, not {level!r}")
        return 0
    least, most, default = CODECS[codec].levels
    chosen = default if level is None or level == -1 else level
    if not isinstance(chosen, int) or not least <= chosen <= most:
        raise ValueError(f"level for {codec} must be {least} to {most}, not {level!r}")
    return chosen


def decompress_block(data: BytesLike, codec: str | None, *, nbytes: int) -> BytesLike:
    """One block out of a shard (as a `BlockTable` bounds it), whose decompressed size is known.

    Never allocates more than ``nbytes``, whatever ``data`` claims, or twice that of small blocks.
    StreamError if ``data`` does not decode to exactly ``nbytes``.
    """
    raw = data if codec is None else CODECS[codec].decompress_known(data, nbytes)
    if raw is None:
        assert codec is not None
        raw = decompress(data, codec, limit=nbytes)
    if len(memoryview(raw)) != nbytes:
        raise StreamError(f"the block decompresses to {len(memoryview(raw))} bytes, not {nbytes}")
    # libraries give memory of malloc, which keeps what each thread lets go of for that thread
    return joined([raw]) if codec is not None and nbytes <= _MOST_COPIED else raw


def decompress(data: BytesLike, codec: str, *, limit: int) -> bytes:
    """Whole compressed ``data`` (any number of members or frames), of at most ``limit`` bytes.

    StreamError when it is damaged, cut short, or would decompress to more.
    """
    decoder = Decompressor(codec)
    decoder.feed(data)
    pieces, total = [], 0
    while piece := decoder.read(min(limit + 1 - total, 1 << 20)):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise StreamError(f"the data decompresses to more than {limit} bytes")
    decoder.finish()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Decompressor:
    """A compressed stream, fed in pieces and read in pieces.

    Members (GZIP), frames (ZSTD) and even streams (ZLIB) that follow each other are
    read one after the other, as is the zero padding that some tools put behind gzip data. Memory
    is bounded by what `feed` was given and what `read` is asked for (a decoder whose output can't
    be limited, as that of ZSTD, is given less at a time where it expands more). Once failed, it
    stays failed.
    """

    def __init__(self, codec: str) -> None:
        name = codec_name(codec)
        if name is None:
            raise ValueError("a Decompressor needs a codec")
        self._codec = CODECS[name]
        self._member: Any = None
        self._input = memoryview(b"")
        self._output = b""
        self._taken = 0
        self._slice = _SLICE if self._codec.bounded else _UNBOUNDED_SLICES[0]
        self._full = False  # the last step filled its output: the member may hold more
        self._members = 0
        self._failure: StreamError | None = None

    def feed(self, data: BytesLike) -> None:
        """Take more compressed bytes. The caller must not change them until all of them are
        read."""
        view = memoryview(data).cast("B")
        self._input = memoryview(bytes(self._input) + view) if len(self._input) else view

    def read(self, limit: int) -> bytes:
        """Up to ``limit`` (> 0) decompressed bytes; b"" when more must be fed first."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._read(limit)
        except StreamError as error:
            self._failure = error
            raise

    def _read(self, limit: int) -> bytes:
        while not self._output and (len(self._input) or self._full):
            if self._member is None and not self._start_member():
                break
            self._output = self._step(limit)
        out = self._output[self._taken : self._taken + limit]
        self._taken += len(out)
        if self._taken == len(self._output):
            self._output, self._taken = b"", 0
        return out

    def _start_member(self) -> bool:
        if self._codec.padded and self._members:
            if self._input[0] == 0:
                self._skip_zeros()
                return False
            if self._input[0] != 0x1F:
                raise StreamError("other bytes lie behind the end of the gzip data")
        self._member = self._codec.member()
        self._members += 1
        return True

    def _skip_zeros(self) -> None:
        if bytes(self._input).strip(b"\0"):
            raise StreamError("other bytes lie behind the zeros that follow the gzip data")
        self._input = memoryview(b"")

    def _step(self, limit: int) -> bytes:
        """Decompress one slice of the input, at most ``limit`` bytes of output where the decoder
        can limit it."""
        member, bounded = self._member, self._codec.bounded
        piece = self._input[: self._slice]
        try:
            if bounded:
                out = member.decompress(piece, limit)
                left = member.unconsumed_tail
            else:
                out, left = member.decompress(piece), b""
                self._adapt(len(out), limit)
        except self._codec.errors as error:
            raise StreamError(self._describe(error)) from None
        self._full = bounded and len(out) == limit
        if member.eof:
            left, self._member, self._full = member.unused_data, None, False
        self._input = self._input[len(piece) - len(left) :]
        return bytes(out)

    def _adapt(self, came: int, limit: int) -> None:
        """Adapt the step, so that its output comes near ``limit``."""
        least, most = _UNBOUNDED_SLICES
        if came > limit:
            self._slice = max(least, self._slice * limit // came)
        elif came < limit // 4:
            self._slice = min(most, self._slice * 2)

    def _describe(self, error: Exception) -> str:
        name = self._codec.name
        what = name if self._members == 1 else f"bytes behind the end of the {name}"
        return f"the {what} data do not decode ({error})"

    def finish(self) -> None:
        """Say that the input has ended. StreamError (``truncated``) if it ends inside a member."""
        if self._failure is not None:
            raise self._failure
        if self._member is not None:
            raise StreamError(f"the {self._codec.name} data ends too early", truncated=True)


# The codec of an object by its first bytes.


def detect(first_bytes: BytesLike) -> str | None:
    """Return the codec of an object with these first bytes; None if they are, or may be, raw
    records. A raw file begins with a length whose CRC holds. This is checked first, so that no
    record length passes for a magic number. Give 64 bytes or more if the object has them.
    """
    head = bytes(memoryview(first_bytes)[:HEAD_BYTES])
    if begins_raw(head):
        return None
    return next((name for name, codec in CODECS.items() if codec.begins(head)), None)


def begins_raw(head: bytes) -> bool:
    """Whether the first bytes are the header of a record."""
    return len(head) >= 12 and struct.unpack_from("<I", head, 8)[0] == masked_crc32c(head[:8])
