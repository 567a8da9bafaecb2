"""One shard, or one open file object, as a stream of records in order."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, BinaryIO

import numpy as np
from typing_extensions import Buffer as BytesLike, TypeIs

from tfio_store.dataset.inflate.build import IndexingInflater
from tfio_store.dataset.inflate.index import BuiltIndex
from tfio_store.dataset.model import Dataset, Shard, Shards
from tfio_store.errors import ManifestError, Reason
from tfio_store.read.decode import Decoding, Located, end_of, other_records
from tfio_store.read.spans import StreamPart
from tfio_store.records.compression import (
    CODECS,
    Decompressor,
    StreamError,
    begins_raw,
    can_be_indexed,
    codec_name,
    detect,
)
from tfio_store.records.damage import (
    CUT,
    HEAD_BYTES,
    damaged,
    ends_before,
    hint,
    other_codec,
)
from tfio_store.records.framing import (
    HEADER_BYTES,
    Buffer,
    RecordBatch,
    RecordDecoder,
    Scan,
    crc32c,
    frame_of,
)
from tfio_store.records.recovery import (
    Gap,
    RecoveringDecoder,
    RecoveringDecompressor,
    SkippedRegion,
)
from tfio_store.storage.read_ahead import Meter

__all__ = ["FileStream", "StreamReader", "is_file_object", "metered"]

_NONE = np.zeros(0, np.int64)
_RAW_PIECE = 1 << 20
"""Bytes to decompress at a time: few enough for a core's cache."""


class StreamReader:
    """One shard, fed in order from its beginning (or, raw, from some record's offset)."""

    def __init__(self, shard: Shard, part: StreamPart, how: Decoding) -> None:
        self._shard = shard
        self._number, self._position = part.shard, part.position
        self._how = how
        self._skips_before = 0 if how.skips is None else how.skips.count
        self._start, self._stored = max(part.start, part.wanted), part.start
        self._missing = 0
        """Bytes that the file should have and has not."""
        self._codec = self._shard.compression
        self._known = self._codec != "auto"
        if self._start:
            self._codec, self._known = None, True
        self._inflater: _Inflater | IndexingInflater | RecoveringDecompressor | None = None
        self._contradiction = ""
        """Say how the first bytes contradict the named codec, to append to an error."""
        self._told = _Told(shard, part, how)
        self._frames = _frame_decoder(how, self._shard.url, part.start, self._told.summed)
        self._records = 0
        self._held: list[Located] = []
        """Records of a block that is not compared yet."""

    @property
    def must_end(self) -> bool:
        """Whether feeding more is useless: the file has ended, and that is an error."""
        return self._missing > 0 and self._how.skips is None

    def feed(
        self, part: StreamPart, data: BytesLike, scanned: Scan | None = None
    ) -> Iterator[Located]:
        """The records that a part completes. ``scanned``: those that were found in it already."""
        nbytes = len(memoryview(data))
        if not self._missing:  # else the file has ended before
            self._stored += nbytes
            self._told.feed(data)
            if not self._known:
                self._codec, self._known = detect(data), True
            if self._codec is None:
                for batch in self._framed(part, data, scanned):
                    self._held += self._located(batch)
                skipped = 0 if self._how.skips is None else self._how.skips.count
                if self._told.compare(self._frames, self._stored, skipped):
                    held, self._held = self._held, []
                    yield from held
            else:
                if self._inflater is None:
                    self._inflater = self._begin_inflating(self._codec)
                    self._contradiction = _contradiction(self._codec, data)
                yield from self._inflated(self._inflater.feed(data))
        self._missing += part.stop - part.start - nbytes

    def _framed(
        self, part: StreamPart, data: BytesLike, scanned: Scan | None
    ) -> Iterator[RecordBatch]:
        if scanned is None:
            yield self._frames.feed(data)
            return
        view, begin = memoryview(data), frame_of(scanned)
        if begin:
            yield self._frames.feed(view[:begin])
        if isinstance(self._frames, RecordDecoder) and self._frames.failed:
            return  # the next call says so, behind these records
        if self._frames.take(scanned, part.start + begin, part.summed):
            yield scanned.batch
            begin = scanned.end
        if begin < len(view):
            yield self._frames.feed(view[begin:])

    def _begin_inflating(self, codec: str) -> _Inflater | IndexingInflater | RecoveringDecompressor:
        if self._how.skips is None:
            if self._how.on_indexed is None or not can_be_indexed(codec):
                return _Inflater(codec)
            limit = self._how.max_record_bytes
            return IndexingInflater(codec, url=self._shard.url, max_record_bytes=limit)
        # a damaged member gives wrong bytes before it fails: only the records' checksums show it
        how = replace(self._how, verify=True)
        self._frames = _frame_decoder(how, self._shard.url, 0)
        return RecoveringDecompressor(CODECS[codec])

    def _inflated(self, pieces: Iterator[bytes | Gap]) -> Iterator[Located]:
        while (piece := self._next_of(pieces)) is not None:
            if isinstance(piece, Gap):
                assert isinstance(self._frames, RecoveringDecoder)
                if self._contradiction:
                    reason = piece.reason + self._contradiction
                    piece = replace(piece, reason=reason, kind=Reason.OTHER_FORMAT)
                batch = self._frames.interrupt(piece)
                yield from self._located(batch)
            else:
                yield from self._located(self._frames.feed(piece))

    def _next_of(self, pieces: Iterator[bytes | Gap]) -> bytes | Gap | None:
        # not where it yields: at the end of the program a generator may be closed when the name
        # of the error is gone
        try:
            return next(pieces, None)
        except StreamError as error:
            made = damaged(
                error.kind,
                str(error) + self._contradiction,
                path=self._shard.url,
                offset=self._frames.offset,
            )
            if self._contradiction:
                made.kind = Reason.OTHER_FORMAT
            raise made from error

    def finish(self) -> Iterator[Located]:
        if not self.must_end:  # else nobody can tell whose records those of the last block are
            yield from self._held
        if self._inflater is not None:
            yield from self._inflated(self._inflater.finish())
        yield from self._located(self._frames.finish())
        if self._missing:
            self._end_early()
        else:
            if self._how.skips is None or self._how.skips.count == self._skips_before:
                self._told.compare_all(self._frames)
            if self._start == 0:
                self._check_count()
            if isinstance(self._inflater, IndexingInflater):
                self._save_index(self._inflater.built())
        if self._how.skips is not None:
            whole = self._start == 0
            self._how.skips.read(self._shard.url, self._records, parts=1, whole=whole)

    def _save_index(self, built: BuiltIndex | None) -> None:
        if built is not None and self._how.on_indexed is not None and self._codec is not None:
            self._how.on_indexed(self._number, self._codec, built)

    def _end_early(self) -> None:
        text = ends_before(self._stored, self._stored + self._missing) + CUT
        if self._how.skips is None:
            offset = self._frames.offset
            raise damaged(Reason.SHORT_FILE, text, path=self._shard.url, offset=offset)
        region = SkippedRegion(
            self._shard.url, self._stored, self._missing, text, kind=Reason.SHORT_FILE
        )
        if self._codec is not None:
            offset = self._frames.offset
            region = replace(region, offset=offset, length=None, stored_length=self._missing)
        self._how.skips(region)

    def _check_count(self) -> None:
        expected, skips = self._shard.records, self._how.skips
        if expected in (None, self._records):
            return
        text = f"holds {self._records} records where its manifest says {expected}"
        if skips is None:
            raise ManifestError(f"{self._shard.url}: {text}")
        if skips.count == self._skips_before:
            skips(SkippedRegion(self._shard.url, self._frames.offset, None, text))

    def _located(self, batch: RecordBatch | None) -> Iterator[Located]:
        if batch is None or not len(batch):
            return
        base = None if self._codec is not None else self._frames.offset - end_of(batch)
        if base is not None and self._start > base:
            first = int(np.searchsorted(batch.offsets + (base - HEADER_BYTES), self._start))
            batch = batch[first:]
            if not len(batch):
                return
        yield Located(batch, self._position, self._records, base)
        self._records += len(batch)


