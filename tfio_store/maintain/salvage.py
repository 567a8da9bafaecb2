"""`verify` reports what is sound in a source. `salvage` copies everything sound."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import Dataset, Limits, Shard
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.dataset.source_names import numbered_target
from tfio_store.errors import SchemaError, printable
from tfio_store.example import decode_examples
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.schema import Schema
from tfio_store.maintain.build_index import object_crc32c
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, FRAME_OVERHEAD, RecordBatch
from tfio_store.records.recovery import SkippedRegion
from tfio_store.records.texts import alike, warn
from tfio_store.storage import Storage
from tfio_store.storage.storage import check_storage, given_storage
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped
from tfio_store.tables.source_errors import of_source
from tfio_store.write.commit import KEEP_REPLACED, IfExists
from tfio_store.write.progress import OnProgress, Progress, check_on_progress
from tfio_store.write.sharded_writer import ShardedWriter

__all__ = ["VerifyReport", "described", "held_to", "salvage", "usual_codec", "verify"]


# Holds records to the schema of the dataset that they are appended to.


_WHOSE = "; the dataset to append to has this schema"


def held_to(
    kept: DatasetManifest | None, batches: Iterable[RecordBatch], source: Source
) -> Iterator[RecordBatch]:
    """The same batches. SchemaError for a record that readers of the dataset could not decode, or
    that holds a feature that they would not see."""
    if kept is None or kept.schema is None:
        yield from batches
        return
    schema = Schema.from_json(kept.schema)
    first = 0
    for batch in batches:
        with of_source(source, first):
            _check(batch, schema)
        yield batch
        first += len(batch)


def _check(batch: RecordBatch, schema: Schema) -> None:
    known = {*schema, *(name + ROW_LENGTHS for name, of in schema.items() if of.nested)}
    try:
        decode_examples(batch, schema)
        for number, record in enumerate(batch):
            for name in {**infer_features(record), **infer_feature_lists(record)}:
                if name not in known:
                    reason = f"is not in the schema{alike(name, schema)}"
                    raise SchemaError(reason, feature=name, record=number)
    except SchemaError as error:
        raise SchemaError(
            error.reason + _WHOSE, feature=error.feature, record=error.record
        ) from error


@dataclass
class VerifyReport:
    """The result of a pass over a source. ``ok`` is the answer; the rest says why.

    Attributes:
        records (int): Sound records. Default 0.
        nbytes (int): Their bytes, without framing. Default 0.
        skipped (list[SkippedRegion]): Damaged regions, whose records are lost. Default [].
        problems (list[str]): Objects that are not what the manifest says. Default [].
        quick (bool): Whether no record was read. Default False.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> report = tfs.verify("train")
        >>> report.ok, report.records
        (True, 3)
    """

    records: int = 0
    nbytes: int = 0
    """Bytes of sound records, without framing."""
    skipped: list[SkippedRegion] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    quick: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing was skipped and nothing is wrong (bool)."""
        return not self.skipped and not self.problems

    def __str__(self) -> str:
        lines = [f"{self.records} sound records, {self.nbytes} bytes"]
        if self.quick:
            lines = [] if self.problems else ["all files are as large as the manifest says"]
        lines += [
            f"{region.path}: {region.reason} (offset {region.offset}, {region.size})"
            for region in self.skipped
        ]
        return printable("\n".join([*lines, *self.problems]))


