"""`info`: what a source is, without reading its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from tfio_store.dataset.checks import counted, held
from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.manifest import Growth, Loss
from tfio_store.dataset.model import Dataset, common_told
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.example.schema import Schema
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """The facts about one file that are known without reading its records.

    Attributes:
        url (str): Its path or URL.
        nbytes (int): Its bytes, as they are stored.
        compression (str | None): None (raw), "GZIP", "ZLIB" or "ZSTD".
        records (int | None): Its records. None if no manifest or index has it.
        blocks (int | None): Its blocks. None if no index has it.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=1)
        >>> tfs.info("train").shards[0].records
        3
    """

    url: str
    nbytes: int
    compression: str | None
    records: int | None
    blocks: int | None


@dataclass(frozen=True, slots=True, repr=False)
class DatasetInfo:
    """The facts about a source.

    Attributes:
        shards (tuple[ShardFacts]): Its files, in order.
        generation (str | None): The generation of its manifest. None without one.
        schema (Schema | None): The schema in its manifest. None without one.
        metadata (dict | None): The metadata in its manifest. None without any.
        lost (Loss | None): Records that it lacks since it was salvaged. Default None.
        growth (tuple[Growth]): The appends that changed its schema, the oldest first. Default ().
        values (dict[str, int]): How many values lists of numbers have, such as tokens, where its
            writers knew the schema and counted them. Default {}.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=2)
        >>> found = tfs.info("train")
        >>> found.records, len(found.shards), found.compression, found.indexed
        (3, 2, None, True)
    """

    shards: tuple[ShardFacts, ...]
    generation: str | None
    schema: Schema | None
    metadata: dict[str, Any] | None
    lost: Loss | None = None
    growth: tuple[Growth, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        inside = held(self.records, len(self.shards))
        packed = "" if self.compression is None else f", {self.compression}"
        indexed = "indexed" if self.indexed else "not indexed"
        return f"<DatasetInfo of {inside}, {counted(self.nbytes, 'byte')}{packed}, {indexed}>"

    @property
    def records(self) -> int | None:
        """The records of all files; None if those of one are not known (int | None)."""
        counts = [shard.records for shard in self.shards if shard.records is not None]
        return sum(counts) if len(counts) == len(self.shards) else None

    @property
    def nbytes(self) -> int:
        """The stored bytes of all files (int)."""
        return sum(shard.nbytes for shard in self.shards)

    @property
    def compression(self) -> str | None:
        """The compression of most of the files (str | None)."""
        codecs = Counter(shard.compression for shard in self.shards)
        return codecs.most_common(1)[0][0] if codecs else None

    @property
    def indexed(self) -> bool:
        """Whether the blocks of every file are known (bool)."""
        return all(shard.blocks is not None for shard in self.shards)


def info(
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> DatasetInfo:
    """Describe a source by its manifest, its index, and the first bytes of other files.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        DatasetInfo: Its files, and the facts in the manifest. Without a manifest, `count` counts
        records.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write(b"one")
        >>> found = tfs.info("a.tfrecord")
        >>> found.nbytes, found.records, found.indexed
        (19, None, False)
    """
    storage = given_storage(storage_options, storage)
    dataset = open_dataset(source, storage, compression=compression)
    (blocks,) = dataset.shards.columns("blocks")
    shards = tuple(map(partial(_facts, dataset), count(), _codecs(dataset), blocks.tolist()))
    generation = common_told(dataset.told).generation
    facts = dataset.schema, dataset.metadata, dataset.lost, dataset.growth, dataset.values
    return DatasetInfo(shards, generation, *facts)


def _codecs(dataset: Dataset) -> list[str | None]:
    """The codec of every file. Those without a manifest are looked at, many at once."""
    at_once = 1 if dataset.has_blocks else LOOKS_AT_ONCE
    return list(mapped(partial(codec_of, dataset), range(len(dataset.shards)), at_once))


def _facts(dataset: Dataset, index: int, codec: str | None, blocks: int) -> ShardFacts:
    shard = dataset.shard(index)
    known = None if blocks < 0 else blocks
    return ShardFacts(shard.url, shard.part_nbytes, codec, shard.records, known)
