"""`count`: how many records a source holds, by what is known, or else by reading what must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tfio_store.dataset.header_walk import indexed_shard
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset, Limits, Shard, Shards
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.read.reader import RecordReader
from tfio_store.records.damage import uncounted
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.storage.threads import mapped
from tfio_store.write.progress import OnProgress, Progress, check_on_progress

_FILES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class ShardCount:
    """How many records the file at ``url`` holds."""

    url: str
    records: int


def count(
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> int:
    """Count the records of a source.

    A manifest or an index has the number. Without them, the headers of raw files are read, and
    compressed streams are decompressed. The CRCs of records' data are not checked; `verify` does.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far behind each file that is
            looked at. Its bytes are stored ones. Default None.

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
    whole = _counted(
        source,
        compression=compression,
        storage=given_storage(storage_options, storage),
        max_record_bytes=max_record_bytes,
        on_progress=on_progress,
    )
    return whole.num_records or 0


def count_shards(source: Source, **how: Any) -> tuple[ShardCount, ...]:
    """The records of each file of a source. ``how`` are arguments of `count`."""
    whole = _counted(source, **how)
    shards = map(whole.shard, range(len(whole.shards)))
    return tuple(ShardCount(shard.url, _known(shard)) for shard in shards)


def _counted(
    source: Source,
    *,
    compression: str | None = "auto",
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> Dataset:
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    return counted(dataset, max_record_bytes=max_record_bytes, on_progress=on_progress)


def counted(
    dataset: Dataset,
    *,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """The dataset with the records of every shard counted. Raises as `count` does."""
    check_on_progress(on_progress)
    if dataset.num_records is not None:
        return dataset
    unknown = [i for i, shard in enumerate(dataset.shards) if shard.records is None]
    found: dict[int, Shard] = {}
    records = nbytes = 0
    walk = partial(_walked, dataset, max_record_bytes=max_record_bytes)
    for index, shard in zip(unknown, mapped(walk, unknown, _FILES_AT_ONCE), strict=True):
        found[index] = shard
        records, nbytes = records + _known(shard), nbytes + shard.nbytes
        if on_progress is not None:
            on_progress(Progress(records, nbytes, len(found), whole_shards=len(unknown)))
    return dataset.with_shards(found)


def _walked(dataset: Dataset, index: int, max_record_bytes: int) -> Shard:
    """A file with its records counted: by its headers if it is raw."""
    budget = MEMORY_BUDGET // _FILES_AT_ONCE
    shard = indexed_shard(dataset, index, Limits(budget, max_record_bytes))
    if shard.records is not None:
        return shard
    return shard.known(records=_read_through(dataset, index, budget, max_record_bytes))


def _read_through(dataset: Dataset, index: int, budget: int, max_record_bytes: int) -> int:
    """The records of a compressed stream."""
    alone = replace(dataset, shards=Shards([dataset.shards[index]]))
    with RecordReader.of(
        alone, verify=False, memory_budget=budget, max_record_bytes=max_record_bytes
    ) as reader:
        return sum(len(batch) for batch in reader.batches())


def _known(shard: Shard) -> int:
    if shard.records is None:
        raise uncounted(shard.url)
    return shard.records
