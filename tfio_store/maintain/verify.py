"""`verify`: what is sound in a source, and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tfio_store.dataset.inflate.index import index_damage
from tfio_store.dataset.manifest import Loss
from tfio_store.dataset.model import Dataset, Limits, Shard, Shards
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.errors import printable
from tfio_store.maintain.build_index import object_crc32c
from tfio_store.maintain.watched import WatchedStorage
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, FRAME_OVERHEAD, RecordBatch
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.storage.store import DISTANT, LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped
from tfio_store.write.progress import OnProgress, Progress, check_on_progress


@dataclass
class VerifyReport:
    """The result of a pass over a source. ``ok`` is the answer; the rest says why.

    Attributes:
        records (int): Sound records. Default 0.
        nbytes (int): Their bytes, without framing. Default 0.
        skipped (list[SkippedRegion]): Damaged regions, whose records are lost. Default [].
        problems (list[str]): Objects that are not what the manifest says. Default [].
        quick (bool): Whether no record was read. Default False.
        lost (Loss | None): Records that are not there any more: those that `salvage` could not
            save, now or when the source was made. Default None.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> report = tfs.verify("train")
        >>> report.ok, report.records
        (True, 3)
    """

    records: int = 0
    nbytes: int = 0
    skipped: list[SkippedRegion] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    quick: bool = False
    lost: Loss | None = None

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
        lost = [] if self.lost is None else [f"lost in a salvage: {self.lost}"]
        return printable("\n".join([*lines, *self.problems, *lost]))


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
    Damage is reported, not raised. Records that an earlier `salvage` has lost are reported as
    ``lost``: they are no damage of these files, and ``ok`` does not count them.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        quick (bool): Only compare sizes, and checksums that the store reports, with those in the
            manifest. No file is read. Default False.
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
    report = VerifyReport(quick=quick, lost=dataset.lost)
    if quick:
        look_at_objects(dataset, report, quick=True)
        report.problems += _listed_twice(dataset)
        return report
    if not _is_sound(dataset, report, max_record_bytes, on_progress):
        report = VerifyReport(lost=dataset.lost)
        there = look_at_objects(dataset, report)
        report.problems += _listed_twice(dataset)
        _read_through(there, report, max_record_bytes, on_progress)
    expected = dataset.num_records
    if expected is not None and expected != report.records and report.ok:
        report.problems.append(
            f"the manifest or index counts {expected} records, and {report.records} are there"
        )
    return report


def _is_sound(
    dataset: Dataset,
    report: VerifyReport,
    max_record_bytes: int,
    on_progress: OnProgress | None,
) -> bool:
    """Whether each object is what its manifest says, and has sound records only, which ``report``
    counts. Both are seen of the same bytes, which are read once from a distant store. What is
    wrong, and where, needs a closer look. False also if the files are near."""
    if not len(dataset.shards) or dataset.open(0)[0].in_flight < DISTANT:
        return False
    watched = WatchedStorage(dataset.storage)
    looked = list(
        mapped(
            partial(_object_problem, dataset, by_store=True),
            range(len(dataset.shards)),
            LOOKS_AT_ONCE,
        )
    )
    if any(problem is not None for problem, _ in looked) or any(_listed_twice(dataset)):
        return False
    seen = replace(dataset, storage=watched.as_storage())
    for _ in sound_batches(seen.without_checkpoints(), report, max_record_bytes, on_progress):
        pass
    if report.skipped:
        return False
    shards = (dataset.shard(i) for i in range(len(dataset.shards)))
    return all(
        watched.crc32c(shard.address, shard.nbytes) == shard.crc32c
        for shard in shards
        if shard.crc32c is not None and not shard.is_part
    )


def look_at_objects(
    dataset: Dataset,
    report: VerifyReport,
    *,
    quick: bool = False,
    absent: type[OSError] = FileNotFoundError,
) -> Dataset:
    """Report each object that is not what its manifest says. Returns the dataset of those that are
    there, of which a reader expects nothing: they are reported already. ``absent``: the failure of
    a store by which an object counts as not there."""
    look = partial(_object_problem, dataset, by_store=quick, quick=quick, absent=absent)
    found = list(mapped(look, range(len(dataset.shards)), LOOKS_AT_ONCE if quick else 1))
    report.problems += [problem for problem, _ in found if problem is not None]
    if all(problem is None for problem, _ in found):
        return dataset
    shards = zip(dataset.shards, found, strict=True)
    return replace(dataset, shards=Shards(_plain(one) for one, (_, there) in shards if there))


def _plain(shard: Shard) -> Shard:
    table = shard.blocks
    blocks = None if table is None else replace(table.without_starts(), sums=None)
    return shard.known(blocks=blocks, crc32c=None)


def sound_batches(
    dataset: Dataset,
    report: VerifyReport,
    max_record_bytes: int,
    on_progress: OnProgress | None,
) -> Iterator[RecordBatch]:
    """Iterate the sound records, and keep the report meanwhile."""
    with RecordReader.of(
        dataset, on_corrupt=report.skipped.append, max_record_bytes=max_record_bytes
    ) as reader:
        for batch in reported(reader, on_progress, dataset.num_records):
            report.records += len(batch)
            report.nbytes += batch.nbytes
            yield batch


def reported(
    reader: RecordReader, on_progress: OnProgress | None, whole: int | None
) -> Iterator[RecordBatch]:
    """The batches of a reader. Who asked is told of each what is read so far."""
    records = nbytes = 0
    for batch in reader.batches():
        records, nbytes = records + len(batch), nbytes + batch.nbytes
        if on_progress is not None:
            framed = nbytes + FRAME_OVERHEAD * records
            on_progress(Progress(records, framed, 0, whole))
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
    for _ in sound_batches(streams, report, max_record_bytes, on_progress):
        pass
    if streams is dataset:
        return
    damage = [index_damage(dataset, shard) for shard in dataset.shards]
    report.problems += filter(None, damage)
    if not report.skipped or report.problems:
        return
    closer = VerifyReport()
    for _ in sound_batches(dataset, closer, max_record_bytes, on_progress):
        pass
    if closer.skipped:
        report.records, report.nbytes, report.skipped = (
            closer.records,
            closer.nbytes,
            closer.skipped,
        )


def _listed_twice(dataset: Dataset) -> Iterator[str]:
    """The shards that a manifest names more than once."""
    for number in dataset.shards.repeated():
        yield f"{dataset.shard(number).url}: the list of shards names it more than once"


def _object_problem(
    dataset: Dataset,
    index: int,
    *,
    by_store: bool,
    quick: bool = False,
    absent: type[OSError] = FileNotFoundError,
) -> tuple[str | None, bool]:
    """How an object differs from what its manifest says, or None; and whether it is there.
    ``by_store``: by the store's own checksum, if it has one."""
    try:
        return _difference(dataset, index, by_store=by_store, quick=quick), True
    except FileNotFoundError:
        return f"{dataset.shard(index).url}: is missing", False
    except absent as error:
        return f"{dataset.shard(index).url}: can't be reached: {error.strerror or error}", False


def _difference(dataset: Dataset, index: int, *, by_store: bool, quick: bool) -> str | None:
    """How an object differs, or None."""
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
    by_store |= shard.is_part  # only a part's records are read, and not all of the file
    crc = info.crc32c if by_store else object_crc32c(dataset, index)
    if crc not in (None, shard.crc32c):
        return f"{shard.url}: has CRC32C {crc:08x} where the manifest says {shard.crc32c:08x}"
    return None
