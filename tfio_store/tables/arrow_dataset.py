"""`arrow_dataset`: a dataset of Examples for query engines, which scan it as a pyarrow Dataset."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
from pyarrow import acero

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.model import MEMORY_BUDGET
from tfio_store.dataset.source import Source, is_one, repeatable
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import unknown
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.tables.count import count
from tfio_store.tables.read_table import arrow_types, table_batches, whole_schema

# A pyarrow Dataset of Examples, and a scan of it.
#
# pyarrow's own Scanner would put threads of its own between: they read up to a gigabyte ahead, and
# read to the end when a scan is dropped. So scans are ours. pyarrow filters each batch.


Columns = Sequence[str] | Mapping[str, Any]
"""Names, or expressions by the names of what they make."""

_BATCH_ROWS = 1 << 17


class ExampleDataset(pds.Dataset):  # type: ignore[misc]
    """Rows and columns of Examples. Engines know a Dataset by its class; beneath this one there is
    none of Arrow's C++, so each method either goes through `scanner` or refuses."""

    def __init__(self, source: Source, features: Schema, where: Mapping[str, Any]) -> None:
        self._source = source
        self._features = features
        self._where = where
        self._types = arrow_types(features)

    @property
    def schema(self) -> Any:
        return self._types

    def scanner(
        self,
        columns: Columns | None = None,
        filter: Any = None,  # noqa: A002  pyarrow's name
        batch_size: int = _BATCH_ROWS,
        batch_readahead: int = 0,
        fragment_readahead: int = 0,
        fragment_scan_options: Any = None,
        use_threads: bool = True,
        cache_metadata: bool = True,
        memory_pool: Any = None,
    ) -> Any:
        """A scan. The arguments after ``batch_size`` say how pyarrow reads Arrow files."""
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        return Scan(self, columns, filter, batch_size)

    def batches(self, names: Sequence[str]) -> Generator[Any, None, None]:
        """The batches of these columns, one for each block."""
        wanted = self._features.select(names)
        read = partial(RecordReader, self._source, **self._where)
        return table_batches(read, self._source, wanted, arrow_types(wanted), None)

    def rows(self) -> int:
        """How many there are, by the index where there is one."""
        storage = {name: self._where[name] for name in self._where if name != "memory_budget"}
        return count(self._source, **storage)

    def __reduce__(self) -> tuple[Any, ...]:
        return ExampleDataset, (self._source, self._features, self._where)

    def __repr__(self) -> str:
        where = self._source
        said = f"{where}" if is_one(where) else f"{len(list(where))} sources"
        return f"<ExampleDataset of {redacted(said)}: {', '.join(self._types.names)}>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(
            "a dataset of TFRecords has no Arrow files and no Arrow plan beneath it: pass columns= "
            "and filter= to to_batches() or to_table(), and go on with what these give"
        )

    partition_expression = property(_refuse)
    filter = get_fragments = _get_fragments = replace_schema = take = _refuse
    join = join_asof = sort_by = _scanner_options = _refuse


