"""Sound records of damaged blocks.

A block is read as one: if a record of it is damaged, none of it is given out. Here the frames of a
block are found by their lengths, which have checksums of their own, and then each record is checked
by itself. So damage hides only the records that it hit.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.errors import CorruptRecordError
from tfio_store.read.decode import Decoding
from tfio_store.read.fetch import fetch_blocks
from tfio_store.read.plan import Units
from tfio_store.records.framing import RecordBatch, masked_crc32c

__all__ = ["DamagedBlocks"]

_BUDGET = 64 << 20


class DamagedBlocks:
    """Records of blocks that can't be read as a whole. The last block stays in memory."""

    def __init__(self, dataset: Dataset, *, max_record_bytes: int) -> None:
        self._dataset = dataset
        self._units = Units(dataset, streams=False)
        self._how = Decoding(False, max_record_bytes)
        self._lock = Lock()
        self._last: tuple[int, RecordBatch] | None = None

    def record(self, number: int) -> bytes:
        """One record. DataLossError if it is damaged itself, or if nobody knows where it ends."""
        shards, firsts = self._dataset.shards_of(np.array([number]))
        shard, rest = int(shards[0]), number - int(firsts[0])
        (table,) = self._dataset.tables([shard])
        block = int(np.searchsorted(table.records, rest, side="right")) - 1
        batch = self._batch(self._units.first(shard) + block)
        place = rest - int(table.records[block])
        if place >= len(batch):
            raise self._lost(shard, "its block holds fewer records than its index says")
        record = batch[place]
        end = int(batch.offsets[place]) + len(record)
        stored = int.from_bytes(batch.buffer[end : end + 4], "little")
        if stored != masked_crc32c(record):
            offset = int(table.raw_offsets[block] + batch.offsets[place] - batch.offsets[0])
            raise self._lost(shard, f"the checksum of record {number:,} does not hold", offset)
        return record

    def _batch(self, block: int) -> RecordBatch:
        with self._lock:
            if self._last is None or self._last[0] != block:
                (located,) = fetch_blocks(self._units, np.array([block]), self._how, budget=_BUDGET)
                self._last = block, located.batch
            return self._last[1]

    def _lost(self, shard: int, reason: str, offset: int = -1) -> CorruptRecordError:
        return CorruptRecordError(reason, path=self._dataset.shard(shard).url, offset=offset)
