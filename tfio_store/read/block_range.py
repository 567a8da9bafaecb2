"""Some blocks of a dataset, told apart: for engines that split a task while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfio_store.dataset.model import Dataset
from tfio_store.read.fetch import fetch_blocks
from tfio_store.read.located import Decoding
from tfio_store.read.plan import Units
from tfio_store.read.skips import OnCorrupt, Skips
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch

__all__ = ["BlockBatch", "BlockRange"]


class BlockBatch(NamedTuple):
    """A batch of records, and where they are from."""

    block: int
    """The number of its block."""
    url: str
    """Its file, without secrets."""
    records: RecordBatch


class BlockRange:
    """The blocks of a dataset by number, from 0 on. A shard that cannot be cut is one block."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = 64 << 20,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        self._units = Units(dataset, streams=False)
        self._verify = verify
        self._on_corrupt = on_corrupt
        self._budget = memory_budget
        self._max_record_bytes = max_record_bytes

    def __len__(self) -> int:
        return len(self._units)

    def batches(self, start: int, stop: int) -> Iterator[BlockBatch]:
        """The records of blocks ``start:stop``, in order. The next blocks are fetched meanwhile.
        Most blocks are one batch, and those that are streams are many."""
        skips = None if self._on_corrupt == "raise" else Skips(self._on_corrupt)
        how = Decoding(self._verify, self._max_record_bytes, skips)
        for located in fetch_blocks(self._units, range(start, stop), how, budget=self._budget):
            block = start + located.position
            shard, _ = self._units[block]
            yield BlockBatch(block, self._units.dataset.shard(shard).url, located.batch)
        if skips is not None:
            skips.say()
