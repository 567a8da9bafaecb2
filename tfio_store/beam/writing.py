"""`WriteToTFRecord`.

::

    one None ── begin the job ── Reshuffle ──┬───────────────────────────┐
                                             │ (side input)              │ (side input)
    elements ─────────────── write a bundle, or what has one number ── commit ── Reshuffle ── URLs

What comes out of a Reshuffle is kept: a step behind it that is tried again gets the same. So there
is one job, however often it was begun, and the commit gets the results of the attempts that count.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.options.value_provider import ValueProvider
from apache_beam.pvalue import AsIter, AsSingleton
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from tfio_store.beam.reading import codec_of, decoder_of, is_told, told
from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.dataset.source_names import numbered_target, refuse_number
from tfio_store.example.codec import SchemaLike
from tfio_store.example.schema import Schema
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.tables.read_table import row_types
from tfio_store.tables.write_table import TableJob, chosen_schema
from tfio_store.write.commit import KEEP_REPLACED, IfExists, Names, Plan
from tfio_store.write.write_job import WriteJob

_MOST_RECORDS, _MOST_BYTES = 1024, 1 << 20
"""Bytes of records that are written in one go."""


class RecordTask:
    """A task's records: bytes, or what a coder makes bytes of, or mappings."""

    def __init__(self, job: WriteJob, coder: Any, order: int | None, most: int) -> None:
        self._writer = job.open(order, max_shard_bytes=most)
        self._encode = (lambda record: record) if coder is None else coder.encode
        self._waiting: list[Any] = []
        self._nbytes = 0

    def write(self, element: Any) -> None:
        record = self._encode(element)
        self._waiting.append(record)
        self._nbytes += len(record) if hasattr(record, "__len__") else 0  # which is refused below
        if len(self._waiting) >= _MOST_RECORDS or self._nbytes >= _MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._nbytes = self._waiting, [], 0
        self._writer.write_batch(waiting)

    def close(self) -> Any:
        self._flush()
        return self._writer.close()

    def abort(self) -> None:
        self._writer.abort()


@dataclass(frozen=True, repr=False)
class _Begin:
    """Begins a job. Beam shows what it calls as text."""

    url: Any
    """A path, a URL, or a template's parameter."""
    batched: bool
    schema: Schema | None
    max_shard_bytes: int
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"begin {redacted(str(self.url))}"

    def __call__(self, _: None) -> WriteJob | TableJob:
        url = told(self.url)
        refuse_number(url)
        if not self.batched:
            return WriteJob(url, schema=self.schema, **self.options)
        most = self.max_shard_bytes
        return TableJob.begin(url, schema=self.schema, max_shard_bytes=most, **self.options)


@dataclass(frozen=True)
class _Tasks:
    """Opens tasks of a job."""

    coder: Any
    max_shard_bytes: int

    def open(self, job: WriteJob | TableJob, order: int | None) -> Any:
        if isinstance(job, TableJob):
            return job.open(order)
        return RecordTask(job, self.coder, order, self.max_shard_bytes)