class _Told:
    """Compares a shard's stream with what its manifest and index say.

    An index that has sums knows what is in each block. Without, the CRC32C of all bytes is taken.
    """

    def __init__(self, shard: Shard, part: StreamPart, how: Decoding) -> None:
        table = shard.blocks
        self._shard = shard
        self._sums = None if table is None else table.sums
        self._ends = table.offsets if table is not None and shard.compression is None else _NONE
        self._from = part.start
        self._at = 0 if self._sums is None else int(np.searchsorted(self._ends, part.start))
        """The first block that does not end before the stream's next byte, when that is asked."""
        whole = shard.crc32c is not None and not shard.is_part and not part.start
        strict = how.verify and how.skips is None
        self._crc = 0 if whole and strict and self._sums is None else None
        self._skipped_before = self._skipped = 0 if how.skips is None else how.skips.count
        """Regions that were passed over before the block that is compared next."""
        self.summed = self._sum_at(part.start) or 0
        """The sum of the records before the stream's first."""

    def _sum_at(self, offset: int) -> int | None:
        """The sum of the records before this byte, if a block ends there. Bytes are asked for as
        they rise: a step costs less than a search."""
        if self._sums is None:
            return None
        while self._at < len(self._ends) and self._ends[self._at] < offset:
            self._at += 1
        ends = self._at < len(self._ends) and self._ends[self._at] == offset
        return int(self._sums[self._at]) if ends else None

    def feed(self, data: BytesLike) -> None:
        """Take the next stored bytes."""
        if self._crc is not None:
            self._crc = crc32c(data, self._crc)

    def compare(self, frames: RecordDecoder | RecoveringDecoder, offset: int, skipped: int) -> bool:
        """Whether the records before this byte are as expected, or unknown. False if the end of
        their block will decide. Raise if they are others. The decoder reports damage, and
        ``skipped`` counts it."""
        if self._sums is None or (isinstance(frames, RecordDecoder) and frames.failed):
            return True
        summed = self._sum_at(offset)
        if summed is None:
            return False
        damaged = skipped != self._skipped
        if isinstance(frames, RecoveringDecoder):
            moved = skipped != self._skipped_before and frames.offset != offset  # bytes were lost
            damaged = damaged or moved or not frames.is_sound
        if not damaged and (frames.offset, frames.summed) != (offset, summed):
            raise other_records(self._shard.url, self._from)
        frames.summed, self._skipped = summed, skipped
        self._from = offset
        return True

    def compare_all(self, frames: RecordDecoder | RecoveringDecoder) -> None:
        """Raise if the records of all of the stream, of which none is damaged, are others."""
        others = self._sums is not None and frames.summed != int(self._sums[-1])
        if others or self._crc not in (None, self._shard.crc32c):
            raise other_records(self._shard.url, self._from)