def verify(
    source: Source,
    *,
    quick: bool = False,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Read all of a source, check every checksum, and report.

    If there is a manifest, it also checks each object's size and CRC32C, and the number of records.
    Damage is reported, not raised.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        quick (bool): Only compare sizes, and checksums that the store has by itself, with those
            in the manifest. No file is read. Default False.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.

    Returns:
        VerifyReport: Its ``ok`` is the answer.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        ValueError: ``quick`` is asked for, and there is no manifest.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write_batch([b"one", b"two"])
        >>> with open("a.tfrecord", "r+b") as file:
        ...     _ = file.seek(12), file.write(b"X")
        >>> print(tfs.verify("a.tfrecord"))
        1 sound records, 3 bytes
        ...a.tfrecord: the checksum of a record's data does not hold (offset 0, 19 bytes)
    """
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    report = VerifyReport(quick=quick)
    there = _look_at_objects(dataset, report, quick=quick)
    report.problems += _listed_twice(dataset)
    if quick:
        return report
    _read_through(there, report, max_record_bytes, on_progress)
    expected = dataset.num_records
    if expected is not None and expected != report.records and report.ok:
        report.problems.append(
            f"the manifest counts {expected} records, and {report.records} are there"
        )
    return report


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
) -> VerifyReport:
    """Copy every sound record of a source, in order, to a new dataset.

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

    Returns:
        VerifyReport: What was copied, and what was lost.

    Raises:
        OSError: The storage fails; FileExistsError if the target exists and ``if_exists`` is
            "error".
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
    codec = usual_codec(dataset) if target_compression == "same" else target_compression
    there = _look_at_objects(dataset, report)
    kept = described(dataset)
    with ShardedWriter(
        target,
        num_shards=num_shards or max(len(dataset.shards), 1),
        compression=codec,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        **kept,
        storage=target_storage or dataset.storage,
    ) as writer:
        sound = _sound_batches(there, report, max_record_bytes, on_progress)
        kept_by = None if "schema" in kept else writer._kept()
        for batch in held_to(kept_by, sound, source):
            writer.write_batch(batch)
    return report


def _look_at_objects(dataset: Dataset, report: VerifyReport, *, quick: bool = False) -> Dataset:
    """Report each object that is not what its manifest says. Returns the dataset of those that are
    there, of which a reader expects nothing: they are reported already."""
    look = partial(_object_problem, dataset, quick=quick)
    found = list(mapped(look, range(len(dataset.shards)), LOOKS_AT_ONCE if quick else 1))
    report.problems += [problem for problem, _ in found if problem is not None]
    if all(problem is None for problem, _ in found):
        return dataset
    shards = zip(dataset.shards, found, strict=True)
    return replace(dataset, shards=tuple(_plain(one) for one, (_, there) in shards if there))


def _plain(shard: Shard) -> Shard:
    table = shard.blocks
    blocks = None if table is None else replace(table.without_starts(), sums=None)
    return shard.known(blocks=blocks, crc32c=None)


def described(dataset: Dataset) -> dict[str, Any]:
    """The schema and the metadata that all sources share."""
    kept: dict[str, Any] = {}
    for what in ("schema", "metadata"):
        each = [getattr(each, what) for each in dataset.told]
        if any(one != each[0] for one in each):
            warn(f"the sources differ in their {what}, so it is not copied")
        elif each and each[0] is not None:
            kept[what] = each[0]
    return kept


def usual_codec(dataset: Dataset) -> str | None:
    """The compression of most of the files."""
    codecs = Counter(codec_of(dataset, i) for i in range(len(dataset.shards)))
    return codecs.most_common(1)[0][0] if codecs else None


def _sound_batches(
    dataset: Dataset,
    report: VerifyReport,
    max_record_bytes: int,
    on_progress: OnProgress | None,
) -> Iterator[RecordBatch]:
    """Iterate the sound records, and keep the report meanwhile."""
    with RecordReader.of(
        dataset, on_corrupt=report.skipped.append, max_record_bytes=max_record_bytes
    ) as reader:
        for batch in reader.batches():
            report.records += len(batch)
            report.nbytes += batch.nbytes
            if on_progress is not None:
                framed = report.nbytes + FRAME_OVERHEAD * report.records
                on_progress(Progress(report.records, framed, 0, dataset.num_records))
            yield batch


def _read_through(
    dataset: Dataset,
    report: VerifyReport,
    max_record_bytes: int,
    on_progress: OnProgress | None,
) -> None:
    """Read everything. Streams that others compressed are read as such, as other programs read
    them: their own checksums count too. If one is damaged, its checkpoints say what is lost."""
    streams = dataset.without_checkpoints()
    for _ in _sound_batches(streams, report, max_record_bytes, on_progress):
        pass
    if not report.skipped or streams is dataset:
        return
    closer = VerifyReport()
    for _ in _sound_batches(dataset, closer, max_record_bytes, on_progress):
        pass
    if closer.skipped:
        report.records, report.nbytes, report.skipped = (
            closer.records,
            closer.nbytes,
            closer.skipped,
        )


def _listed_twice(dataset: Dataset) -> Iterator[str]:
    """The shards that a long list names more than once. Of a page, and of a short list, it is
    checked whenever one is read."""
    names: set[str] = set()
    for i, shard in enumerate(dataset.paged or ()):
        if shard.name in names:
            yield f"{dataset.shard(i).url}: the list of shards names it more than once"
        names.add(shard.name)


def _object_problem(dataset: Dataset, index: int, *, quick: bool) -> tuple[str | None, bool]:
    """How an object differs from what its manifest says, or None; and whether it is there."""
    try:
        return _difference(dataset, index, quick=quick), True
    except FileNotFoundError:
        return f"{dataset.shard(index).url}: is missing", False


def _difference(dataset: Dataset, index: int, *, quick: bool) -> str | None:
    """How an object differs, or None. ``quick``: by the store's own checksum."""
    shard = dataset.shard(index)
    if shard.crc32c is None:
        if quick:
            raise ValueError(
                f"quick=True compares with a manifest, and {shard.url} has none; verify it whole"
            )
        return None
    store, path = dataset.open(index)
    info = store.info(path)
    if info.size != shard.nbytes:
        return f"{shard.url}: has {info.size} bytes where the manifest says {shard.nbytes}"
    by_store = quick or shard.is_part  # only a part's records are read, and not all of the file
    crc = info.crc32c if by_store else object_crc32c(dataset, index)
    if crc not in (None, shard.crc32c):
        return f"{shard.url}: has CRC32C {crc:08x} where the manifest says {shard.crc32c:08x}"
    return None
