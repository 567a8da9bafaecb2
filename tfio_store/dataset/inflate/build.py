"""Builds the index of a stream that others compressed, while it is inflated.

Each block but the first begins at a checkpoint: between two symbols of the deflate stream, as close
before a record as possible. How the stream was made does not matter: neither where deflate's own
blocks are, nor its members. A block ends with the record that makes it 1 MiB long. It is longer
where the index would else take too large a part of the file, as where a MiB is compressed to a
kilobyte.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfio_store.dataset.header_walk import BLOCK_BYTES, HeaderWalker
from tfio_store.dataset.inflate.checkpoints import MOST_SKIP, pack_seed
from tfio_store.dataset.inflate.index import BuiltIndex
from tfio_store.errors import DataLossError, RecordTooLargeError
from tfio_store.records.compression import StreamError
from tfio_store.records.framing import HEADER_BYTES, Inflater, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


_PIECE = 1 << 20
"""Bytes of output at a time."""

_MOST_BLOCK = 16 * BLOCK_BYTES
"""A block ends when it is so long, however much of the file the index takes."""

_SHARE = 40
"""The index takes one of so many parts of the file, or about that: 2.5 %."""

_ROW_BYTES = 48
"""Bytes of a block in the index beside its seed."""

_SEEDS_IN_MEMORY = 16 << 20


class _Mark(NamedTuple):
    """A checkpoint behind which no record has begun yet."""

    bit: int
    raw: int


class IndexingInflater:
    """A GZIP or ZLIB stream of records, fed in pieces, that gives what it inflates.

    Behind `finish`, `built` is the index. `failure` says why there is none although the stream was
    inflated: its records do not follow one another to its end.
    """

    def __init__(self, codec: str, *, url: str, max_record_bytes: int) -> None:
        self._codec = codec
        self._inflater = Inflater(codec)
        self._records = HeaderWalker(url, max_record_bytes)
        self._check = _MemberCheck(codec)
        self._raw = 0
        """Bytes of output so far."""
        self._stored = 0
        self._count = 0
        self.failure: Exception | None = None
        self._built: BuiltIndex | None = None
        self._bits, self._skips, self._stops, self._crcs = [0], [0], list[int](), list[int]()
        self._raw_offsets, self._counts = [0], [0]
        self._seeds = tempfile.SpooledTemporaryFile(_SEEDS_IN_MEMORY)  # noqa: SIM115
        self._seed_ends = [0, 0]  # of the first block, whose checkpoint needs none
        self._mark: _Mark | None = None
        self._header: tuple[bytes, int] | None = None
        """The header of the last checkpoint, while its window is watched."""
        self._crc = 0
        """CRC of the bytes of the block that is open."""

    def __del__(self) -> None:
        if hasattr(self, "_seeds"):
            self._seeds.close()

    def feed(self, data: BytesLike) -> Iterator[bytes]:
        """The output of these bytes. StreamError for damage."""
        self._inflater.feed(data)
        self._stored += len(memoryview(data))
        return self._run()

    def finish(self) -> Iterator[bytes]:
        """The output at the end of the data. StreamError (``truncated``) if it ends too early."""
        self._inflater.finish()
        yield from self._run()
        self._end()

    @property
    def offset(self) -> int:
        """Bytes of output so far."""
        return self._raw

    def built(self) -> BuiltIndex | None:
        """The index, if all of the stream was read and is one of records."""
        return self._built

    # Inflating

    def _run(self) -> Iterator[bytes]:
        while True:
            limit, exact = self._step()
            piece = self._read(limit, exact)
            if piece:
                self._check.add(piece)
                self._follow(piece)
            status = self._inflater.status
            if status == "member":
                assert self._inflater.member is not None
                self._check.end(*self._inflater.member)
            elif status == "limit" and exact and self.failure is None:
                self._place()
            if piece:
                yield piece
            if status == "end" or (status == "more" and not piece):
                return

    def _read(self, limit: int, exact: bool) -> bytes:
        try:
            return self._inflater.read(limit, exact=exact)
        except EOFError:
            reason = f"the {self._codec} data ends too early"
            raise StreamError(reason, truncated=True) from None
        except ValueError as error:
            raise StreamError(f"the {self._codec} data do not decode ({error})") from None

    def _step(self) -> tuple[int, bool]:
        """How much to inflate next, and whether it must not be more."""
        next_record, begun = self._records.next_header, self._raw_offsets[-1]
        if self.failure is not None:
            return _PIECE, False
        if self._mark is not None:  # no record has begun behind it: see the next header
            return max(1, next_record + HEADER_BYTES - self._raw), False
        if self._raw < begun:  # to the end of the block before
            return begun - self._raw, False
        if not self._may_cut():
            return max(1, min(_PIECE, begun + BLOCK_BYTES - self._raw)), False
        if next_record < self._raw:
            return 0, True  # the header of the next record is cut: set a mark before the rest
        ahead = next_record - self._raw
        return (ahead, True) if ahead <= _PIECE else (_PIECE, False)

    def _may_cut(self) -> bool:
        nbytes = self._raw - self._raw_offsets[-1]
        if nbytes < BLOCK_BYTES or self._header is not None:
            return False
        last = self._seed_ends[-1] - self._seed_ends[-2]
        spent = self._seed_ends[-1] + last + _ROW_BYTES * (len(self._bits) + 1)
        return nbytes >= _MOST_BLOCK or spent * _SHARE <= self._inflater.bit >> 3

    # Checkpoints

    def _place(self) -> None:
        """Make the place where the inflater stands a checkpoint, if a record begins soon."""
        bit, header, bits = self._inflater.mark()
        self._header = header, bits
        self._mark = _Mark(bit, self._raw)
        self._settle()
        self._add(memoryview(b""), self._raw)

    def _settle(self) -> None:
        """Take the checkpoint when the next record is known, or drop it if that is far away."""
        mark, record = self._mark, self._records.next_header
        if mark is None or record < mark.raw:
            return
        self._mark = None
        if record - mark.raw > MOST_SKIP:
            self._header = None
            return
        self._counts.append(self._count)
        self._raw_offsets.append(record)
        self._bits.append(mark.bit)
        self._skips.append(record - mark.raw)

    def _follow(self, piece: bytes) -> None:
        """Take note of the next bytes of output."""
        start, self._raw = self._raw, self._raw + len(piece)
        if self.failure is not None:
            return
        try:
            self._records.feed(start, memoryview(piece))
        except (DataLossError, RecordTooLargeError) as error:
            self.failure = error
            return
        self._count += self._records.take_count()
        self._settle()
        self._add(memoryview(piece), start)
        if self._header is not None and self._mark is None and self._inflater.watched:
            self._keep_seed()

    def _add(self, piece: memoryview, start: int) -> None:
        """Add bytes to the sum of the block that they are of. Behind its last one it is closed."""
        begun = self._raw_offsets[-1]
        if len(self._crcs) < len(self._bits) - 1 and self._raw >= begun:
            self._crcs.append(crc32c(piece[: begun - start], self._crc))
            self._stops.append((self._inflater.bit + 7) >> 3)
            piece, self._crc = piece[begun - start :], 0
        self._crc = crc32c(piece, self._crc)

    def _keep_seed(self) -> None:
        """Write the seed of the last checkpoint, all of which is known now."""
        assert self._header is not None
        (header, bits), self._header = self._header, None
        seed = pack_seed(header, bits, self._inflater.window()) if bits else b""
        self._seeds.write(seed)
        self._seed_ends.append(self._seed_ends[-1] + len(seed))

    def _end(self) -> None:
        if self.failure is not None:
            return
        try:
            self._records.end(self._raw)
        except DataLossError as error:
            self.failure = error
            return
        if self._header is not None:
            self._keep_seed()
        if self._counts[-1] < self._count:
            self._stops.append(self._stored)
            self._crcs.append(self._crc)
            self._raw_offsets.append(self._raw)
            self._counts.append(self._count)
        n = len(self._counts) - 1  # a checkpoint at the very end has no record behind it
        self._stops[n - 1 : n] = [self._stored] if n else []
        self._built = BuiltIndex(
            self._codec,
            self._stored,
            np.array(self._bits[:n], np.int64),
            np.array(self._stops[:n], np.int64),
            np.array(self._raw_offsets, np.int64),
            np.array(self._counts, np.int64),
            np.array(self._seed_ends[: n + 1], np.int64),
            np.array(self._skips[:n], np.uint32),
            np.array(self._crcs[:n], np.uint32),
            self._seeds,
        )


class _MemberCheck:
    """Compares what a member inflates to with the checksum behind it."""

    def __init__(self, codec: str) -> None:
        self._gzip = codec == "GZIP"
        self._begin()

    def _begin(self) -> None:
        self._sum, self._nbytes = 0 if self._gzip else 1, 0

    def add(self, data: bytes) -> None:
        self._sum = zlib.crc32(data, self._sum) if self._gzip else zlib.adler32(data, self._sum)
        self._nbytes += len(data)

    def end(self, checksum: int, nbytes: int) -> None:
        """StreamError unless these are what was added since the last end."""
        if checksum != self._sum:
            raise StreamError("the checksum behind the compressed data does not hold")
        if self._gzip and nbytes != self._nbytes & 0xFFFFFFFF:
            raise StreamError("the length behind the compressed data does not hold")
        self._begin()