def _frame_decoder(
    how: Decoding, url: str, offset: int, summed: int = 0
) -> RecordDecoder | RecoveringDecoder:
    decoder = RecordDecoder if how.skips is None else partial(RecoveringDecoder, how.skips)
    return decoder(
        verify=how.verify,
        max_record_bytes=how.max_record_bytes,
        path=url,
        offset=offset,
        summed=summed,
    )


def _contradiction(codec: str, first_bytes: BytesLike) -> str:
    head = bytes(memoryview(first_bytes)[:HEAD_BYTES])
    found = detect(head)
    if found == codec:
        return ""
    if found is None and not begins_raw(head):
        return hint(head)
    return other_codec(found)


class _Inflater:
    """A `Decompressor` for a stream: it gives what comes out of each piece."""

    def __init__(self, codec: str) -> None:
        self._decompressor = Decompressor(codec)

    def feed(self, data: BytesLike) -> Iterator[bytes]:
        self._decompressor.feed(data)
        while raw := self._decompressor.read(_RAW_PIECE):
            yield raw

    def finish(self) -> Iterator[bytes]:
        self._decompressor.finish()
        yield from ()


# Open binary file objects as a source: one stream, read from where it stands.


_CHUNK = 1 << 20


def is_file_object(source: object) -> TypeIs[BinaryIO]:
    """Whether one can read bytes from this object. TypeError for a file of text."""
    if isinstance(source, io.TextIOBase):
        raise TypeError(
            "source= is a file that was opened as text; open it as bytes: open(path, 'rb')"
        )
    return callable(getattr(source, "read", None))


class FileStream:
    """An open file from where it stood when it was handed over."""

    def __init__(self, file: BinaryIO, compression: str | None) -> None:
        self._file = file
        self._origin = file.tell() if _seekable(file) else None
        name = getattr(file, "full_name", None) or getattr(file, "name", None)
        url = str(name) if name is not None else "<file object>"
        codec = compression if compression == "auto" else codec_name(compression)
        self.dataset = Dataset(Shards([Shard(url, 0, codec)]))
        self._stands = 0
        """How many bytes of the stream were read, or passed over."""

    def parts(self, start: int) -> Iterator[tuple[StreamPart, BytesLike]]:
        """The stream's bytes in parts, from byte ``start`` of it on."""
        if start != self._stands:
            self._seek(start)
        chunk, first = self._next(), True
        while True:
            following = self._next() if chunk else chunk
            stop = start + len(chunk)
            yield StreamPart(0, 0, start, stop, first=first, last=not following), chunk
            if not following:
                return
            start, first, chunk = stop, False, following

    def _seek(self, offset: int) -> None:
        if self._origin is None:
            raise ValueError(
                f"{self.dataset.shards[0].url}: cannot go back: the file is not seekable"
            )
        self._file.seek(self._origin + offset)
        self._stands = offset

    def _next(self) -> memoryview:
        chunk = _read(self._file)
        self._stands += len(chunk)
        return chunk


def metered(
    parts: Iterator[tuple[StreamPart, BytesLike]], meter: Meter
) -> Iterator[tuple[StreamPart, BytesLike]]:
    """The parts of a file, which are counted."""
    while True:
        begun = monotonic()
        found = next(parts, None)
        if found is None:
            return
        meter.count(len(memoryview(found[1])), monotonic() - begun)
        yield found
        del found


def _seekable(file: BinaryIO) -> bool:
    seekable = getattr(file, "seekable", None)
    return bool(seekable is not None and seekable())


def _read(file: BinaryIO) -> memoryview:
    """The next megabyte, or what is left. It continues short reads, because a file object may give
    less than asked for at any time."""
    readinto = getattr(file, "readinto", None)
    buffer = Buffer(_CHUNK)
    view, got = memoryview(buffer), 0
    while got < _CHUNK:
        n = readinto(view[got:]) if readinto else _copy(file, view[got:])
        if n is None:
            raise BlockingIOError(
                f"{file!r}: is in non-blocking mode; reading needs a blocking file object"
            )
        if n == 0:
            break
        got += n
    return view[:got]


def _copy(file: BinaryIO, into: memoryview) -> int | None:
    data: Any = file.read(len(into))
    if data is None:
        return None
    if isinstance(data, str):
        raise TypeError(f"{file!r}: is open in text mode; open it with mode 'rb'")
    into[: len(data)] = data
    return len(data)