class Scan:
    """Some columns of some rows, read anew by each call."""

    def __init__(
        self, dataset: ExampleDataset, columns: Columns | None, rows: Any, batch_size: int
    ) -> None:
        self.dataset_schema = dataset.schema
        names = tuple(self.dataset_schema.names)
        _check_kind(columns)
        self._dataset = dataset
        self._columns = names if columns is None else columns
        self._filter = rows
        self._batch_size = batch_size
        for name in () if isinstance(self._columns, Mapping) else self._columns:
            if name not in names:
                raise KeyError(unknown("column", name, names))
        self.projected_schema = self._applied(self.dataset_schema.empty_table()).schema
        self._needed = [name for name in names if self._needs(name)]

    def _needs(self, name: str) -> bool:
        """Whether the columns or the filter use this one: without it they can't be bound."""
        if not isinstance(self._columns, Mapping) and name in self._columns:
            return True
        if not isinstance(self._columns, Mapping) and self._filter is None:
            return False
        others = self.dataset_schema.remove(self.dataset_schema.get_field_index(name))
        try:
            self._applied(others.empty_table())
        except (pa.ArrowException, KeyError):
            return True
        return False

    def _applied(self, table: Any) -> Any:
        if self._filter is not None:
            table = _run(table, "filter", acero.FilterNodeOptions(self._filter))
        if not isinstance(self._columns, Mapping) or not self._columns:
            return table.select(list(self._columns))
        made = acero.ProjectNodeOptions(list(self._columns.values()), list(self._columns))
        return _run(table, "project", made)

    def to_batches(self) -> Generator[Any, None, None]:
        plain = self._filter is None and not isinstance(self._columns, Mapping)
        with closing(self._dataset.batches(self._needed)) as batches:
            for batch in batches:
                if plain:
                    yield from self._cut(batch.select(list(self._columns)))
                    continue
                for made in self._applied(_table_of(batch)).to_batches():
                    yield from self._cut(made)

    def _cut(self, batch: Any) -> Iterator[Any]:
        for start in range(0, batch.num_rows, self._batch_size):
            yield batch.slice(start, self._batch_size)

    def to_reader(self) -> Any:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> Any:
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> Any:
        found, held = [], 0
        with closing(self.to_batches()) as batches:
            while held < num_rows and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, num_rows - held))
                held += found[-1].num_rows
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        if self._filter is None:
            return self._dataset.rows()
        without = Scan(self._dataset, (), self._filter, self._batch_size)
        return sum(batch.num_rows for batch in without.to_batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def _check_kind(columns: Any) -> None:
    if isinstance(columns, Mapping) or columns is None:
        return
    if isinstance(columns, str | bytes) or not all(isinstance(name, str) for name in columns):
        raise TypeError(
            f"columns= takes a list of names, or a dict of expressions by name, not {columns!r}"
        )


def _table_of(batch: Any) -> Any:
    """The batch as a table. Arrow's engine counts rows by a column: where neither the columns nor
    the filter need one, it gets one of nulls."""
    if batch.num_columns:
        return pa.Table.from_batches([batch])
    rows = pa.table({"": pa.nulls(batch.num_rows)})
    return rows.replace_schema_metadata(batch.schema.metadata)


def _run(table: Any, step: str, options: Any) -> Any:
    """The result of one step of Arrow's engine on a table."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    plan = acero.Declaration.from_sequence([source, acero.Declaration(step, options)])
    return plan.to_table(use_threads=False).replace_schema_metadata(table.schema.metadata)


def arrow_dataset(
    source: Source,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Any:
    """Open a dataset of Examples for engines that scan pyarrow datasets. Needs pyarrow.

    DuckDB, Polars and others ask it for the columns and the rows of a query. Only these columns are
    decoded, and rows that a filter drops go no further. Each scan reads the dataset anew, as a
    stream: a few blocks and what is in flight are in memory. One that ends early stops reading.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        schema (Schema | dict | str | None): See `read_table`. Default None: what the manifest says.
            Without a manifest, what all records show: they are read here, once.
        columns (list[str] | None): The columns of the result. Default None: all of them.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        memory_budget (int): Bytes in flight while a scan reads. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        pyarrow.dataset.Dataset: It has ``schema``, ``scanner``, ``to_batches``, ``to_table``,
        ``head`` and ``count_rows``, which take ``columns=`` and ``filter=`` as pyarrow says.
        ``scanner().to_reader()`` is a ``pyarrow.RecordBatchReader``. It pickles as names, and what
        needs Arrow files (such as ``get_fragments``) is a NotImplementedError. The types are those
        of `iter_tables`. An error of a scan comes in its place, with path and offset.

    Raises:
        ImportError: pyarrow is not installed.
        KeyError: There is no such column.
        NoRecordsError: There are no records to infer a schema from.
        OSError: The storage fails.

    Example:
        >>> import pyarrow.compute as pc
        >>> _ = tfs.write_table({"x": [1, 2, 3], "name": ["a", "b", "c"]}, "train", num_shards=1)
        >>> dataset = tfs.arrow_dataset("train")
        >>> dataset.to_table(columns=["name"], filter=pc.field("x") > 1).to_pydict()
        {'name': ['b', 'c']}
    """
    check_positive("memory_budget", memory_budget)
    where: dict[str, Any] = {
        "storage": given_storage(storage_options, storage),
        "max_record_bytes": max_record_bytes,
        "memory_budget": memory_budget,
    }
    source = repeatable(source)  # each scan goes through it
    full = whole_schema(partial(RecordReader, source, **where), source, schema)
    wanted = full if columns is None else full.select(columns)
    arrow_types(wanted)  # says so if pyarrow is missing

    return ExampleDataset(source, wanted, where)
