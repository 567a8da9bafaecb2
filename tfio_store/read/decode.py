"""Fetched ranges to located batches: decompression, checks, splitting into records.

Streams are decoded in order, in the caller's thread. Compressed blocks are independent: they are
decompressed by the process's threads for that ahead of their use, and handed out in order all the
same. Who drops the iterator leaves the few blocks that are under way to end unseen.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tfio_store.dataset.model import Dataset, decode_block
from tfio_store.errors import CorruptRecordError, DataLossError, ManifestError, TruncatedRecordError
from tfio_store.read.plan import Piece, Unit
from tfio_store.read.recover_block import recover_block
from tfio_store.read.skips import Skips
from tfio_store.records.compression import Decompressor, StreamError
from tfio_store.records.framing import RecordBatch, RecordDecoder
from tfio_store.records.lookalike import HEAD_BYTES, hint
from tfio_store.records.magic import begins_raw, detect
from tfio_store.records.past_damage import Gap, RecoveringDecompressor
from tfio_store.records.recovery import RecoveringDecoder, SkippedRegion
from tfio_store.storage import threads

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["NO_OFFSET", "Decoding", "Located", "decode"]

NO_OFFSET = -1
"""In the place of an offset where records can't be reached by one."""

_RAW_PIECE = 1 << 20
"""How much is decompressed at a time: small enough for a core's cache."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. ``skips`` None: damage raises."""

    verify: bool
    max_record_bytes: int
    skips: Skips | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A batch and where it stands: at ``position`` of the reader's order, behind ``records``
    records of that unit.

    ``base`` is the stream offset of the batch's buffer where the unit is a stream of raw records,
    so that a reader can come back to any record by its offset; else None.
    """

    batch: RecordBatch
    position: int
    records: int
    base: int | None = None

    def offset(self, index: int) -> int:
        """Stream offset of record ``index``'s frame (of the end of the last, for
        ``len(batch)``); `NO_OFFSET` without a base."""
        if self.base is None:
            return NO_OFFSET
        if index < len(self.batch):
            return self.base + int(self.batch.offsets[index]) - 12
        return self.base + _end(self.batch)


def decode(
    dataset: Dataset, pieces: Iterable[tuple[Piece, BytesLike]], how: Decoding
) -> Iterator[Located]:
    """Located batches of the pieces, in order. Empty ones are left out."""
    stream: _Stream | None = None
    blocks = _BlockDecoders(dataset, how)
    for piece, data in pieces:
        if piece.units[0].block is not None:
            yield from blocks.feed(piece, data)
            continue
        yield from blocks.drain()
        if piece.first or stream is None:
            stream = _Stream(dataset, piece, how)
        yield from stream.feed(piece, data)
        if piece.last or stream.must_end:
            yield from stream.finish()
    yield from blocks.drain()


class _Stream:
    """One shard, fed in order from its beginning (or, raw, from some record's offset)."""

    def __init__(self, dataset: Dataset, piece: Piece, how: Decoding) -> None:
        self._shard = dataset.shards[piece.units[0].shard]
        self._position = piece.position
        self._how = how
        self._skips_before = 0 if how.skips is None else how.skips.count
        self._start = self._stored = piece.start
        self._missing = 0
        """Bytes that the file should have and has not."""
        self._codec = self._shard.compression
        self._known = self._codec != "auto"
        if piece.start:
            self._codec, self._known = None, True
        self._inflater: _Inflater | RecoveringDecompressor | None = None
        self._contradiction = ""
        """How the first bytes belie the codec that was named, to be put behind an error."""
        self._frames = _frame_decoder(how, self._shard.url, piece.start)
        self._records = 0

    @property
    def must_end(self) -> bool:
        """Whether there is no use in feeding more: the file has ended, and that is an error."""
        return self._missing > 0 and self._how.skips is None

    def feed(self, piece: Piece, data: BytesLike) -> Iterator[Located]:
        nbytes = len(memoryview(data))
        if not self._missing:  # else the file has ended before
            self._stored += nbytes
            yield from self._feed(data)
        self._missing += piece.stop - piece.start - nbytes

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
            whole = 1 if self._start == 0 else 0
            self._how.skips.read(self._shard.url, self._records, parts=whole)

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
        base = None if self._codec is not None else self._frames.offset - _end(batch)
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
    """A `Decompressor` as a stream has it: what comes out of each piece."""

    def __init__(self, codec: str) -> None:
        self._decompressor = Decompressor(codec)

    def feed(self, data: BytesLike) -> Iterator[bytes]:
        self._decompressor.feed(data)
        while raw := self._decompressor.read(_RAW_PIECE):
            yield raw

    def finish(self) -> Iterator[bytes]:
        self._decompressor.finish()
        yield from ()


def _end(batch: RecordBatch) -> int:
    """Where in its buffer the last frame of a batch ends."""
    return int(batch.offsets[-1]) + int(batch.lengths[-1]) + 4


@dataclass(frozen=True, slots=True)
class _Decoded:
    located: Located
    url: str
    parts: int
    """How many blocks the file has."""
    skipped: tuple[SkippedRegion, ...]


@cache
def _cores() -> int:
    # asked once: to ask takes a good part of the time that a tiny file does
    return os.cpu_count() or 1


class _BlockDecoders:
    """Blocks in, located batches out, in order."""

    def __init__(self, dataset: Dataset, how: Decoding) -> None:
        self._dataset = dataset
        self._how = how
        self._workers = _cores()
        self._waiting: deque[Future[_Decoded]] = deque()

    def feed(self, piece: Piece, data: BytesLike) -> Iterator[Located]:
        view = memoryview(data)
        for i, unit in enumerate(piece.units):
            assert unit.block is not None
            stored = view[unit.block.start - piece.start : unit.block.stop - piece.start]
            if self._dataset.shards[unit.shard].compression is None:
                yield from self.drain()
                yield from self._out(self._decode(piece.position + i, unit, stored))
                continue
            while len(self._waiting) >= 2 * self._workers:
                yield from self._out(self._waiting.popleft().result())
            pool = threads.pool("decode", self._workers)
            self._waiting.append(pool.submit(self._decode, piece.position + i, unit, stored))

    def drain(self) -> Iterator[Located]:
        while self._waiting:
            yield from self._out(self._waiting.popleft().result())

    def _out(self, decoded: _Decoded) -> Iterator[Located]:
        # reported here and not where it was found: the caller's function runs in the caller's
        # thread
        batch, skips = decoded.located.batch, self._how.skips
        if skips is not None:
            for region in decoded.skipped:
                skips(region)
            skips.read(decoded.url, len(batch), parts=decoded.parts)
        if len(batch):
            yield decoded.located

    def _decode(self, position: int, unit: Unit, data: memoryview) -> _Decoded:
        block, how, shard = unit.block, self._how, self._dataset.shards[unit.shard]
        assert block is not None
        assert shard.blocks is not None
        limits: dict[str, Any] = {"verify": how.verify, "max_record_bytes": how.max_record_bytes}
        skipped: list[SkippedRegion] = []
        try:
            batch = decode_block(shard, block, data, **limits)
        except DataLossError:
            if how.skips is None:
                raise
            batch, skipped = recover_block(shard.url, shard.compression, data, block, **limits)
        located = Located(batch, position, 0)
        return _Decoded(located, shard.url, len(shard.blocks), tuple(skipped))
