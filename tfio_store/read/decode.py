"""Turns the stored bytes of a block into records that know where they stand, and counts what is
skipped.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import MOST_BLOCK_BYTES
from tfio_store.dataset.inflate.checkpoints import CheckpointError, inflate_from
from tfio_store.dataset.inflate.index import REPAIR, BuiltIndex
from tfio_store.dataset.model import Block, Shard
from tfio_store.errors import (
    DataLossWarning,
    ManifestError,
    Reason,
    RecordTooLargeError,
    ReplacedError,
    printable,
)
from tfio_store.read.order import Cut
from tfio_store.records.compression import CODECS, StreamError, decompress_block
from tfio_store.records.damage import CUT, damaged, lacks, nothing_read
from tfio_store.records.framing import (
    FRAME_OVERHEAD,
    HEADER_BYTES,
    RecordBatch,
    RecordDecoder,
    crc32c,
)
from tfio_store.records.recovery import (
    Gap,
    RecoveringDecoder,
    RecoveringDecompressor,
    SkippedRegion,
)
from tfio_store.records.texts import warn
from tfio_store.storage.read_ahead import Meter
from tfio_store.storage.redaction import redacted

__all__ = [
    "NO_OFFSET",
    "Decoding",
    "FileSkips",
    "Located",
    "LocatedList",
    "OnCorrupt",
    "Skips",
    "check_policy",
    "decode_block",
    "end_of",
    "inflate_block",
    "other_records",
    "part_of",
    "recover_block",
    "within",
]


# Counts what was passed over in each file, and warns once for each.


OnCorrupt: TypeAlias = "str | Callable[[SkippedRegion], None]"


@dataclass(slots=True)
class FileSkips:
    """One file so far."""

    records: int = 0
    parts: int = 0
    regions: int = 0
    nbytes: int = 0
    stored: int = 0
    first: SkippedRegion | None = None
    reported: int = 0

    @property
    def untold(self) -> bool:
        """Whether there are regions that `say` has not reported."""
        return self.regions > self.reported

    def add(self, region: SkippedRegion) -> None:
        self.regions += 1
        self.nbytes += region.length or 0
        self.stored += region.stored_length
        if self.first is None or region.offset < self.first.offset:
            self.first = region  # blocks come in any order

    def end(self, url: str) -> None:
        """At the end of the file, warn of what was skipped. CorruptRecordError if there was nothing
        else."""
        if self.first is not None and not self.records:
            reason, offset = nothing_read(self.first.reason), self.first.offset
            raise damaged(self.first.kind, reason, path=url, offset=offset)
        self.say()

    def say(self) -> None:
        """Warn of all that was skipped, if part of it is untold."""
        if self.untold:
            self.reported = self.regions
            warn(str(self), DataLossWarning)

    def __str__(self) -> str:
        assert self.first is not None
        what = "1 damaged region" if self.regions == 1 else f"{self.regions} damaged regions"
        sizes = [f"{self.nbytes} bytes"] if self.nbytes or not self.stored else []
        sizes += [f"{self.stored} compressed bytes that do not inflate"] if self.stored else []
        return printable(
            f"{self.first.path}: {what} skipped, {' and '.join(sizes)}; the first at offset "
            f"{self.first.offset}: {self.first.reason}"
        )


class Skips:
    """Called with each damaged region. If the user gave a function, it is called, and nothing more.
    Otherwise each file gives one `DataLossWarning`, when it was read to its end or reading stopped.
    A file in which nothing could be read is an error.
    """

    def __init__(self, on_corrupt: OnCorrupt = "skip") -> None:
        self._tell = on_corrupt if callable(on_corrupt) else None
        self._files: dict[str, FileSkips] = {}
        self.count = 0
        """Regions so far."""

    def __call__(self, region: SkippedRegion) -> None:
        self.count += 1
        if self._tell is not None:
            self._tell(region)
        else:
            self._files.setdefault(region.path, FileSkips()).add(region)

    def read(self, url: str, records: int, *, parts: int, whole: bool) -> None:
        """Say that one of a file's ``parts`` was read, with so many good records. Behind the last
        one, warns of what was skipped; CorruptRecordError if there was nothing else, and the parts
        are the ``whole`` file.
        """
        if self._tell is not None:
            return
        file = self._files.setdefault(url, FileSkips())
        file.records += records
        file.parts += 1
        if file.parts < parts:
            return
        del self._files[url]
        if whole:
            file.end(url)
        else:
            file.say()

    def say(self) -> None:
        """Warn of what is still unsaid, because reading stops or begins anew."""
        for url in list(self._files):
            self._files.pop(url).say()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_files", None) and not is_finalizing():
            self.say()


def check_policy(on_corrupt: OnCorrupt) -> OnCorrupt:
    """ValueError for what ``on_corrupt=`` does not take."""
    if on_corrupt in ("raise", "skip") or callable(on_corrupt):
        return on_corrupt
    raise ValueError(f'on_corrupt= takes "raise", "skip" or a function, not {on_corrupt!r}')


# The options of decoders, and their results: batches that know where they stand.


NO_OFFSET = -1
"""Stands in place of an offset if records can't be reached by one."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. ``skips`` None: damage raises."""

    verify: bool
    max_record_bytes: int
    skips: Skips | None = None
    on_indexed: Callable[[int, str, BuiltIndex], None] | None = None
    """Called with the shard, the codec and the index of each GZIP or ZLIB stream that was read to
    its end: they are indexed as they are read."""


