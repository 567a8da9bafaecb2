"""One shard as a stream: decompressed and split into records in order, in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfio_store.dataset.model import Shard
from tfio_store.errors import CorruptRecordError, ManifestError, TruncatedRecordError
from tfio_store.read.located import Decoding, Located, end_of
from tfio_store.read.plan import StreamPart
from tfio_store.records.compression import Decompressor, StreamError
from tfio_store.records.framing import RecordBatch, RecordDecoder
from tfio_store.records.lookalike import HEAD_BYTES, hint
from tfio_store.records.magic import begins_raw, detect
from tfio_store.records.past_damage import Gap, RecoveringDecompressor
from tfio_store.records.recovery import RecoveringDecoder, SkippedRegion

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["StreamReader"]

_RAW_PIECE = 1 << 20
"""Bytes to decompress at a time: few enough for a core's cache."""


class StreamReader:
    """One shard, fed in order from its beginning (or, raw, from some record's offset)."""

    def __init__(self, shard: Shard, part: StreamPart, how: Decoding) -> None:
        self._shard = shard
        self._position = part.position
        self._how = how
        self._skips_before = 0 if how.skips is None else how.skips.count
        self._start = self._stored = part.start
        self._missing = 0
        """Bytes that the file should have and has not."""
        self._codec = self._shard.compression
        self._known = self._codec != "auto"
        if part.start:
            self._codec, self._known = None, True
        self._inflater: _Inflater | RecoveringDecompressor | None = None
        self._contradiction = ""
        """Say how the first bytes contradict the named codec, to append to an error."""
        self._frames = _frame_decoder(how, self._shard.url, part.start)
        self._records = 0

    @property
    def must_end(self) -> bool:
        """Whether feeding more is useless: the file has ended, and that is an error."""
        return self._missing > 0 and self._how.skips is None

    def feed(self, part: StreamPart, data: BytesLike) -> Iterator[Located]:
        nbytes = len(memoryview(data))
        if not self._missing:  # else the file has ended before
            self._stored += nbytes
            yield from self._feed(data)
        self._missing += part.stop - part.start - nbytes

    def _feed(self, data: BytesLike) -> Iterator[Located]:
        if not self._known:
            self._codec, self._known = detect(data), True
        if self._codec is None:
            yield from self._located(self._frames.feed(data))
            return
        if self._inflater is None:
            self._inflater = self._begin_inflating(self._codec)
            self._contradiction = _contradiction(self._codec, data)
        yield from self._inflated(self._inflater.feed(data))

    def _begin_inflating(self, codec: str) -> _Inflater | RecoveringDecompressor:
        if self._how.skips is None:
            return _Inflater(codec)
        # a damaged member gives wrong bytes before it fails: only the records' checksums tell
        how = replace(self._how, verify=True)
        self._frames = _frame_decoder(how, self._shard.url, 0)
        return RecoveringDecompressor(codec)

    def _inflated(self, pieces: Iterator[bytes | Gap]) -> Iterator[Located]:
        try:
            for piece in pieces:
                if isinstance(piece, Gap):
                    assert isinstance(self._frames, RecoveringDecoder)
                    reason = piece.reason + self._contradiction
                    batch = self._frames.interrupt(reason, piece.nbytes)
                    yield from self._located(batch)
                else:
                    yield from self._located(self._frames.feed(piece))
        except StreamError as error:
            kind = TruncatedRecordError if error.truncated else CorruptRecordError
            reason = str(error) + self._contradiction
            raise kind(reason, path=self._shard.url, offset=self._frames.offset) from error

    def finish(self) -> Iterator[Located]:
        if self._inflater is not None:
            yield from self._inflated(self._inflater.finish())
        yield from self._located(self._frames.finish())
        if self._missing:
            self._end_early()
        elif self._start == 0:
            self._check_count()
        if self._how.skips is not None:
            whole = self._start == 0
            self._how.skips.read(self._shard.url, self._records, parts=1, whole=whole)

    def _end_early(self) -> None:
        text = (
            f"the file ends at byte {self._stored}, {self._missing} bytes before the end that its "
            "listing or manifest tells of"
        )
        if self._how.skips is None:
            raise TruncatedRecordError(text, path=self._shard.url, offset=self._frames.offset)
        if self._codec is None:
            region = SkippedRegion(self._shard.url, self._stored, self._missing, text)
        else:
            offset = self._frames.offset
            region = SkippedRegion(self._shard.url, offset, None, text, self._missing)
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
        yield Located(batch, self._position, self._records, base)
        self._records += len(batch)


def _frame_decoder(how: Decoding, url: str, offset: int) -> RecordDecoder | RecoveringDecoder:
    options: dict[str, Any] = {
        "verify": how.verify,
        "max_record_bytes": how.max_record_bytes,
        "path": url,
        "offset": offset,
    }
    if how.skips is None:
        return RecordDecoder(**options)
    return RecoveringDecoder(how.skips, **options)


def _contradiction(codec: str, first_bytes: BytesLike) -> str:
    head = bytes(memoryview(first_bytes)[:HEAD_BYTES])
    found = detect(head)
    if found == codec:
        return ""
    if found is None and not begins_raw(head):
        return hint(head)
    return f"; the file looks like {found or 'raw'} records; leave compression= at its default"


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
