"""Where each record of a raw shard begins. By this one record is read alone, without its block.

The numbers count from the start of the record's block, so that 32 bits hold them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import FRAME_OVERHEAD, RecordBatch

__all__ = [
    "START_BYTES",
    "SUMMED_BYTES",
    "CrcsArray",
    "StartsArray",
    "are_cheap",
    "check_starts",
    "crcs_of",
    "frame_stops",
    "relative_starts",
]

Int64Array = npt.NDArray[np.int64]
StartsArray = npt.NDArray[np.uint32]
"""uint32 [n_records]: bytes from the start of a record's block to the record's frame."""

CrcsArray = npt.NDArray[np.uint32]
"""uint32 [n]: sums of records, or their masked CRCs; see `BlockTable`."""

START_BYTES = 4
"""What a start, a CRC or a sum takes in the index."""

SUMMED_BYTES = 4
"""What of a record goes into a sum: its masked CRC."""

_LEAST_FRAME = 1 << 10
"""From this mean size of frames on, starts take less than half a percent of the data."""


def are_cheap(nbytes: int, records: int) -> bool:
    """Whether the starts of so many records are small beside ``nbytes`` of frames."""
    return records > 0 and nbytes >= _LEAST_FRAME * records


def relative_starts(frames: Int64Array, offsets: Int64Array, records: Int64Array) -> StartsArray:
    """The starts of a shard's records, from the byte offsets of their ``frames`` and from its block
    table. ValueError if a record begins 4 GiB behind its block."""
    starts = frames - np.repeat(offsets[:-1], np.diff(records))
    if len(starts) and starts.max() >> 32:
        raise ValueError(f"a record begins {starts.max()} bytes behind the start of its block")
    return starts.astype(np.uint32)


def crcs_of(batch: RecordBatch) -> CrcsArray:
    """The masked CRCs that stand behind the records of a batch that was scanned."""
    places = (batch.offsets + batch.lengths)[:, None] + np.arange(START_BYTES)
    found: CrcsArray = np.frombuffer(batch.buffer, np.uint8)[places].view("<u4").ravel()
    return found.astype(np.uint32, copy=False)


def frame_stops(starts: StartsArray, offsets: Int64Array, records: Int64Array) -> Int64Array:
    """int64 [n_records]: where each record's frame ends, counted as its start is."""
    stops = np.empty(len(starts), np.int64)
    stops[:-1] = starts[1:]
    held = np.diff(records) > 0
    stops[records[1:][held] - 1] = np.diff(offsets)[held]
    return stops


def check_starts(starts: StartsArray, offsets: Int64Array, records: Int64Array) -> None:
    """ValueError unless the frames that ``starts`` tell of fill each block, one behind the other.

    The block table is a checked one. Whether a frame is there, only reading it tells.
    """
    held = np.diff(records) > 0
    if starts[records[:-1][held]].any():
        raise ValueError("a block's first record does not begin with the block")
    if (frame_stops(starts, offsets, records) - starts < FRAME_OVERHEAD).any():
        raise ValueError("two records begin closer to each other than their framing allows")