@dataclass(frozen=True, slots=True)
class Located:
    """A batch and where it stands: at ``position`` of the reader's order, behind ``records``
    records of that unit.

    If the unit is a stream of raw records, ``base`` is the stream offset of the batch's buffer: by
    it a reader comes back to any record. Otherwise it is None.
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
            return self.base + int(self.batch.offsets[index]) - HEADER_BYTES
        return self.base + end_of(self.batch)


@dataclass(frozen=True, slots=True)
class LocatedList:
    """Records of a raw file, each in memory of its own, and where they stand; as `Located`.

    ``start`` is the offset of the first one's frame, ``ends`` are those of the ends of all frames.
    """

    batch: list[bytes]
    position: int
    records: int
    start: int
    ends: list[int]

    @classmethod
    def of(cls, batch: list[bytes], position: int, records: int, start: int) -> LocatedList:
        end, ends = start, []
        for record in batch:
            end += len(record) + FRAME_OVERHEAD
            ends.append(end)
        return cls(batch, position, records, start, ends)

    def offset(self, index: int) -> int:
        """The offset of record ``index``'s frame; of the end of the last, for ``len(batch)``."""
        return self.ends[index - 1] if index else self.start


def within(batches: Iterable[Located], cuts: Mapping[int, Cut]) -> Iterator[Located]:
    """Keep only the records selected by ``cuts``, in the batches at their positions. They are
    counted from there on. No offset leads to them."""
    if not cuts:
        return iter(batches)
    return _within(batches, cuts)


def _within(batches: Iterable[Located], cuts: Mapping[int, Cut]) -> Iterator[Located]:
    with closing(batches):  # type: ignore[type-var]
        for located in batches:
            cut = cuts.get(located.position)
            if cut is None:
                yield located
                continue
            start, before = cut[0], located.records
            stop = before + len(located.batch) if cut[1] is None else cut[1]
            batch = located.batch[max(start - before, 0) : max(stop - before, 0)]
            if len(batch):
                yield Located(batch, located.position, max(before - start, 0))


def end_of(batch: RecordBatch) -> int:
    """Where in its buffer the last frame of a batch ends."""
    return int(batch.offsets[-1]) + int(batch.lengths[-1]) + 4


# Turns the stored bytes of one block into records: decompressed, checked, also past damage.


