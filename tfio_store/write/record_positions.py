"""Notes where each record of a raw shard begins, block by block as they are written. No I/O."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from tfio_store.dataset.record_starts import CrcsArray, StartsArray, are_cheap, crcs_of
from tfio_store.records.framing import HEADER_BYTES, scan

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["RecordPositions", "check_record_positions"]


def check_record_positions(wanted: object, codec: str | None) -> bool | None:
    """The argument ``record_positions`` as a writer of shards with this codec takes it."""
    if wanted is not None and not isinstance(wanted, bool):
        raise TypeError(f"record_positions must be None, True or False, not {wanted!r}")
    if wanted and codec is not None:
        raise ValueError(
            "record_positions: a record of a compressed shard has no bytes of its own; "
            "make blocks small by block_bytes instead"
        )
    return False if codec is not None else wanted


class RecordPositions:
    """The starts of one shard's records. ``wanted`` None: as long as they are cheap beside the
    shard; once they are not, they are given up."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = wanted
        self._blocks: list[StartsArray] | None = None if wanted is False else []
        self._crcs: list[CrcsArray] = []
        self._nbytes = 0
        self._records = 0

    def add(self, block: BytesLike, records: int) -> None:
        """Note the frames of the next block."""
        if self._blocks is None:
            return
        self._nbytes += memoryview(block).nbytes
        self._records += records
        if self._wanted is None and not are_cheap(self._nbytes, self._records):
            self._blocks, self._crcs = None, []
            return
        batch = scan(block, verify=False, max_record_bytes=sys.maxsize).batch
        frames = batch.offsets - HEADER_BYTES
        if len(frames) and frames[-1] >> 32:
            raise ValueError("a block's last record begins behind its first 4 GiB")
        self._blocks.append(frames.astype(np.uint32))
        self._crcs.append(crcs_of(batch))

    def starts(self) -> StartsArray | None:
        """What `BlockTable` keeps of it."""
        return np.concatenate(self._blocks) if self._blocks else None

    def crcs(self) -> CrcsArray | None:
        """The masked CRCs of the same records."""
        return np.concatenate(self._crcs) if self._crcs else None
