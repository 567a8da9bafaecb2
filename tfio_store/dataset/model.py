"""`Dataset`: shards and their blocks as one picklable value, and `read_block`, the function of
them.

A block is addressed by its number in the whole dataset, in the order of the shards. A
compressed stream written elsewhere cannot be cut: its blocks stay unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tfio_store.dataset.manifest import BlockTable
from tfio_store.errors import CorruptRecordError, ManifestError, TruncatedRecordError
from tfio_store.records.compression import StreamError, decompress_block
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch, RecordDecoder
from tfio_store.storage import Access, Store, Version

__all__ = ["Block", "Dataset", "Shard", "read_block"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of records.

    ``compression`` is None (raw), "GZIP", "ZLIB" or "ZSTD", or "auto" while nobody has looked.
    ``blocks``, ``records`` and ``crc32c`` (of the stored bytes) are None while unknown. ``version``
    is shared by all that is read of it: another version's bytes are never mixed in.
    """

    url: str
    nbytes: int
    compression: str | None = "auto"
    records: int | None = None
    blocks: BlockTable | None = None
    crc32c: int | None = None
    version: Version = field(default_factory=Version, compare=False, repr=False)
    signed_url: str | None = field(default=None, compare=False, repr=False)
    """What opens it where ``url``, which errors show, lacks the signature that was in it."""

    @property
    def address(self) -> str:
        """What opens it. Not for anybody's eyes."""
        return self.signed_url or self.url

    def known(self, **facts: Any) -> Shard:
        """This shard with more known about it."""
        return replace(self, **facts)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole consecutive records of one shard.

    ``start`` and ``stop`` are bytes of the stored object, ``raw_start`` and ``raw_stop`` the same
    in the decompressed stream. ``first_record`` counts within the shard.
    """

    shard: int
    start: int
    stop: int
    raw_start: int
    raw_stop: int
    first_record: int
    records: int


@dataclass(frozen=True)
class Dataset:
    """Shards in order, and how to reach them. Pickles as names and numbers, never as handles."""

    shards: tuple[Shard, ...]
    access: Access = field(default_factory=Access)

    def open(self, shard: int) -> tuple[Store, str]:
        """The store of a shard and the shard's path there."""
        return self.open_url(self.shards[shard].address)

    def open_url(self, url: str) -> tuple[Store, str]:
        """The store of any URL, reached as the shards are, and the URL's path there."""
        return self.access.open(url)

    @property
    def num_records(self) -> int | None:
        """Records of all shards, or None where a shard's count is not known."""
        total = 0
        for shard in self.shards:
            if shard.records is None:
                return None
            total += shard.records
        return total

    @property
    def has_blocks(self) -> bool:
        """Whether every shard's blocks are known."""
        return all(shard.blocks is not None for shard in self.shards)

    @property
    def num_blocks(self) -> int | None:
        """Blocks of all shards, or None where a shard's are not known."""
        return int(self.block_starts[-1]) if self.has_blocks else None

    @cached_property
    def block_starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """int64 [n_shards + 1]: the number of each shard's first block. Needs known blocks."""
        return _running_total([len(self._table(i)) for i in range(len(self.shards))])

    @cached_property
    def record_starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """int64 [n_shards + 1]: the number of each shard's first record. Needs known blocks."""
        return _running_total([int(self._table(i).records[-1]) for i in range(len(self.shards))])

    def blocks_of(self, shard: int) -> range:
        """The numbers of a shard's blocks."""
        starts = self.block_starts
        return range(int(starts[shard]), int(starts[shard + 1]))

    def block(self, number: int) -> Block:
        """IndexError when there is no such block; ValueError where blocks are not known."""
        starts = self.block_starts
        if not 0 <= number < starts[-1]:
            raise IndexError(f"block {number} of a dataset of {starts[-1]} blocks")
        shard = int(np.searchsorted(starts, number, side="right")) - 1
        return self.shard_block(shard, number - int(starts[shard]))

    def shard_block(self, shard: int, number: int) -> Block:
        """Block ``number`` of one shard."""
        table = self._table(shard)
        return Block(
            shard,
            int(table.offsets[number]),
            int(table.offsets[number + 1]),
            int(table.raw_offsets[number]),
            int(table.raw_offsets[number + 1]),
            int(table.records[number]),
            int(table.records[number + 1] - table.records[number]),
        )

    def shard_blocks(self, shard: int) -> Iterator[Block]:
        """Every block of one shard, in order."""
        return (self.shard_block(shard, i) for i in range(len(self._table(shard))))

    def with_shards(self, known: Mapping[int, Shard]) -> Dataset:
        """This dataset with some of its shards replaced by what is known of them now."""
        shards = tuple(known.get(i, shard) for i, shard in enumerate(self.shards))
        return replace(self, shards=shards)

    def _table(self, shard: int) -> BlockTable:
        table = self.shards[shard].blocks
        if table is None:
            raise ValueError(
                f"{self.shards[shard].url}: its blocks are not known yet; index the dataset first"
            )
        return table


def read_block(
    dataset: Dataset,
    number: int,
    *,
    verify: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> RecordBatch:
    """Fetch, decompress, check and split one block.

    Raises what the store raises, and `DataLossError` with the shard's URL and the offset of the
    damage in the uncompressed stream.
    """
    block = dataset.block(number)
    store, path = dataset.open(block.shard)
    shard = dataset.shards[block.shard]
    data = store.read(path, block.start, block.stop, etag=shard.version).result()
    return decode_block(shard, block, data, verify=verify, max_record_bytes=max_record_bytes)


def decode_block(
    shard: Shard, block: Block, data: Any, *, verify: bool, max_record_bytes: int
) -> RecordBatch:
    """The records of a block from its stored bytes."""
    missing = block.stop - block.start - len(data)
    if missing:
        raise TruncatedRecordError(
            f"the file ends inside or before a block, {missing} bytes of which are missing",
            path=shard.url,
            offset=block.raw_start,
        )
    try:
        data = decompress_block(data, shard.compression, nbytes=block.raw_stop - block.raw_start)
    except StreamError as error:
        raise CorruptRecordError(str(error), path=shard.url, offset=block.raw_start) from error
    decoder = RecordDecoder(
        verify=verify, max_record_bytes=max_record_bytes, path=shard.url, offset=block.raw_start
    )
    batch = decoder.feed(data)
    decoder.finish()
    if len(batch) != block.records:
        raise ManifestError(
            f"{shard.url}: the block at offset {block.start} holds {len(batch)} records where "
            f"its index says {block.records}; rebuild the index with tfio_store.build_index"
        )
    return batch


def _running_total(counts: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    totals = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=totals[1:])
    return totals
