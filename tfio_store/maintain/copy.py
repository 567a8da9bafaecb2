"""`copy`: one dataset of one or many sources: merged, resharded, recompressed, shuffled. `salvage`:
the same of what is sound in them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.manifest import DatasetManifest, Loss
from tfio_store.dataset.model import Dataset, Limits, Shard
from tfio_store.dataset.source import Source, of_source, open_dataset, repeatable
from tfio_store.dataset.source_names import numbered_target
from tfio_store.errors import DataLossError, NoRecordsError, Reason, SchemaError
from tfio_store.example import Nullable, decode_examples
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.growth import grown, grown_json, optional
from tfio_store.example.schema import Schema
from tfio_store.maintain.verify import VerifyReport, look_at_objects, sound_batches
from tfio_store.read.reader import RecordReader
from tfio_store.records.damage import damaged, nothing_sound
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.storage import check_storage, given_storage
from tfio_store.tables.count import counted
from tfio_store.tables.infer import schema_of_records
from tfio_store.write.commit import KEEP_REPLACED, IfExists
from tfio_store.write.placement import InRuns
from tfio_store.write.progress import OnProgress, Progress, check_on_progress
from tfio_store.write.sharded_writer import ShardedWriter


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

    Every checksum is checked. Damage is an error, and then there is no target; `salvage` copies the
    sound records. The schema and the metadata of the source's manifest are kept. Several sources
    get one schema of all, if there is one, and their metadata are kept if they are the same in all.
    Appended records may lack features of the dataset, and bring others; see `ShardedWriter`.

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
            "error"; IsADirectoryError if the target is a folder that readers take for the dataset
            in it.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged.
        TruncatedRecordError: A file ends inside a record.
        SchemaError: A record does not fit the dataset to append to.
        ValueError: An argument is not as described, or a feature of the dataset to append to is of
            another kind.

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
    kept = _described(dataset)
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
        _write(reader.batches(), writer, kept, names)
        writer._keep_loss(dataset.lost)
    return writer.manifest


def salvage(
    source: Source,
    target: str | os.PathLike[str],
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
    num_shards: int | None = None,
    if_exists: IfExists = "error",
    keep_replaced: float = KEEP_REPLACED,
    target_compression: str | None = "same",
    target_storage: Storage | None = None,
    allow_missing: bool = False,
) -> VerifyReport:
    """Copy every sound record of a source, in order, to a new dataset.

    The new manifest keeps how many records were lost, and of which files. `info`, `verify` and
    `diff` show them from then on.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        target (str | PathLike): Folder and name of the new dataset, as for `ShardedWriter`.
        compression (str | None): The source's. See `RecordReader`. Default "auto".
        storage_options (dict | None): The source's. See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.
        num_shards (int | None): The target's. Default None: as many as the source has.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        target_compression (str | None): As for `ShardedWriter`. Default "same": what most of the
            source's files have.
        target_storage (Storage | None): How the target's storage is reached. Default None: as the
            source's.
        allow_missing (bool): Whether the records of files may be lost that are missing, or that
            can't be reached. Default False: such a file is an error, and nothing is written.

    Returns:
        VerifyReport: What was copied, and what was lost.

    Raises:
        OSError: The storage fails; FileNotFoundError if a file is missing that the manifest names;
            FileExistsError if the target exists and ``if_exists`` is "error"; IsADirectoryError if
            the target is a folder that readers take for the dataset in it.
        CorruptRecordError: There is damage, and not one sound record; then nothing is written.
        ManifestError: A manifest or index cannot be read.
        SchemaError: A record does not fit the dataset to append to.
        ValueError: An argument is not as described.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write_batch([b"one", b"two"])
        >>> with open("a.tfrecord", "r+b") as file:
        ...     _ = file.seek(12), file.write(b"X")
        >>> report = tfs.salvage("a.tfrecord", "good/train")
        >>> list(tfs.RecordReader("good/train")), len(report.skipped)
        ([b'two'], 1)
    """
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    check_storage(target_storage, "target_storage")
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    _, num_shards, _ = numbered_target(target, num_shards)
    report = VerifyReport()
    absent = OSError if allow_missing else FileNotFoundError
    there = look_at_objects(dataset, report, absent=absent)
    given_up = _given_up(dataset, there)
    if given_up and not allow_missing:
        raise _missing(dataset, given_up)
    kept = _described(dataset)
    with ShardedWriter(
        target,
        num_shards=num_shards or max(len(dataset.shards), 1),
        compression=_codec(dataset, target_compression),
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        **kept,
        storage=target_storage or dataset.storage,
    ) as writer:
        sound = sound_batches(there, report, max_record_bytes, on_progress)
        _write(sound, writer, kept, source)
        if not report.records and not report.ok:
            raise _nothing_sound(dataset, report)  # which aborts the writer
        lost = _lost(dataset, given_up, report)
        report.lost = Loss.all_of([dataset.lost, lost])
        writer._keep_loss(report.lost)
    return report


def _given_up(dataset: Dataset, there: Dataset) -> list[Shard]:
    """The shards that are not there."""
    known = {shard.url for shard in there.shards}
    return [shard for shard in dataset.shards if shard.url not in known]


def _missing(dataset: Dataset, given_up: list[Shard]) -> FileNotFoundError:
    lost = Loss.all_of(map(_whole_loss, given_up))
    return FileNotFoundError(
        errno.ENOENT,
        f"{len(given_up)} of {len(dataset.shards)} files are missing, with {lost}; nothing was "
        "written: put them back, or pass allow_missing=True (--allow-missing) to go on without "
        "their records",
        given_up[0].url,
    )


def _whole_loss(shard: Shard) -> Loss:
    return Loss(shard.records, (_name(shard.url),))


def _lost(dataset: Dataset, given_up: list[Shard], report: VerifyReport) -> Loss | None:
    """The records of the source that are not in the report, as far as anybody had counted them."""
    names = [_name(url) for url in (*(s.url for s in given_up), *(r.path for r in report.skipped))]
    had = dataset.num_records
    records = None if had is None else max(had - report.records, 0)
    return Loss(records, tuple(dict.fromkeys(names))) if names or records else None


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _nothing_sound(dataset: Dataset, report: VerifyReport) -> DataLossError:
    """The error of a source without one sound record. It tells what was found first."""
    if not report.skipped:
        reason = nothing_sound(report.problems[0])
        return damaged(Reason.CONTENT, reason, path=dataset.shard(0).url, offset=-1)
    first = report.skipped[0]
    return damaged(first.kind, nothing_sound(first.reason), path=first.path, offset=first.offset)


def _codec(dataset: Dataset, wanted: str | None) -> str | None:
    return usual_codec(dataset) if wanted == "same" else wanted


def _with_whole(
    on_progress: OnProgress | None, dataset: Dataset
) -> Callable[[Progress], object] | None:
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, whole=dataset.num_records))


def _described(dataset: Dataset) -> dict[str, Any]:
    """The schema of all sources, and the metadata that they share."""
    kept: dict[str, Any] = {}
    for what, one_of in (("schema", _one_schema), ("metadata", _same)):
        if not dataset.told:
            break
        each = [getattr(each, what) for each in dataset.told]
        try:
            kept[what] = reduce(one_of, each, each[0])
        except (ImportError, TypeError, ValueError):
            warn(f"the sources differ in their {what}, so it is not copied")
    return {what: found for what, found in kept.items() if found is not None}


def _one_schema(one: Any, other: Any) -> Any:
    return grown_json(one, other) if one and other and one != other else _same(one, other)


def _same(one: Any, other: Any) -> Any:
    if one != other:
        raise ValueError("these differ")
    return one


def usual_codec(dataset: Dataset) -> str | None:
    """The compression of most of the files."""
    codecs = Counter(codec_of(dataset, i) for i in range(len(dataset.shards)))
    return codecs.most_common(1)[0][0] if codecs else None


_WHOSE = "; the dataset to append to has this schema"


def _write(
    batches: Iterable[RecordBatch], writer: ShardedWriter, kept: Mapping[str, Any], source: Source
) -> None:
    """Write the batches. SchemaError for a record that readers of the dataset to append to could
    not decode. Its features are looked at, so that the schema of both has them."""
    # One schema of all sources has been joined with that of the dataset.
    before = None if "schema" in kept else writer._kept()
    if before is None or before.schema is None:
        for batch in batches:
            writer.write_batch(batch)
        return
    target = _Target(Schema.from_json(before.schema), source)
    with contextlib.suppress(NoRecordsError):
        found = schema_of_records(target.written(batches, writer), source)
        writer._keep_schema(target.schema_with(found))


class _Target:
    """The schema of a dataset to which records of none are appended."""

    def __init__(self, schema: Schema, source: Source) -> None:
        self._schema = schema
        self._source = source
        self._optional = Schema({name: optional(schema[name]) for name in schema})
        self._missing: set[str] = set()
        """The features that a record lacks."""

    def written(self, batches: Iterable[RecordBatch], writer: ShardedWriter) -> Iterator[Any]:
        """Each record, when it is written."""
        first = 0
        for batch in batches:
            with of_source(self._source, first):
                self._check(batch)
            writer.write_batch(batch)
            yield from batch
            first += len(batch)

    def _check(self, batch: RecordBatch) -> None:
        try:
            columns = decode_examples(batch, self._optional)
        except SchemaError as error:
            raise SchemaError(
                error.reason + _WHOSE, feature=error.feature, record=error.record
            ) from error
        self._missing |= {name for name, column in columns.items() if _has_nulls(column)}

    def schema_with(self, found: Schema) -> Schema:
        """The schema of the records, which have the features that were ``found``. ValueError for a
        feature list of the name of a feature, or one that is none: readers would pass it by."""
        both = self._schema.keys() & found.keys()
        odd = [name for name in both if self._schema[name].sequence != found[name].sequence]
        grown(self._schema, found.select(odd), learned=True)
        lengths = {name + ROW_LENGTHS for name, of in self._schema.items() if of.nested}
        added = {name: found[name] for name in found if name not in lengths}
        missing = {name: self._optional[name] for name in self._missing}
        return Schema({**added, **self._schema, **missing})


def _has_nulls(column: Any) -> bool:
    if isinstance(column, Nullable):
        return not column.valid.all()
    return bool(np.ma.is_masked(column))