def decode_block(
    shard: Shard,
    block: Block,
    data: BytesLike,
    how: Decoding,
    seed: BytesLike = b"",
    took: Meter | None = None,
) -> RecordBatch:
    """The records of a block that are meant, from its stored ``data``, and from its ``seed`` if it
    is inflated from a checkpoint on. ``took`` counts the seconds.

    DataLossError with the shard's URL and the offset of the damage in the uncompressed stream;
    ReplacedError if it holds other records than its index says; ManifestError if another number
    of them.
    """
    nbytes = block.raw_stop - block.raw_start - FRAME_OVERHEAD
    limit = how.max_record_bytes
    if nbytes > MOST_BLOCK_BYTES + limit:  # before memory is taken for it
        raise RecordTooLargeError(
            path=shard.url, offset=block.raw_start, length=nbytes, limit=limit
        )
    decoder = RecordDecoder(
        verify=how.verify,
        max_record_bytes=limit,
        path=shard.url,
        offset=block.raw_start,
        summed=0 if block.sums is None else block.sums[0],
    )
    took, begun = took or Meter(), perf_counter()
    raw = inflate_block(shard.url, shard.compression, block, data, seed)
    took.inflate += (inflated := perf_counter()) - begun
    batch = decoder.feed(raw)
    took.scan += perf_counter() - inflated
    # also where a sound record goes on behind the block: its last one has ended with it
    if block.sums is not None and not decoder.failed and decoder.summed != block.sums[1]:
        raise other_records(shard.url, block.start)
    decoder.finish()
    if block.sums is None and how.verify and not _is_that_shard(shard, block, data):
        raise other_records(shard.url, block.start)
    held = block.before + block.records + block.behind
    if len(batch) != held:
        raise ManifestError(
            f"{shard.url}: the block at offset {block.start} holds {len(batch)} records where "
            f"its index says {held}; rebuild the index with tfio_store.build_index"
        )
    return part_of(batch, block)


def _is_that_shard(shard: Shard, block: Block, data: BytesLike) -> bool:
    """Whether the bytes are those that the manifest means, if the block is all of the shard."""
    if shard.crc32c is None or (block.start, block.stop) != (0, shard.nbytes):
        return True
    return crc32c(data) == shard.crc32c


def other_records(url: str, offset: int) -> ReplacedError:
    """The error for a file that holds other records than its index says, from this byte on."""
    return ReplacedError(
        errno.ESTALE,
        f"it holds other records than its manifest and index say (from byte {offset} on): the "
        "file or the manifest was replaced; open the source again, and if that does not help, see "
        "tfio_store.verify",
        url,
    )


def part_of(batch: RecordBatch, block: Block) -> RecordBatch:
    """Those of a block's records that are meant. Past damage, the sound records are counted from
    the block's beginning: parts of it that meet give each of them once."""
    if not block.before and not block.behind:
        return batch
    return batch[block.before : block.before + block.records if block.behind else len(batch)]


def inflate_block(
    url: str, codec: str | None, block: Block, data: BytesLike, seed: BytesLike = b""
) -> BytesLike:
    """The uncompressed bytes of a block, as many as it has. DataLossError as `decode_block`."""
    missing = block.stop - block.start - len(memoryview(data))
    if missing:
        raise damaged(Reason.SHORT_FILE, lacks("block", missing), path=url, offset=block.raw_start)
    try:
        if block.restart is None:
            return decompress_block(data, codec, nbytes=block.raw_stop - block.raw_start)
        raw, why = _inflated_from(codec, block, data, seed)
        if why is not None:
            raise StreamError(f"the {codec} data do not decode ({why})")
        return raw
    except StreamError as error:
        raise damaged(Reason.STREAM, str(error), path=url, offset=block.raw_start) from error


def _inflated_from(
    codec: str | None, block: Block, data: BytesLike, seed: BytesLike
) -> tuple[BytesLike, str | None]:
    """The bytes of a block that is inflated from a checkpoint on, and what is wrong with them.
    ManifestError where it is the index that is wrong: no record is damaged."""
    assert block.restart is not None
    assert codec is not None
    nbytes, point = block.raw_stop - block.raw_start, block.restart.point
    try:
        return inflate_from(point, seed, data, codec, start=block.start, nbytes=nbytes)
    except CheckpointError as error:
        raise ManifestError(f"{redacted(block.restart.address)}: {error}; {REPAIR}") from error


