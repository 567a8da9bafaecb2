"""`write_table`: a table as a dataset of Examples. `TableJob`: the same from the tasks of a job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.dataset.source_names import numbered_target
from tfio_store.example.arrow_types import without_open
from tfio_store.example.codec import SchemaLike, encode_rows
from tfio_store.example.feature import Feature
from tfio_store.example.growth import grown
from tfio_store.example.ragged import Nullable, Ragged, apart
from tfio_store.example.schema import Schema, WholeRecords, written_schema
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Storage
from tfio_store.tables.table_parts import Part, Types, is_one_table, parts_of
from tfio_store.tables.table_schema import TableSchema, TaskSchema, joined_schema, kept_features
from tfio_store.write.appended import check_appendable, schema_of_both
from tfio_store.write.commit import KEEP_REPLACED
from tfio_store.write.placement import InRuns
from tfio_store.write.progress import OnProgress
from tfio_store.write.sharded_writer import ShardedWriter
from tfio_store.write.task import Order, TaskResult, TaskWriter
from tfio_store.write.write_job import WriteJob

# The common part of the doors of engines.


@contextmanager
def needs(extra: str, *packages: str) -> Iterator[None]:
    """Where one of these packages is not installed, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in (extra, *packages):
            raise
        raise ModuleNotFoundError(
            f"tfio_store.{extra} needs {missing}, which is not installed: "
            f"pip install 'tfio_store[{extra}]'",
            name=missing,
        ) from error


# The rows of a table that comes in parts, as Examples of one schema.


_SLICE_BYTES = 4 << 20


def chosen_schema(schema: SchemaLike | Literal["bytes"] | None) -> Schema:
    """Read ``schema=`` of a writer of tables: "bytes", or as `written_schema`."""
    if isinstance(schema, str) and schema == "bytes":
        return WholeRecords()
    return written_schema({} if schema is None else schema)


def encoder_of(
    first: Part, chosen: Schema, kept: Mapping[str, Feature], *, exact: bool = False
) -> TableEncoder | RecordEncoder:
    """The encoder of tables like the ``first`` part."""
    if isinstance(chosen, WholeRecords):
        return RecordEncoder()
    return TableEncoder(first, chosen, kept, exact=exact)


class RecordEncoder:
    """Takes records that are there already out of tables of one column. It has no schema, as
    records are not looked into."""

    features = schema = None
    undecided: frozenset[str] = frozenset()

    def batches(self, part: Part) -> Iterator[RecordBatch]:
        """The records of a part. ValueError or TypeError for other columns."""
        if not part.columns:
            return
        if len(part.columns) > 1:
            raise ValueError(
                f'schema="bytes" writes one column of bytes as records; there are '
                f"{', '.join(map(repr, part.columns))}"
            )
        ((name, column),) = part.columns.items()
        values, valid = apart(column)
        if valid is not None and not valid.all():
            raise ValueError(f"column {name!r}: row {int(valid.argmin())} is null, and no record")
        if not isinstance(values, RecordBatch | list):
            values = [values]  # which are no bytes
        if isinstance(values, RecordBatch):
            yield values
            return
        if len(values) and not all(isinstance(value, bytes | bytearray) for value in values):
            raise TypeError(f'column {name!r}: schema="bytes" writes a column of bytes as records')
        yield RecordBatch.from_records(values)


