"""`copy`: one dataset of one or many sources: merged, resharded, recompressed, shuffled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.dataset.source import Source, open_dataset, repeatable
from tfio_store.dataset.source_names import numbered_target
from tfio_store.maintain.salvage import described, held_to, usual_codec
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.storage import check_storage, given_storage
from tfio_store.tables.count import counted
from tfio_store.write.commit import KEEP_REPLACED, IfExists
from tfio_store.write.placement import InRuns
from tfio_store.write.progress import OnProgress, Progress, check_on_progress
from tfio_store.write.sharded_writer import ShardedWriter

__all__ = ["copy"]


def copy(
    source: Source,
    target: str | os.PathLike[str],
    *,
    num_shards: int | None = None,
    max_shard_bytes: int | None = None,
    shuffle_seed: int | None = None,
    compression: str | None = "auto",
    target_compression: str | None = "same",
    if_exists: IfExists = "error",
    keep_replaced: float = KEEP_REPLACED,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    target_storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> DatasetManifest:
    """Copy all records of a source to a new dataset, in their order or in a random one.

    Every checksum is checked. Damage is an error, and then nothing is there; `salvage` copies what
    is sound. The schema and the metadata of the source's manifest are kept. Of several sources they
    are kept if they are the same in all. What is appended must fit the schema of the dataset.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        target (str | PathLike): Folder and name of the new dataset, as for `ShardedWriter`.
        num_shards (int | None): As for `ShardedWriter`; each shard holds a run of the source. Then
            records are counted first. Default None: shards roll over at ``max_shard_bytes``.
        max_shard_bytes (int | None): See `ShardedWriter`. Default None.
        shuffle_seed (int | None): See `ShardedWriter`. Without ``num_shards``, there are as many
            shards as the source has. Default None: the records stay in their order.
        compression (str | None): The source's. See `RecordReader`. Default "auto".
        target_compression (str | None): As for `ShardedWriter`. Default "same": what most of the
            source's files have.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        storage_options (dict | None): The source's. See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        target_storage (Storage | None): How the target's storage is reached. Default None: as the
            source's.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.

    Returns:
        DatasetManifest: The new dataset.

    Raises:
        OSError: The storage fails; FileExistsError if the target exists and ``if_exists`` is
            "error".
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged.
        TruncatedRecordError: A file ends inside a record.
        SchemaError: A record does not fit the dataset to append to.
        ValueError: An argument is not as described, or the dataset to append to has another schema.

    Example:
        >>> _ = tfs.write_table({"x": list(range(6))}, "train", num_shards=1)
        >>> copied = tfs.copy("train", "other", num_shards=2, target_compression="GZIP")
        >>> copied.records, len(copied.shards), copied.compression
        (6, 2, 'GZIP')
        >>> list(tfs.RecordReader("other")) == list(tfs.RecordReader("train"))
        True
    """
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    check_storage(target_storage, "target_storage")
    names = repeatable(source)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(names, storage, compression=compression, limits=limits)
    _, num_shards, _ = numbered_target(target, num_shards)
    kept = described(dataset)
    placed: dict[str, Any] = {"num_shards": num_shards, "max_shard_bytes": max_shard_bytes}
    if shuffle_seed is not None:
        placed["shuffle_seed"] = shuffle_seed
        if num_shards is None and max_shard_bytes is None:
            placed["num_shards"] = max(len(dataset.shards), 1)
    elif num_shards is not None and num_shards > 1:
        dataset = counted(dataset, max_record_bytes=max_record_bytes)
        placed["shard_for"] = InRuns(dataset.num_records or 0, num_shards)
    with (
        RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader,
        ShardedWriter(
            target,
            compression=_codec(dataset, target_compression),
            if_exists=if_exists,
            keep_replaced=keep_replaced,
            on_progress=_with_whole(on_progress, dataset),
            **kept,
            **placed,
            storage=target_storage or dataset.storage,
        ) as writer,
    ):
        # One schema of all sources has been compared with that of the dataset to append to.
        kept_by = None if "schema" in kept else writer._kept()
        for batch in held_to(kept_by, reader.batches(), names):
            writer.write_batch(batch)
    return writer.manifest


def _codec(dataset: Dataset, wanted: str | None) -> str | None:
    return usual_codec(dataset) if wanted == "same" else wanted


def _with_whole(
    on_progress: OnProgress | None, dataset: Dataset
) -> Callable[[Progress], object] | None:
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, whole=dataset.num_records))
