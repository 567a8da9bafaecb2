"""What a damaged block still holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfio_store.dataset.model import Block
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.past_damage import Gap, RecoveringDecompressor
from tfio_store.records.recovery import RecoveringDecoder, SkippedRegion

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["recover_block"]


def recover_block(
    url: str,
    codec: str | None,
    data: BytesLike,
    block: Block,
    *,
    verify: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> tuple[RecordBatch, list[SkippedRegion]]:
    """The records of a block's stored ``data`` that check out, and the regions between them.

    A compressed block is inflated as far as that goes, and its records are verified in any case.
    Where the file ends too soon, what it lacks is a region too. Of the block, only where it lies,
    stored and in the uncompressed stream, is used.
    """
    skipped: list[SkippedRegion] = []
    decoder = RecoveringDecoder(
        skipped.append,
        verify=verify or codec is not None,
        max_record_bytes=max_record_bytes,
        path=url,
        offset=block.raw_start,
    )
    batches = [decoder.feed(data)] if codec is None else _inflated(decoder, codec, data, block)
    batches.append(decoder.finish())
    missing = block.stop - block.start - len(memoryview(data))
    if missing and (codec is None or not skipped):
        skipped.append(_missing(url, codec, block, missing))
    return RecordBatch.from_records(record for batch in batches for record in batch), skipped


def _missing(url: str, codec: str | None, block: Block, nbytes: int) -> SkippedRegion:
    text = f"the file ends inside or before a block, {nbytes} bytes of which are missing"
    if codec is None:
        return SkippedRegion(url, block.raw_stop - nbytes, nbytes, text)
    return SkippedRegion(url, block.raw_start, None, text, nbytes)


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