class _WriteBundles(beam.DoFn):  # type: ignore[misc]
    """A bundle is a task. Of one that is tried again, the results of one attempt come through."""

    def __init__(self, tasks: _Tasks) -> None:
        self._tasks = tasks
        self._task: Any = None

    def start_bundle(self) -> None:
        self._abandon()

    def process(self, element: Any, job: Any) -> None:
        if self._task is None:
            self._task = self._tasks.open(job, None)
        try:
            self._task.write(element)
        except BaseException:
            self._abandon()
            raise

    def finish_bundle(self) -> Iterator[WindowedValue]:
        task, self._task = self._task, None
        if task is not None:
            yield WindowedValue(task.close(), GlobalWindow().max_timestamp(), [GlobalWindow()])

    def teardown(self) -> None:
        self._abandon()

    def _abandon(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.abort()


class _WriteNumbered(beam.DoFn):  # type: ignore[misc]
    """All elements of one number are a task, which comes to this place of the dataset."""

    def __init__(self, tasks: _Tasks) -> None:
        self._tasks = tasks

    def process(self, element: tuple[int, Iterable[Any]], job: Any) -> Iterator[Any]:
        number, elements = element
        task = self._tasks.open(job, number)
        try:
            for each in elements:
                task.write(each)
        except BaseException:
            task.abort()
            raise
        yield task.close()


class _Number(beam.DoFn):  # type: ignore[misc]
    """Gives elements their numbers in turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    def start_bundle(self) -> None:
        self._next = random.randrange(self._count)

    def process(self, element: Any) -> Iterator[tuple[int, Any]]:
        yield self._next, element
        self._next = (self._next + 1) % self._count


def _commit(job: WriteJob | TableJob, results: Iterable[Any], begun: _Begin) -> str:
    """Once or more often, in any process."""
    written = list(results)
    if isinstance(job, TableJob) and not written and begun.schema is not None:
        written = _of_no_rows(job, begun.schema)
    job.commit(written)
    return str(told(begun.url))


def _of_no_rows(job: TableJob, schema: Schema) -> list[Any]:
    """No bundle has columns. Once the dataset is there, tasks come too late."""
    return [] if job.has_landed() else [job.write([row_types(schema).empty_table()])]


class WriteToTFRecord(beam.PTransform):  # type: ignore[misc]
    """Writes a PCollection as one dataset: `apache_beam.io.WriteToTFRecord` for any storage.

    The dataset becomes visible by one commit when all is written, or not at all. Nothing is copied
    or renamed. Tasks and the commit may run twice. What a failed pipeline left is no part of a
    dataset, and `clean` removes it. The result is a PCollection of one element: the URL, once the
    dataset is there. `ReadAllFromTFRecord` reads it.

    Elements are bytes, or mappings, which are encoded as Examples.

    Args:
        file_path_prefix (str | PathLike | ValueProvider): Folder and name of the dataset, such as
            ``s3://bucket/folder/train``; or a template's parameter.
        coder (Coder): Encodes each element. Default ``BytesCoder()``: elements are bytes or
            mappings.
        file_name_suffix (str): "" or ".tfrecord", which is the suffix in any case. Default "".
        num_shards (int): How many shards to write at most. Elements go round them in turn, which
            costs a shuffle. Default 0: each bundle writes its own.
        shard_name_template (str | None): Only None. ``names="plain"`` gives names that end in
            ``-SSSSS-of-NNNNN.tfrecord``. Default None.
        compression_type (str): A `CompressionTypes` of Beam. Default AUTO: none.
        batched (bool): Elements are tables, as `write_table` takes one, such as a
            ``pyarrow.RecordBatch``. Default False.
        schema (Schema | dict | str | None): See `ShardedWriter`; with ``batched``, `write_table`.
            Default None.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        names (str): See `WriteJob`. Default "tagged".
        max_shard_bytes (int): See `WriteJob.open`. It does not count with ``num_shards``. Default
            256 MiB.
        storage_options (dict | None): See `RecordReader`. They travel with the pipeline. Default
            None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        TypeError: The prefix is no path.
        ValueError: An argument is not as described, or the PCollection is unbounded.

    Example:
        >>> import apache_beam as beam
        >>> from tfio_store.beam import WriteToTFRecord
        >>> with beam.Pipeline("FnApiRunner") as pipeline:
        ...     rows = pipeline | beam.Create([{"x": 1}, {"x": 2}])
        ...     url = rows | WriteToTFRecord("train", schema={"x": "int64"})
        >>> sorted(tfs.read_table("train")["x"].tolist())
        [1, 2]
    """

    def __init__(
        self,
        file_path_prefix: str | os.PathLike[str] | ValueProvider,
        coder: Any = BytesCoder(),  # noqa: B008
        file_name_suffix: str = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        *,
        batched: bool = False,
        schema: SchemaLike | Literal["bytes"] | None = None,
        if_exists: IfExists = "error",
        keep_replaced: float = KEEP_REPLACED,
        names: Names = "tagged",
        max_shard_bytes: int = DEFAULT_SHARD_BYTES,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        super().__init__()
        _check_url(file_path_prefix)
        _check(file_name_suffix, num_shards, shard_name_template)
        if is_told(file_path_prefix):
            file_path_prefix, num_shards = _numbered(told(file_path_prefix), num_shards)
        codec = codec_of(compression_type, auto=None)
        Plan(if_exists, codec, keep_replaced)  # it checks them now, and not in a worker
        _check_job(names, max_shard_bytes)
        options: dict[str, Any] = {
            "compression": codec,
            "if_exists": if_exists,
            "keep_replaced": keep_replaced,
            "names": names,
            "storage": given_storage(storage_options, storage),
        }
        most = 1 << 62 if num_shards else max_shard_bytes
        known = None
        if schema is not None:
            known = chosen_schema(schema) if batched else Schema.of(schema)
        self._begin = _Begin(file_path_prefix, batched, known, most, options)
        self._num_shards = num_shards
        self._tasks = _Tasks(decoder_of(coder, batched=batched), most)

    def expand(self, elements: Any) -> Any:
        """Beam calls it.

        Args:
            elements (PCollection): What to write.

        Returns:
            PCollection: The URL, once the dataset is there.

        Raises:
            ValueError: The PCollection is unbounded.

        Example:
            >>> rows | WriteToTFRecord("train")  # .expand(rows)  # doctest: +SKIP
        """
        if not elements.is_bounded:
            raise ValueError(
                "WriteToTFRecord commits once, when all is written, and this PCollection has no "
                "end; write each window by a pipeline of its own"
            )
        job = (
            elements.pipeline
            | "Once" >> beam.Create([None])
            | "Begin" >> beam.Map(self._begin)
            | "Keep the job" >> beam.Reshuffle()
        )
        results = self._written(elements | beam.WindowInto(GlobalWindows()), AsSingleton(job))
        return (
            job
            | "Commit" >> beam.Map(_commit, AsIter(results), self._begin)
            | "Keep the commit" >> beam.Reshuffle().with_output_types(str)
        )

    def _written(self, elements: Any, job: Any) -> Any:
        if not self._num_shards:
            return elements | "Write bundles" >> beam.ParDo(_WriteBundles(self._tasks), job)
        numbered = elements | "Number" >> beam.ParDo(_Number(self._num_shards))
        grouped = numbered | "Group" >> beam.GroupByKey()
        return grouped | "Write shards" >> beam.ParDo(_WriteNumbered(self._tasks), job)


def _check_url(url: Any) -> None:
    """TypeError or ValueError for what is no URL, nor will be."""
    if not isinstance(url, (str, os.PathLike, ValueProvider)):
        raise TypeError(f"file_path_prefix must be a path or URL, not {type(url).__name__}")
    if url == "":
        raise ValueError("file_path_prefix: pass a path or URL, not an empty string")


def _numbered(url: Any, num_shards: int) -> tuple[Any, int]:
    """``train@16`` as its name and number. Bundles name their shards themselves."""
    name, count, template = numbered_target(url, num_shards or None)
    if template:
        raise ValueError(f'{redacted(str(url))}: shards always end in ".tfrecord"')
    return name, count or 0


def _check(suffix: str, num_shards: int, template: str | None) -> None:
    if suffix not in ("", ".tfrecord"):
        raise ValueError(f'file_name_suffix={suffix!r}: shards always end in ".tfrecord"')
    if template is not None:
        raise ValueError(
            f"shard_name_template={template!r}: shards have names of their own, which the manifest "
            'tells; names="plain" gives such as train-00000-of-00016.tfrecord'
        )
    if not isinstance(num_shards, int) or isinstance(num_shards, bool) or num_shards < 0:
        raise ValueError(f"num_shards must be a number of shards, or 0, not {num_shards!r}")


def _check_job(names: Names, max_shard_bytes: int) -> None:
    if names not in get_args(Names):
        raise ValueError(f'names must be "tagged" or "plain", not {names!r}')
    check_positive("max_shard_bytes", max_shard_bytes)
