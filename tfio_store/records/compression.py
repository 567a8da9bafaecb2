"""Compression of blocks and streams: names, levels, bounded decompression. No I/O.

What a shard's bytes are, by codec:

===== ==============================================================================
None  the frames themselves
GZIP  one gzip member per block (RFC 1952 lets members follow each other, and
      TensorFlow reads them all)
ZLIB  ONE zlib stream, since TensorFlow drops whatever follows the first one in
      silence: a two-byte header, each block as raw deflate data that ends on a
      byte boundary (``Z_SYNC_FLUSH``) and refers to no earlier block, then an
      empty last block and the Adler-32
ZSTD  one frame per block; TensorFlow can't read it
===== ==============================================================================

So blocks of every codec are compressed by many threads at once and decompressed
at random. Which library does the work was chosen by measuring 1 MiB blocks (MB/s
and compressed size, source text, one core; `bench/codecs.py` prints the table):

    level 1:  zlib 117 (30 %)   libdeflate 232 (28 %)   isal 482 (29 %)  <- chosen
    level 6:  zlib  36 (25 %)   libdeflate  90 (25 %)  <- chosen
    inflate:  zlib 414          isal 1019               libdeflate 1378  <- known size

isal and libdeflate (the ``fast-gzip`` extra) are optional; zlib does what they don't.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from importlib import import_module
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import masked_crc32c
from tfio_store.records.lookalike import HEAD_BYTES

__all__ = [
    "CODECS",
    "Compressor",
    "Decompressor",
    "StreamError",
    "begins_raw",
    "codec_errors",
    "codec_name",
    "decompress",
    "decompress_block",
    "detect",
    "most_ratio",
    "new_member",
]

CODECS = (None, "GZIP", "ZLIB", "ZSTD")


def _optional(module: str) -> Any:
    """A module that may not be installed, or None."""
    try:
        return import_module(module)
    except ImportError:
        return None


_isal, _deflate = _optional("isal.isal_zlib"), _optional("deflate")

_LEVELS = {"GZIP": (0, 9, 6), "ZLIB": (0, 9, 6), "ZSTD": (1, 22, 3)}  # least, most, default

_ZLIB_HEADER = b"\x78\x9c"
_ZLIB_LAST_BLOCK = b"\x03\x00"
_GZIP, _RAW_DEFLATE = 31, -15  # zlib's window-bits argument also picks the container
_WINDOW_BITS = {"GZIP": _GZIP, "ZLIB": zlib.MAX_WBITS, "DEFLATE": _RAW_DEFLATE}
_MAX_DEFLATE_RATIO = 1032  # a match of 258 bytes takes at least two bits
_MAX_ZSTD_RATIO = 1 << 15  # a block of 128 KiB that repeats one byte takes four
_SLICE = 256 << 10
_ZSTD_SLICES = (64, 4 << 10)  # bytes of input at a time, from and to: zstd can't limit output
_ADLER_BASE = 65521


class StreamError(Exception):
    """Compressed bytes that do not decode; ``truncated`` if more of them could have."""

    def __init__(self, reason: str, *, truncated: bool = False) -> None:
        super().__init__(reason)
        self.truncated = truncated


def codec_name(name: str | None, *, argument: str = "compression") -> str | None:
    """Return ``name`` as in `CODECS` ("" is None, as in TensorFlow). ValueError for any other."""
    codec = name or None
    if codec not in CODECS:
        raise ValueError(f'{argument} must be None, "GZIP", "ZLIB" or "ZSTD", not {name!r}')
    if codec == "ZSTD":
        _zstandard()
    return codec


def most_ratio(codec: str | None) -> int:
    """How many bytes one compressed byte may stand for. ``codec`` may be "auto"."""
    if codec is None:
        return 1
    return _MAX_DEFLATE_RATIO if codec in ("GZIP", "ZLIB") else _MAX_ZSTD_RATIO


class Compressor:
    """How one codec at one level turns blocks into a shard's bytes.

    A shard is ``header``, then `compress(block)` of each block in order, then
    ``trailer(checksum)``, where checksum is folded with `add` over the blocks' `checksum`
    from ``EMPTY``. Stateless: any number of threads may compress with it at once. Picklable.
    """

    EMPTY = 1

    def __init__(self, codec: str | None, level: int | None = None) -> None:
        self.codec = codec_name(codec)
        self.level = _check_level(self.codec, level)
        self.header = _ZLIB_HEADER if self.codec == "ZLIB" else b""

    def compress(self, block: BytesLike) -> BytesLike:
        """``block`` as a piece of a shard of its own; ``block`` itself for no compression."""
        if self.codec is None:
            return block
        if self.codec == "GZIP":
            return _gzip(block, self.level)
        if self.codec == "ZLIB":
            return _deflate_piece(block, self.level)
        return bytes(_zstd_compressor(self.level).compress(block))

    def checksum(self, block: BytesLike) -> int:
        """The checksum of a block for the trailer (an Adler-32 for ZLIB)."""
        return zlib.adler32(block) if self.codec == "ZLIB" else self.EMPTY

    def add(self, checksum: int, of_block: int, block_bytes: int) -> int:
        """Extend ``checksum`` of the blocks so far by a block of ``block_bytes`` bytes."""
        return _adler32_combine(checksum, of_block, block_bytes) if self.codec == "ZLIB" else 1

    def trailer(self, checksum: int, *, empty: bool) -> bytes:
        """The end of a shard. ``empty``: no block was written, yet the file must be valid."""
        if self.codec == "ZLIB":
            return _ZLIB_LAST_BLOCK + checksum.to_bytes(4, "big")
        return bytes(self.compress(b"")) if empty else b""


def _check_level(codec: str | None, level: int | None) -> int:
    if codec is None:
        if level is not None:
            raise ValueError(f"level must be None without compression, not {level!r}")
        return 0
    least, most, default = _LEVELS[codec]
    chosen = default if level is None or level == -1 else level
    if not isinstance(chosen, int) or not least <= chosen <= most:
        raise ValueError(f"level for {codec} must be {least} to {most}, not {level!r}")
    return chosen


def _gzip(block: BytesLike, level: int) -> BytesLike:
    if level == 1 and _isal is not None:
        return bytes(_isal.compress(block, 2, _GZIP))
    if level > 1 and _deflate is not None:
        compressed: bytearray = _deflate.gzip_compress(block, level)
        return compressed
    encoder = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
    return encoder.compress(block) + encoder.flush()


def _deflate_piece(block: BytesLike, level: int) -> bytes:
    if level == 1 and _isal is not None:
        encoder: Any = _isal.compressobj(2, zlib.DEFLATED, _RAW_DEFLATE)
    else:
        encoder = zlib.compressobj(level, zlib.DEFLATED, _RAW_DEFLATE)
    return bytes(encoder.compress(block) + encoder.flush(zlib.Z_SYNC_FLUSH))


def _adler32_combine(first: int, second: int, second_length: int) -> int:
    """Adler-32 of a+b, from those of a and b. (Python lacks zlib's ``adler32_combine``.)"""
    low = ((first & 0xFFFF) + (second & 0xFFFF) - 1) % _ADLER_BASE
    high = (first >> 16) + (second >> 16) + second_length * ((first & 0xFFFF) - 1)
    return (high % _ADLER_BASE) << 16 | low


@lru_cache(maxsize=1)
def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ImportError(
            'compression "ZSTD" needs the zstandard package: pip install "tfio_store[zstd]"'
        ) from error
    return zstandard


def _zstd_compressor(level: int) -> Any:
    # A fresh one per block: contexts aren't safe to share, and making one costs 20 µs of 3 ms.
    return _zstandard().ZstdCompressor(level=level, write_content_size=True, write_checksum=True)


_MOST_WINDOW = 128 << 20
"""Bytes that a ZSTD frame may have the decoder look back."""


def decompress_block(data: BytesLike, codec: str | None, *, nbytes: int) -> BytesLike:
    """One block out of a shard (as a `BlockTable` bounds it), whose decompressed size is known.

    Never allocates more than ``nbytes``, whatever ``data`` claims. StreamError if ``data`` does not
    decode to exactly ``nbytes``.
    """
    if codec is None:
        raw: BytesLike = data
    elif codec == "GZIP" and _deflate is not None:
        raw = _inflate_known(data, nbytes)
    elif codec == "ZLIB":
        raw = _inflate_piece(data, nbytes)
    elif codec == "ZSTD":
        raw = _zstd_known(data, nbytes)
    else:
        raw = decompress(data, codec, limit=nbytes)
    if len(memoryview(raw)) != nbytes:
        raise StreamError(f"the block decompresses to {len(memoryview(raw))} bytes, not {nbytes}")
    return raw


def _inflate_known(data: BytesLike, nbytes: int) -> BytesLike:
    view = memoryview(data)
    # libdeflate allocates what a member's last four bytes claim, so they are checked first.
    plausible = nbytes <= _MAX_DEFLATE_RATIO * len(view)
    if len(view) >= 18 and plausible and int.from_bytes(view[-4:], "little") == nbytes:
        try:
            raw: bytearray = _deflate.gzip_decompress(view, nbytes)
        except (_deflate.DeflateError, ValueError) as error:
            raise StreamError(f"the gzip data is damaged ({error})") from None
        if len(raw) == nbytes:
            return raw
    return decompress(data, "GZIP", limit=nbytes)


def _zstd_known(data: BytesLike, nbytes: int) -> BytesLike:
    """At once, and so without a second copy of all, if the data are one frame of that size."""
    zstandard = _zstandard()
    try:
        # what the frame claims is allocated, so it is checked first
        if zstandard.get_frame_parameters(data).content_size == nbytes:
            raw: bytes = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompress(
                data, allow_extra_data=False
            )
            return raw
    except zstandard.ZstdError:
        pass  # by steps it is found where, and what
    return decompress(data, "ZSTD", limit=nbytes)


def _inflate_piece(data: BytesLike, nbytes: int) -> bytes:
    decoder = (_isal or zlib).decompressobj(_RAW_DEFLATE)
    try:
        raw = bytes(decoder.decompress(data, max(nbytes, 1)))
        more = b"" if decoder.eof else decoder.decompress(decoder.unconsumed_tail, 1)
    except codec_errors("ZLIB") as error:
        raise StreamError(f"the zlib data is damaged ({error})") from None
    if more:
        raise StreamError(f"the block decompresses to more than {nbytes} bytes")
    return raw


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
    is bounded by what `feed` was given and what `read` is asked for (ZSTD, whose output can't be
    limited, is given less at a time where it expands more). Once failed, it stays failed.
    """

    def __init__(self, codec: str) -> None:
        if codec_name(codec) is None:
            raise ValueError("a Decompressor needs a codec")
        self._codec = codec
        self._member: Any = None
        self._input = memoryview(b"")
        self._output = b""
        self._taken = 0
        self._slice = _ZSTD_SLICES[0] if codec == "ZSTD" else _SLICE
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
        if self._codec == "GZIP" and self._members:
            if self._input[0] == 0:
                self._skip_zeros()
                return False
            if self._input[0] != 0x1F:
                raise StreamError("other bytes lie behind the end of the gzip data")
        self._member = new_member(self._codec)
        self._members += 1
        return True

    def _skip_zeros(self) -> None:
        if bytes(self._input).strip(b"\0"):
            raise StreamError("other bytes lie behind the zeros that follow the gzip data")
        self._input = memoryview(b"")

    def _step(self, limit: int) -> bytes:
        """Decompress one slice of the input, at most (but for ZSTD) ``limit`` bytes of output."""
        member = self._member
        piece = self._input[: self._slice]
        try:
            if self._codec == "ZSTD":
                out, left = member.decompress(piece), b""
                self._adapt(len(out), limit)
            else:
                out = member.decompress(piece, limit)
                left = member.unconsumed_tail
        except codec_errors(self._codec) as error:
            raise StreamError(self._describe(error)) from None
        self._full = self._codec != "ZSTD" and len(out) == limit
        if member.eof:
            left, self._member, self._full = member.unused_data, None, False
        self._input = self._input[len(piece) - len(left) :]
        return bytes(out)

    def _adapt(self, came: int, limit: int) -> None:
        """Adapt the step, so that its output comes near ``limit``."""
        least, most = _ZSTD_SLICES
        if came > limit:
            self._slice = max(least, self._slice * limit // came)
        elif came < limit // 4:
            self._slice = min(most, self._slice * 2)

    def _describe(self, error: Exception) -> str:
        what = self._codec if self._members == 1 else f"bytes behind the end of the {self._codec}"
        return f"the {what} data do not decode ({error})"

    def finish(self) -> None:
        """Say that the input has ended. StreamError (``truncated``) if it ends inside a member."""
        if self._failure is not None:
            raise self._failure
        if self._member is not None:
            raise StreamError(f"the {self._codec} data ends too early", truncated=True)


def new_member(codec: str, *, copyable: bool = False) -> Any:
    """A decoder of one member, frame or stream, as Python's zlib has them; ``copyable``: zlib's
    own, which has ``copy()``. "DEFLATE" is a codec here: a bare stream."""
    if codec == "ZSTD":
        return _zstandard().ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()
    library = zlib if copyable or _isal is None else _isal
    return library.decompressobj(_WINDOW_BITS[codec])


@lru_cache(maxsize=4)
def codec_errors(codec: str) -> tuple[type[Exception], ...]:
    """The exceptions that a codec's decoders raise for bytes that do not decode."""
    if codec == "ZSTD":
        return (_zstandard().ZstdError,)
    return (zlib.error,) if _isal is None else (zlib.error, _isal.IsalError)


# The codec of an object by its first bytes.


def detect(first_bytes: BytesLike) -> str | None:
    """Return the codec of an object with these first bytes; None if they are, or may be, raw
    records. A raw file begins with a length whose CRC holds. This is checked first, so that no
    record length passes for a magic number. Give 64 bytes or more if the object has them.
    """
    head = bytes(memoryview(first_bytes)[:HEAD_BYTES])
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
