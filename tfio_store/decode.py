"""Fetched ranges to located batches: decompression, checks, splitting into records.

Streams are decoded in order, in the caller's thread. Compressed blocks are independent: they are
decompressed by a few threads ahead of their use, and handed out in order all the same.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tfio_store.compression import Decompressor, StreamError, detect
from tfio_store.dataset import Dataset, decode_block
from tfio_store.errors import CorruptRecordError, DataLossError, TruncatedRecordError
from tfio_store.framing import RecordBatch, RecordDecoder
from tfio_store.plan import Piece, Unit
from tfio_store.recovery import RecoveringDecoder, SkippedRegion

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Decoding", "Located", "decode"]

OnSkip: TypeAlias = "Callable[[SkippedRegion], None] | None"

_RAW_PIECE = 1 << 20
"""How much is decompressed at a time: small enough for a core's cache."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. ``on_skip`` None: damage raises."""

    verify: bool
    max_record_bytes: int
    on_skip: OnSkip = None


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

    def offset(self, index: int) -> int | None:
        """Stream offset of record ``index``'s frame (of the end of the last, for
        ``len(batch)``)."""
        if self.base is None:
            return None
        if index < len(self.batch):
            return self.base + int(self.batch.offsets[index]) - 12
        return self.base + _end(self.batch)


def decode(
    dataset: Dataset, pieces: Iterable[tuple[Piece, BytesLike]], how: Decoding
) -> Iterator[Located]:
    """Located batches of the pieces, in order. Empty ones are left out."""
    stream: _Stream | None = None
    with _BlockDecoders(dataset, how) as blocks:
        for piece, data in pieces:
            if piece.units[0].block is not None:
                yield from blocks.feed(piece, data)
                continue
            yield from blocks.drain()
            if piece.first or stream is None:
                stream = _Stream(dataset, piece, how)
            yield from stream.feed(data)
            if piece.last:
                yield from stream.finish()
        yield from blocks.drain()


class _Stream:
    """One shard, fed in order from its beginning (or, raw, from some record's offset)."""

    def __init__(self, dataset: Dataset, piece: Piece, how: Decoding) -> None:
        self._shard = dataset.shards[piece.units[0].shard]
        self._position = piece.position
        self._how = how
        self._codec = self._shard.compression
        self._known = self._codec != "auto"
        if piece.start:
            self._codec, self._known = None, True
        self._decompressor: Decompressor | None = None
        self._frames = _frame_decoder(how, self._shard.url, piece.start)
        self._records = 0
        self._lost = False

    def feed(self, data: BytesLike) -> Iterator[Located]:
        if not self._known:
            self._codec, self._known = detect(data), True
        if self._codec is None:
            yield from self._located(self._frames.feed(data))
            return
        if self._lost:
            return
        if self._decompressor is None:
            self._decompressor = Decompressor(self._codec)
        self._decompressor.feed(data)
        while raw := self._decompress(self._decompressor):
            yield from self._located(self._frames.feed(raw))

    def _decompress(self, decompressor: Decompressor) -> bytes:
        try:
            return decompressor.read(_RAW_PIECE)
        except StreamError as error:
            self._fail(error)
            return b""

    def _fail(self, error: StreamError) -> None:
        """The compressed stream is damaged: nothing behind the damage can be had."""
        url, offset = self._shard.url, self._frames.offset
        if self._how.on_skip is None:
            kind = TruncatedRecordError if error.truncated else CorruptRecordError
            raise kind(str(error), path=url, offset=offset) from error
        self._lost = True
        self._how.on_skip(SkippedRegion(url, offset, None, str(error)))

    def finish(self) -> Iterator[Located]:
        if self._decompressor is not None and not self._lost:
            try:
                self._decompressor.finish()
            except StreamError as error:
                self._fail(error)
        if not self._lost:
            yield from self._located(self._frames.finish())

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
    if how.on_skip is None:
        return RecordDecoder(**options)
    return RecoveringDecoder(how.on_skip, **options)


def _end(batch: RecordBatch) -> int:
    """Where in its buffer the last frame of a batch ends."""
    return int(batch.offsets[-1]) + int(batch.lengths[-1]) + 4


@dataclass(frozen=True, slots=True)
class _Decoded:
    located: Located
    skipped: tuple[SkippedRegion, ...] = ()


class _BlockDecoders:
    """Blocks in, located batches out, in order. A context: leaving it ends the threads."""

    def __init__(self, dataset: Dataset, how: Decoding) -> None:
        self._dataset = dataset
        self._how = how
        self._workers = os.cpu_count() or 1
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[_Decoded]] = deque()

    def __enter__(self) -> _BlockDecoders:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

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
            self._waiting.append(
                self._threads().submit(self._decode, piece.position + i, unit, stored)
            )

    def drain(self) -> Iterator[Located]:
        while self._waiting:
            yield from self._out(self._waiting.popleft().result())

    def _out(self, decoded: _Decoded) -> Iterator[Located]:
        # reported here and not where it was found: the caller's function runs in the caller's
        # thread
        for region in decoded.skipped:
            assert self._how.on_skip is not None
            self._how.on_skip(region)
        if len(decoded.located.batch):
            yield decoded.located

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="tfio_store-decode")
        return self._pool

    def _decode(self, position: int, unit: Unit, data: memoryview) -> _Decoded:
        assert unit.block is not None
        how, shard = self._how, self._dataset.shards[unit.shard]
        try:
            batch = decode_block(
                shard, unit.block, data, verify=how.verify, max_record_bytes=how.max_record_bytes
            )
        except DataLossError as error:
            if how.on_skip is None:
                raise
            return self._recover(position, unit, data, error)
        return _Decoded(Located(batch, position, 0))

    def _recover(
        self, position: int, unit: Unit, data: memoryview, error: DataLossError
    ) -> _Decoded:
        """What a damaged block still holds: of a compressed one nothing, of a raw one all that
        checks out."""
        block, shard = unit.block, self._dataset.shards[unit.shard]
        assert block is not None
        if shard.compression is not None:
            length = block.raw_stop - block.raw_start
            lost = SkippedRegion(shard.url, block.raw_start, length, error.reason)
            return _Decoded(Located(RecordBatch(b"", [], []), position, 0), (lost,))
        skipped: list[SkippedRegion] = []
        decoder = RecoveringDecoder(
            skipped.append,
            verify=self._how.verify,
            max_record_bytes=self._how.max_record_bytes,
            path=shard.url,
            offset=block.raw_start,
        )
        batches = (decoder.feed(data), decoder.finish())
        batch = RecordBatch.from_records(record for batch in batches for record in batch)
        return _Decoded(Located(batch, position, 0), tuple(skipped))