def recover_block(
    url: str,
    codec: str | None,
    block: Block,
    data: BytesLike,
    how: Decoding,
    seed: BytesLike = b"",
) -> tuple[RecordBatch, list[SkippedRegion]]:
    """The sound records in a block's stored ``data``, and the regions between them.

    A compressed block is decompressed as far as it goes, and its records are always verified. If
    the file ends too soon, the missing bytes are a region too. It uses only the block's places,
    stored and in the uncompressed stream, and its sums: ReplacedError where these show that the
    block is not damaged, but another. A compressed block with sums is one member, as the writer
    makes it. Behind damage no other member is looked for: it could only be another file's.
    """
    skipped: list[SkippedRegion] = []
    decoder = RecoveringDecoder(
        skipped.append,
        verify=how.verify or codec is not None,
        max_record_bytes=how.max_record_bytes,
        path=url,
        offset=block.raw_start,
        summed=0 if block.sums is None else block.sums[0],
    )
    ended = False
    if codec is None:
        batches = [decoder.feed(data)]
    elif block.restart is not None:
        batches = _restarted(decoder, codec, data, block, seed)
    else:
        batches, ended = _inflated(decoder, codec, data, block)
    batches.append(decoder.finish())
    missing = block.stop - block.start - len(memoryview(data))
    # a member that has ended lacks nothing: bytes are missing behind it only
    whole = block.sums is not None and (ended or not missing)
    # others may end members and frames anywhere, but a stream of a whole file with its last record
    cut = None if ended and codec is not None and not CODECS[codec].piece.ends else decoder.cut
    if whole and _is_another(decoder.summed, cut, block, skipped, moves=codec is not None):
        raise other_records(url, block.start)
    if missing and (codec is None or not skipped):
        skipped.append(_missing(url, codec, block, missing))
    return RecordBatch.from_records(record for batch in batches for record in batch), skipped


def _is_another(
    summed: int, cut: int | None, block: Block, skipped: list[SkippedRegion], *, moves: bool
) -> bool:
    """Whether a block that is all there holds other records than its index says: they are
    sound, or go on behind its end from where it begins. ``cut`` is where a sound one does so.
    Damage moves no raw records: if the first one is damaged, those behind it still end with the
    block. It ``moves`` compressed ones: only sound records before the cut tell of another."""
    assert block.sums is not None
    # a member that goes on behind the block lacks bytes, of which none are damaged
    damage = [region for region in skipped if region.length is not None or region.stored_length]
    if not damage:
        begun = summed != block.sums[0] or not skipped  # else there is nothing to compare
        return begun and summed != block.sums[1]
    if cut is None or any(region.length is None for region in damage):
        return False  # behind a gap it is unknown where records lie
    return damage[0].offset == cut or (not moves and damage[0].offset == block.raw_start)


def _missing(url: str, codec: str | None, block: Block, nbytes: int) -> SkippedRegion:
    # what is there of the block can't be compared with its sum
    reason = lacks("block", nbytes) + CUT
    if codec is None:
        place = block.raw_stop - nbytes
        return SkippedRegion(url, place, nbytes, reason, kind=Reason.SHORT_FILE)
    return SkippedRegion(url, block.raw_start, None, reason, nbytes, Reason.SHORT_FILE)


def _inflated(
    decoder: RecoveringDecoder, codec: str, data: BytesLike, block: Block
) -> tuple[list[RecordBatch], bool]:
    """The records, and whether the block's one member ends in the data."""
    of_block = CODECS[codec].piece  # a ZLIB block is a piece of the file's one stream
    single = not of_block.ends or block.sums is not None
    inflater = RecoveringDecompressor(of_block, single=single)
    batches, room = [], block.raw_stop - block.raw_start
    for pieces in (inflater.feed(data), inflater.finish()):
        for piece in pieces:
            if isinstance(piece, Gap):
                batches.append(decoder.interrupt(piece))
            elif room > 0:  # wrong bytes may inflate to any length
                batches.append(decoder.feed(piece[:room]))
                room -= len(piece)
    return batches, inflater.ended


def _restarted(
    decoder: RecoveringDecoder, codec: str, data: BytesLike, block: Block, seed: BytesLike
) -> list[RecordBatch]:
    try:
        raw, why = _inflated_from(codec, block, data, seed)
    except StreamError as error:
        raw, why = b"", str(error)
    batches, came = [decoder.feed(raw)], len(memoryview(raw))
    if came < block.raw_stop - block.raw_start:
        batches.append(decoder.interrupt(Gap(len(memoryview(data)), why or "")))
    return batches
