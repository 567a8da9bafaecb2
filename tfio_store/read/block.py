"""Turns the stored bytes of one block into records: decompressed, checked, also past damage."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tfio_store.dataset.model import Block, Shard
from tfio_store.errors import CorruptRecordError, ManifestError, TruncatedRecordError
from tfio_store.records.compression import StreamError, decompress_block
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch, RecordDecoder
from tfio_store.records.past_damage import Gap, RecoveringDecompressor
from tfio_store.records.recovery import RecoveringDecoder, SkippedRegion
from tfio_store.storage import ReplacedError

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["decode_block", "inflate_block", "other_records", "part_of", "recover_block"]


def decode_block(
    shard: Shard, block: Block, data: BytesLike, *, verify: bool, max_record_bytes: int
) -> RecordBatch:
    """The records of a block that are meant, from its stored ``data``.

    DataLossError with the shard's URL and the offset of the damage in the uncompressed stream;
    ReplacedError if it holds other records than its index tells of; ManifestError if another number
    of them.
    """
    decoder = RecordDecoder(
        verify=verify,
        max_record_bytes=max_record_bytes,
        path=shard.url,
        offset=block.raw_start,
        summed=0 if block.sums is None else block.sums[0],
    )
    batch = decoder.feed(inflate_block(shard.url, shard.compression, block, data))
    # also where a sound record goes on behind the block: its last one has ended with it
    if block.sums is not None and not decoder.failed and decoder.summed != block.sums[1]:
        raise other_records(shard.url, block.start)
    decoder.finish()
    held = block.before + block.records + block.behind
    if len(batch) != held:
        raise ManifestError(
            f"{shard.url}: the block at offset {block.start} holds {len(batch)} records where "
            f"its index says {held}; rebuild the index with tfio_store.build_index"
        )
    return part_of(batch, block)


def other_records(url: str, offset: int) -> ReplacedError:
    """The error for a file that holds other records than its index tells of, from this byte on."""
    return ReplacedError(
        errno.ESTALE,
        f"it holds other records than its manifest and index tell of (from byte {offset} on): the "
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


def inflate_block(url: str, codec: str | None, block: Block, data: BytesLike) -> BytesLike:
    """The uncompressed bytes of a block, as many as it has. DataLossError as `decode_block`."""
    missing = block.stop - block.start - len(memoryview(data))
    if missing:
        raise TruncatedRecordError(_ends_early(missing), path=url, offset=block.raw_start)
    try:
        return decompress_block(data, codec, nbytes=block.raw_stop - block.raw_start)
    except StreamError as error:
        raise CorruptRecordError(str(error), path=url, offset=block.raw_start) from error


def recover_block(
    url: str,
    codec: str | None,
    block: Block,
    data: BytesLike,
    *,
    verify: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> tuple[RecordBatch, list[SkippedRegion]]:
    """The sound records in a block's stored ``data``, and the regions between them.

    A compressed block is decompressed as far as it goes, and its records are always verified. If
    the file ends too soon, the missing bytes are a region too. It uses only the block's places,
    stored and in the uncompressed stream, and its sums: ReplacedError where these tell that the
    block is not damaged, but another.
    """
    skipped: list[SkippedRegion] = []
    decoder = RecoveringDecoder(
        skipped.append,
        verify=verify or codec is not None,
        max_record_bytes=max_record_bytes,
        path=url,
        offset=block.raw_start,
        summed=0 if block.sums is None else block.sums[0],
    )
    batches = [decoder.feed(data)] if codec is None else _inflated(decoder, codec, data, block)
    batches.append(decoder.finish())
    missing = block.stop - block.start - len(memoryview(data))
    if block.sums is not None and not missing and _is_another(decoder, block, skipped):
        raise other_records(url, block.start)
    if missing and (codec is None or not skipped):
        skipped.append(_missing(url, codec, block, missing))
    return RecordBatch.from_records(record for batch in batches for record in batch), skipped


def _is_another(decoder: RecoveringDecoder, block: Block, skipped: list[SkippedRegion]) -> bool:
    """Whether a block that is all there holds other records than its index tells of: they are
    sound, or go on behind its end from where it begins. Damage moves no records: if the first one
    is damaged, those behind it still end with the block."""
    assert block.sums is not None
    if not skipped:
        return decoder.summed != block.sums[1]
    if decoder.cut is None or any(region.length is None for region in skipped):
        return False  # behind a gap nobody knows where records lie
    return skipped[0].offset in (decoder.cut, block.raw_start)


def _ends_early(missing: int) -> str:
    return f"the file ends inside or before a block, {missing} bytes of which are missing"


def _missing(url: str, codec: str | None, block: Block, nbytes: int) -> SkippedRegion:
    if codec is None:
        return SkippedRegion(url, block.raw_stop - nbytes, nbytes, _ends_early(nbytes))
    return SkippedRegion(url, block.raw_start, None, _ends_early(nbytes), nbytes)


def _inflated(
    decoder: RecoveringDecoder, codec: str, data: BytesLike, block: Block
) -> list[RecordBatch]:
    # a ZLIB block is a piece of the file's one stream
    inflater = RecoveringDecompressor("DEFLATE" if codec == "ZLIB" else codec)
    batches, room = [], block.raw_stop - block.raw_start
    for pieces in (inflater.feed(data), inflater.finish()):
        for piece in pieces:
            if isinstance(piece, Gap):
                batches.append(decoder.interrupt(piece.reason, piece.nbytes))
            elif room > 0:  # wrong bytes may inflate to any length
                batches.append(decoder.feed(piece[:room]))
                room -= len(piece)
    return batches
