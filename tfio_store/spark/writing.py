"""Writing: a task for each partition of the data frame, and one commit.

Spark makes the writer in one Python process, pickles it into the tasks' processes, commits in
another, and if that raises, aborts in yet another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tfio_store.dataset.source_names import refuse_number
from tfio_store.example.arrow import from_arrow
from tfio_store.example.schema import Schema
from tfio_store.spark.options import WriteOptions
from tfio_store.spark.types import arrow_schema, features_of, is_bytes
from tfio_store.tables.table_parts import parts_of
from tfio_store.tables.write_table import TableEncoder, TableJob
from tfio_store.write.write_job import WriteJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def writer_of(options: WriteOptions, columns: StructType) -> _Writer:
    """Begin a job. ValueError or TypeError, and no job, for columns that can't be written."""
    _check_columns(columns)
    types = arrow_schema(columns)
    as_bytes = options.record_type == "ByteArray"
    if as_bytes and not is_bytes(columns):
        raise ValueError(
            'recordType "ByteArray" writes a data frame of one binary column, not '
            f"{columns.simpleString()}"
        )
    schema = options.schema or _sequences(columns, options)
    if not as_bytes:
        (part,) = parts_of(types.empty_table(), nan_as_null=False, flatten=False)
        TableEncoder(part, schema or Schema({}), {})
    refuse_number(options.url)
    how: dict[str, Any] = {"if_exists": options.if_exists, **options.job}
    if as_bytes:
        return RecordWriter(WriteJob(options.url, **how), options.max_shard_bytes)
    most = options.max_shard_bytes
    tables = TableJob.begin(options.url, schema=schema, max_shard_bytes=most, **how)
    return ExampleWriter(tables, types.empty_table())


def _check_columns(columns: StructType) -> None:
    if not columns.fields:
        raise ValueError("the data frame has no columns, and its rows would be no records")
    for field in columns.fields:
        kind = field.dataType
        while kind.typeName() == "array":
            kind = kind.elementType
        if kind.typeName() in ("struct", "map", "variant"):
            raise TypeError(
                f"column {field.name!r} is {field.dataType.simpleString()}, which no feature is; "
                f"make columns of its fields, as select('{field.name}.*') does of a struct, or "
                "text by to_json()"
            )


def _sequences(columns: StructType, options: WriteOptions) -> Schema | None:
    """The feature lists among the columns, if the records are to be SequenceExamples."""
    if options.record_type != "SequenceExample":
        return None
    known = features_of(columns, options.record_type, every=False)
    lists = {name: feature for name, feature in known.items() if feature.sequence}
    if not lists:
        raise ValueError(
            'recordType "SequenceExample" writes columns of array<array<…>> as feature lists, and '
            f"there is none in {columns.simpleString()}"
        )
    return Schema(lists)


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """The message of a task to the driver."""

    result: Any


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    """Spark pickles it. ``job`` is a `WriteJob`, or a `TableJob`."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def write(self, iterator: Iterator[Any]) -> Written:
        """One attempt at one task. The partition's number is its place in the dataset."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return Written(self._write(iterator, context.partitionId()))

    def commit(self, messages: list[Written | None]) -> None:
        """In the order of the partitions."""
        if messages == [None]:  # a data frame without partitions has no task either
            self._job.commit(self._of_no_task())
            return
        lost = [number for number, message in enumerate(messages) if message is None]
        if lost:
            raise ValueError(f"tasks {lost[:20]} have sent nothing; what they wrote is not known")
        self._job.commit([message.result for message in messages if message is not None])

    def abort(self, messages: list[Written | None]) -> None:
        """Remove what tasks wrote, but for what has landed or may land yet."""
        self._job.abort()

    def _write(self, batches: Iterator[Any], order: int) -> Any:
        raise NotImplementedError

    def _of_no_task(self) -> list[Any]:
        """The result for the commit where no task has run."""
        return []


class ExampleWriter(_Writer):
    """Writes rows as Examples. The table without rows has the types of all tasks, also of those
    without any. Sessions differ in zones, and in whether offsets of text have 32 bits or 64."""

    def __init__(self, job: TableJob, no_rows: Any) -> None:
        super().__init__(job)
        self._no_rows = no_rows

    def _write(self, batches: Iterator[Any], order: int) -> Any:
        types = self._no_rows.schema
        same = (batch.cast(types) for batch in batches)
        return self._job.write(chain([self._no_rows], same), order)

    def _of_no_task(self) -> list[Any]:
        """It shows the columns. Once the dataset is there, a task comes too late."""
        return [] if self._job.has_landed() else [self._write(iter(()), 0)]


class RecordWriter(_Writer):
    """Writes the byte strings of one column as records."""

    def __init__(self, job: WriteJob, max_shard_bytes: int) -> None:
        super().__init__(job)
        self._max_shard_bytes = max_shard_bytes

    def _write(self, batches: Iterator[Any], order: int) -> Any:
        with self._job.open(order, max_shard_bytes=self._max_shard_bytes) as writer:
            for batch in batches:
                (name,), (column,) = batch.schema.names, batch.columns
                if column.null_count:
                    raise ValueError(f"column {name!r} has nulls, and no record is one")
                writer.write_batch(from_arrow(name, column))
        return writer.result
