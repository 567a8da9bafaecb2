"""`count`: how many records a source holds, by what is known, or else by reading what must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.errors import DataLossError
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Access, Retry
from tfio_store.storage.threads import Threads

__all__ = ["ShardCount", "count", "count_shards", "counted"]

_BUDGET = 256 << 20
_STREAMS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ShardCount:
    """How many records one file holds.

    Attributes:
        url (str): The file's path or URL.
        records (int): Its records.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=1)
        >>> tfs.count_shards("train")[0].records
        3
    """

    url: str
    records: int


def count(
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> int:
    """Count the records of a source.

    A manifest or an index tells at once. Of raw files without one the headers are read, and
    compressed streams are decompressed. The CRCs of records' data are not checked; `verify` does.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".

    Returns:
        int: The number of records.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A header is damaged, or data does not decompress.
        TruncatedRecordError: A file ends inside a record.
        RecordTooLargeError: A header claims more than ``max_record_bytes``.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> tfs.count("train")
        3
    """
    shards = count_shards(
        source,
        compression=compression,
        storage_options=storage_options,
        max_record_bytes=max_record_bytes,
        retry=retry,
        backend=backend,
    )
    return sum(shard.records for shard in shards)


def count_shards(
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> tuple[ShardCount, ...]:
    """Count the records of each file of a source, as `count` does.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".

    Returns:
        tuple[ShardCount]: One for each file, in order.

    Raises:
        OSError: See `count`, as for the other errors.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=2)
        >>> [shard.records for shard in tfs.count_shards("train")]
        [2, 1]
    """
    dataset = open_dataset(source, Access(storage_options, retry, backend), compression=compression)
    whole = counted(dataset, max_record_bytes=max_record_bytes)
    return tuple(ShardCount(shard.url, _known(shard)) for shard in whole.shards)


def counted(dataset: Dataset, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> Dataset:
    """The dataset with the records of every shard counted. Raises as `count` does."""
    unknown = [i for i, shard in enumerate(dataset.shards) if shard.records is None]
    if not unknown:
        return dataset
    asked = replace(dataset, shards=tuple(dataset.shards[i] for i in unknown))
    walked = index_raw_shards(asked, memory_budget=_BUDGET, max_record_bytes=max_record_bytes)
    dataset = dataset.with_shards(dict(zip(unknown, walked.shards, strict=True)))
    streams = [i for i in unknown if dataset.shards[i].records is None]
    with Threads(min(_STREAMS_AT_ONCE, len(streams) or 1)) as pool:
        found = pool.map(lambda i: _read_through(dataset, i, max_record_bytes), streams)
        return dataset.with_shards(
            {i: dataset.shards[i].known(records=n) for i, n in zip(streams, found, strict=True)}
        )


def _read_through(dataset: Dataset, index: int, max_record_bytes: int) -> int:
    """The records of a compressed stream."""
    alone = replace(dataset, shards=(dataset.shards[index],))
    budget = _BUDGET // _STREAMS_AT_ONCE
    with RecordReader.of(
        alone, verify=False, memory_budget=budget, max_record_bytes=max_record_bytes
    ) as reader:
        return sum(len(batch) for batch in reader.batches())


def _known(shard: Shard) -> int:
    if shard.records is None:
        raise DataLossError("its records were not counted", path=shard.url, offset=0)
    return shard.records
