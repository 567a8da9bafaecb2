"""`Gzip` and `Zlib`: the codecs that TensorFlow reads too, and `Deflate`, a bare stream. No I/O.

GZIP is one gzip member per block: RFC 1952 lets members follow each other, and TensorFlow reads
them all. ZLIB is ONE zlib stream, since TensorFlow drops whatever follows the first one in silence:
a two-byte header, each block as raw deflate data that ends on a byte boundary (``Z_SYNC_FLUSH``)
and refers to no earlier block, then an empty last block and the Adler-32.

Which library does the work was chosen by measuring 1 MiB blocks (MB/s and compressed size, source
text, one core):

    level 1:  zlib 117 (30 %)   libdeflate 232 (28 %)   isal 482 (29 %)  <- chosen
    level 6:  zlib  36 (25 %)   libdeflate  90 (25 %)  <- chosen
    inflate:  zlib 414          isal 1019               libdeflate 1378  <- known size

isal and libdeflate (the ``fast-gzip`` extra) are optional; zlib does what they don't.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, ClassVar

from typing_extensions import Buffer as BytesLike

from tfio_store.records.codec import Codec, StreamError, optional

_isal, _deflate = optional("isal.isal_zlib"), optional("deflate")

_LAST_BLOCK = b"\x03\x00"
_ADLER_BASE = 65521
_LEAST_MEMBER = 18


class _OfDeflate(Codec):
    levels = (0, 9, 6)
    most_ratio = 1032  # a match of 258 bytes takes at least two bits
    step = 64 << 10
    wbits: ClassVar[int]
    """zlib's window-bits argument, which also picks the container."""

    def member(self, *, copyable: bool = False) -> Any:
        library = zlib if copyable or _isal is None else _isal
        return library.decompressobj(self.wbits)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (zlib.error,) if _isal is None else (zlib.error, _isal.IsalError)


class Gzip(_OfDeflate):
    """One gzip member per block."""

    name = "GZIP"
    wbits = 31
    beginning = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")
    padded = True
    container = 1
    as_tensorflow = True

    def compress(self, block: BytesLike, level: int) -> BytesLike:
        if level == 1 and _isal is not None:
            return bytes(_isal.compress(block, 2, self.wbits))
        if level > 1 and _deflate is not None:
            compressed: bytearray = _deflate.gzip_compress(block, level)
            return compressed
        encoder = zlib.compressobj(level, zlib.DEFLATED, self.wbits)
        return encoder.compress(block) + encoder.flush()

    def decompress_known(self, data: BytesLike, nbytes: int) -> BytesLike | None:
        view = memoryview(data)
        # libdeflate allocates what a member's last four bytes claim, so they are checked first.
        plausible = len(view) >= _LEAST_MEMBER and nbytes <= self.most_ratio * len(view)
        if _deflate is None or not plausible or int.from_bytes(view[-4:], "little") != nbytes:
            return None
        try:
            raw: bytearray = _deflate.gzip_decompress(view, nbytes)
        except (_deflate.DeflateError, ValueError) as error:
            raise StreamError(f"the gzip data is damaged ({error})") from None
        return raw if len(raw) == nbytes else None

    def begins(self, head: bytes) -> bool:
        return head[:3] == b"\x1f\x8b\x08"


class Deflate(_OfDeflate):
    """A bare deflate stream: a block of a ZLIB shard. No shard and no file is one."""

    name = "DEFLATE"
    wbits = -15
    beginning = None
    ends = False

    def compress(self, block: BytesLike, level: int) -> bytes:
        if level == 1 and _isal is not None:
            encoder: Any = _isal.compressobj(2, zlib.DEFLATED, self.wbits)
        else:
            encoder = zlib.compressobj(level, zlib.DEFLATED, self.wbits)
        return bytes(encoder.compress(block) + encoder.flush(zlib.Z_SYNC_FLUSH))

    def begins(self, head: bytes) -> bool:
        del head
        return False


def _headers() -> bytes:
    """A pattern of all: any window size, no dictionary, together a multiple of 31 (RFC 1950)."""
    pairs = [(window << 4 | 8, flags) for window in range(8) for flags in range(256)]
    valid = [bytes(pair) for pair in pairs if not (pair[0] << 8 | pair[1]) % 31 | pair[1] & 0x20]
    return b"|".join(map(re.escape, valid))


class Zlib(_OfDeflate):
    """One zlib stream, whose blocks are bare deflate data."""

    name = "ZLIB"
    wbits = zlib.MAX_WBITS
    header = b"\x78\x9c"
    beginning = re.compile(_headers(), re.DOTALL)
    container = 2
    _piece = Deflate()

    @property
    def piece(self) -> Codec:
        return self._piece

    def compress(self, block: BytesLike, level: int) -> BytesLike:
        return self._piece.compress(block, level)

    def checksum(self, block: BytesLike) -> int:
        return zlib.adler32(block)

    def add(self, checksum: int, of_block: int, block_bytes: int) -> int:
        """Adler-32 of a+b, from those of a and b. (Python lacks zlib's ``adler32_combine``.)"""
        low = ((checksum & 0xFFFF) + (of_block & 0xFFFF) - 1) % _ADLER_BASE
        high = (checksum >> 16) + (of_block >> 16) + block_bytes * ((checksum & 0xFFFF) - 1)
        return (high % _ADLER_BASE) << 16 | low

    def trailer(self, checksum: int, *, level: int, empty: bool) -> bytes:
        del level, empty
        return _LAST_BLOCK + checksum.to_bytes(4, "big")

    def decompress_known(self, data: BytesLike, nbytes: int) -> BytesLike:
        decoder = self._piece.member()
        try:
            raw = bytes(decoder.decompress(data, max(nbytes, 1)))
            more = b"" if decoder.eof else decoder.decompress(decoder.unconsumed_tail, 1)
        except self.errors as error:
            raise StreamError(f"the zlib data is damaged ({error})") from None
        if more:
            raise StreamError(f"the block decompresses to more than {nbytes} bytes")
        return raw

    def begins(self, head: bytes) -> bool:
        """Two bytes of a zlib header prove little, so what follows must inflate too."""
        if len(head) < 2 or head[0] & 0x8F != 0x08 or int.from_bytes(head[:2], "big") % 31:
            return False
        try:
            zlib.decompressobj().decompress(head, 64)
        except zlib.error:
            return False
        return True