class TableEncoder:
    """Encodes one part after another. The first one has the columns. ``chosen`` features are
    heeded, and the ``kept`` ones are those of the dataset that the table is appended to."""

    def __init__(
        self, first: Part, chosen: Schema, kept: Mapping[str, Feature], *, exact: bool = False
    ) -> None:
        self._schema = TableSchema(first, chosen, kept, exact=exact)
        self._types = Types(self._schema.without_types)
        self._rows = 0

    @property
    def features(self) -> Schema:
        """The schema that the parts so far show."""
        return self._schema.now

    @property
    def schema(self) -> Schema:
        """The same with the Arrow types of the columns."""
        types = self._types.packed()
        decided = self._schema.now.keys() - self._schema.undecided
        return Schema(self._schema.now, arrow=types and without_open(types, decided))

    @property
    def undecided(self) -> set[str]:
        """The columns that held nothing yet that shows their type."""
        return self._schema.undecided

    def batches(self, part: Part) -> Iterator[RecordBatch]:
        """The records of a part, some MiB at a time. Errors count rows from the first part's
        first."""
        self._schema.heed(part)
        self._types.heed(part, self._schema.narrowed)
        columns, untyped = part.columns, self._schema.untyped(part)
        exact = self._schema.exact
        rows = max((len(column) for column in columns.values()), default=0)
        step = max(1, _SLICE_BYTES * rows // max(1, sum(map(_nbytes, columns.values()))))
        for start in range(0, max(rows, 1), step):  # a part without rows is held to the schema too
            some = {name: column[start : start + step] for name, column in columns.items()}
            first = self._rows + start
            yield encode_rows(some, self.features, first_row=first, exact=exact, untyped=untyped)
        self._rows += rows


def _nbytes(column: Any) -> int:
    """About how much memory a column's values take."""
    if isinstance(column, Ragged):
        return int(column.row_splits.nbytes) + _nbytes(column.values)
    if isinstance(column, list):
        return sum(map(len, column)) + 8 * len(column)
    if isinstance(column, Nullable):
        return column.valid.nbytes + _nbytes(column.values)
    return int(column.nbytes)


def write_table(
    table: Any,
    url: str | os.PathLike[str],
    *,
    schema: SchemaLike | Literal["bytes"] | None = None,
    exact: bool = False,
    nan_as_null: bool = False,
    flatten: bool = False,
    num_shards: int | None = None,
    max_shard_bytes: int | None = None,
    compression: str | None = None,
    if_exists: Any = "error",
    keep_replaced: float = KEEP_REPLACED,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> DatasetManifest:
    """Write each row of a table as an Example. `read_table` gives the same table back.

    Integers, bools and times become int64, floats float32, strings bytes: what TensorFlow and all
    other readers of Examples expect. The manifest keeps dtypes, units and shapes. A warning names
    the float64 columns, which lose digits.

    By a schema with feature lists (``Feature(..., sequence=True)``) rows are SequenceExamples.

    Args:
        table (dict | DataFrame | Table | Iterable): A dict of columns (as for `encode_examples`), a
            pandas DataFrame (its index is not written), a pyarrow Table, whatever gives an Arrow C
            stream (``__arrow_c_stream__``); or an iterable of these with the same columns, which
            are written one after another. A null (see `encode_examples`) is a feature that the
            record lacks.
        url (str | PathLike): Folder and name, such as ``s3://bucket/folder/train``.
        schema (Schema | dict | str | None): How to write some or all of the columns. ``{"price":
            "float64"}`` keeps a column exactly, as raw memory, which ``tf.io.decode_raw`` reads.
            "bytes": the table has one column, of records to write as they are. A column of bytes
            that are serialized Examples is an error, if ``schema`` does not say what it is to
            become. Default None: as the dtypes say. Such a column is nullable if it has nulls; of
            the others the schema says so.
        exact (bool): Keep what int64 and float32 can't hold (float64, uint64, complex) as raw
            memory, in all columns that ``schema`` does not name. Default False: float64 is rounded,
            and what does not fit is an error.
        nan_as_null (bool): See `encode_examples`. Default False.
        flatten (bool): Make a column of each field of Arrow's structs: ``a`` and ``b.c`` of ``s``
            become ``s.a`` and ``s.b.c``. A null struct is a null in each, and they come back as
            such columns. Default False: a struct is an error.
        num_shards (int | None): So many shards, each with the next of equal runs of rows. Those of
            several tables, or of a stream, go round the shards in turn. Default None: rows are
            written in order, into shards of ``max_shard_bytes``.
        max_shard_bytes (int | None): See `ShardedWriter`. Default None: 256 MiB, if ``num_shards``
            is None too.
        compression (str | None): See `ShardedWriter`. Default None.
        if_exists (str): See `ShardedWriter`. Default "error". Rows to append are written as the
            dataset's schema says. Columns may be new to it, and others missing.
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        on_progress (Callable | None): See `ShardedWriter`. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        DatasetManifest: What was committed. It holds the schema.

    Raises:
        TypeError: The table, or a column, is of another kind than the function or the schema takes.
            The error names column, row and both types. Nothing is committed.
        ValueError: A value cannot be written or does not fit, or ``schema`` names what is no
            column.
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        IsADirectoryError: ``url`` is a folder that readers take for the dataset in it.
        OSError: The store fails.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> tfs.read_table("train", columns=["x"])
        {'x': array([1, 2])}
    """
    parts = parts_of(table, nan_as_null=nan_as_null, flatten=flatten)
    first = next(parts, Part())
    chosen = chosen_schema(schema)
    _, count, _ = numbered_target(url, num_shards)
    in_order = is_one_table(table) and isinstance(count, int) and count > 1
    runs = InRuns(first.rows, count) if in_order and count else None
    with ShardedWriter(
        url,
        shard_for=runs,
        num_shards=num_shards,
        max_shard_bytes=max_shard_bytes,
        compression=compression,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        on_progress=on_progress,
        storage_options=storage_options,
        storage=storage,
    ) as writer:
        kept = writer._kept()
        encoder = encoder_of(first, chosen, kept_features(kept), exact=exact)
        if encoder.features is not None:
            schema_of_both(kept, encoder.features.to_json())
            writer._count(encoder.features)
        for part in chain([first], parts):
            for batch in encoder.batches(part):
                writer.write_batch(batch)
        if encoder.schema is not None:
            writer._keep_schema(encoder.schema)
    return writer.manifest


Encoder: TypeAlias = TableEncoder | RecordEncoder


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """The result of one task of a `TableJob`. It is small, and pickles."""

    result: TaskResult
    schema: TaskSchema | None
    """None of a task that saw no columns."""

    def to_json(self) -> dict[str, Any]:
        schema = None if self.schema is None else self.schema.to_json()
        return {"result": self.result.to_json(), "schema": schema}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WrittenTable:
        kept = document["schema"]
        schema = None if kept is None else TaskSchema.from_json(kept)
        return cls(TaskResult.from_json(document["result"]), schema)


class TableTask:
    """One attempt at a task: takes one table after another. `TableJob.open` makes it.

    ``encoder`` makes what encodes tables like a first one.
    """

    def __init__(
        self, writer: TaskWriter, encoder: Callable[[Part], Encoder], *, nan_as_null: bool
    ) -> None:
        self._writer = writer
        self._make = encoder
        self._nan_as_null = nan_as_null
        self._encoder: Encoder | None = None
        self._empty: Part | None = None

    def write(self, table: Any) -> None:
        """Write the rows of a table, or of several. After an error, `abort`."""
        for part in parts_of(table, nan_as_null=self._nan_as_null, flatten=False):
            if not any(map(len, part.columns.values())):
                self._empty = part if part.columns else self._empty
                continue
            if self._encoder is None:
                self._encoder = self._make(part)
                self._writer._count(self._encoder.features or Schema({}))
            for batch in self._encoder.batches(part):
                self._writer.write_batch(batch)

    def close(self) -> WrittenTable:
        """End the task. See `TaskWriter.close`."""
        result = self._writer.close()
        if self._encoder is None and self._empty is not None:
            self._encoder = self._make(self._empty)
            list(self._encoder.batches(self._empty))  # so that it heeds the types
        encoder = self._encoder
        if encoder is None or encoder.schema is None:
            return WrittenTable(result, None)
        return WrittenTable(result, TaskSchema(encoder.schema, tuple(encoder.undecided)))

    def abort(self) -> None:
        """Remove what was written. See `TaskWriter.abort`."""
        self._writer.abort()


class TableJob:
    """Writes tables from many processes. It pickles; the driver commits.

    ``job`` is a `WriteJob` without a number of shards and without a schema. ``schema``, ``exact``
    and ``nan_as_null`` are those of `write_table`.
    """

    def __init__(
        self,
        job: WriteJob,
        *,
        schema: SchemaLike | Literal["bytes"] | None = None,
        exact: bool = False,
        nan_as_null: bool = False,
        max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    ) -> None:
        self._job = job
        self._chosen = chosen_schema(schema)
        self._exact = exact
        self._nan_as_null = nan_as_null
        self._max_shard_bytes = max_shard_bytes
        kept = job._kept()
        if not isinstance(self._chosen, WholeRecords):
            check_appendable(kept)
        self._known = kept_features(kept)
        self._kept = kept.schema if kept is not None and kept.records else None

    @classmethod
    def begin(
        cls,
        url: str | os.PathLike[str],
        *,
        schema: SchemaLike | Literal["bytes"] | None = None,
        nan_as_null: bool = False,
        max_shard_bytes: int = DEFAULT_SHARD_BYTES,
        **options: Any,
    ) -> TableJob:
        """Begin a job. ``options`` are those of `WriteJob`. None is left where this raises."""
        job = WriteJob(url, **options)
        try:
            return cls(job, schema=schema, nan_as_null=nan_as_null, max_shard_bytes=max_shard_bytes)
        except BaseException:
            job.abort()
            raise

    def open(self, order: Order = None) -> TableTask:
        """Begin one attempt at a task. See `WriteJob.open`."""
        writer = self._job.open(order, max_shard_bytes=self._max_shard_bytes)
        return TableTask(writer, self._encoder, nan_as_null=self._nan_as_null)

    def write(self, tables: Iterable[Any], order: Order = None) -> WrittenTable:
        """Write the rows of a task's tables, one table after another. Of tables without rows only
        the last one has a schema, if no other does."""
        task = self.open(order)
        try:
            for table in tables:
                task.write(table)
            return task.close()
        except BaseException:
            task.abort()
            raise

    def _encoder(self, first: Part) -> Encoder:
        encoder = encoder_of(first, self._chosen, self._known, exact=self._exact)
        if self._kept is not None and encoder.features is not None:
            # now, and not when all tasks have written
            grown(Schema.from_json(self._kept), encoder.features)
        return encoder

    def commit(self, written: Iterable[WrittenTable]) -> DatasetManifest:
        """Publish what tasks have written, in the order of their numbers. See `WriteJob.commit`.

        ValueError or TypeError if no schema describes what all tasks have written.
        """
        every = list(written)
        try:
            schema = _schema_of(_counted(every))
        except ValueError:
            if not self.has_landed():
                raise
            schema = None
        if schema is not None:
            self._job._keep_schema(schema)
        return self._job.commit(one.result for one in every)

    def has_landed(self) -> bool:
        """Whether the dataset is there, by this copy's commit or another's."""
        return self._job._has_landed()

    def abort(self) -> None:
        """See `WriteJob.abort`."""
        self._job.abort()


def _counted(written: Iterable[WrittenTable]) -> list[WrittenTable]:
    """The first attempt of each order, which is the one that the commit counts."""
    chosen: dict[object, WrittenTable] = {}
    for one in written:
        chosen.setdefault(one.result._task, one)
    return list(chosen.values())


def _schema_of(written: Sequence[WrittenTable]) -> Schema | None:
    """One schema of all tasks. Those without records count only if none has any: what has no row
    is often of a type that was not chosen."""
    full = [one for one in written if one.result.num_records] or written
    return joined_schema((_name(one), one.schema) for one in full if one.schema is not None)


def _name(one: WrittenTable) -> str:
    """The name of the task, for errors."""
    result = one.result
    return f"attempt {result.attempt}" if result.order is None else f"task {result.order}"
