"""A dataset's manifest and index as values, to and from bytes. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BlockTable", "DatasetManifest", "ShardInfo"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BlockTable:
    """Where the blocks of one shard lie: three int64 arrays of n_blocks + 1 running totals.

    Block b is the stored bytes ``offsets[b]:offsets[b + 1]`` of the object; decompressed they are bytes
    ``raw_offsets[b]:raw_offsets[b + 1]`` of the record stream (for uncompressed shards the same
    array) and hold records ``records[b]:records[b + 1]`` of the shard.
    """

    offsets: Int64Array
    raw_offsets: Int64Array
    records: Int64Array

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One finished shard: its name relative to the manifest's folder, and what it holds."""

    name: str
    nbytes: int
    records: int
    crc32c: int
    blocks: BlockTable | None = None
    """None where a shard is one stream that cannot be cut (ZLIB), or the index is not loaded."""


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """What a committed dataset consists of."""

    shards: tuple[ShardInfo, ...]
    compression: str | None
    """None, "GZIP", "ZLIB" or "ZSTD"."""
    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    """What the writer's caller wanted kept, JSON-able."""
    index: str | None = None

    @property
    def records(self) -> int:
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        return sum(shard.nbytes for shard in self.shards)
