"""Files of tables: Parquet, CSV, JSON lines and Arrow IPC, read and written in pieces. Needs
pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tfio_store.dataset.model import Dataset
from tfio_store.example.schema import Schema
from tfio_store.records.texts import unknown
from tfio_store.storage.stored_file import OutputFile, StoredFile
from tfio_store.tables.formats import csv_texts, json_lines
from tfio_store.tables.formats.text_tables import Piece, text_tables

__all__ = ["FORMATS", "check_columns", "format_of", "read_tables", "without_query", "write_tables"]

FORMATS = ("parquet", "csv", "jsonl", "arrow")

_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip

_ROWS = 16 << 10


def format_of(name: str) -> str | None:
    """The format by the end of a file's name; None for all other names."""
    path = without_query(name).lower()
    return next((form for suffix, form in _SUFFIXES.items() if path.endswith(suffix)), None)


def without_query(name: str) -> str:
    """A web address without what follows its path. In other names ? is a part of a pattern."""
    return name.partition("?")[0] if name.startswith(("http://", "https://")) else name


def read_tables(
    dataset: Dataset, form: str, columns: list[str] | None, schema: Schema
) -> Iterator[Any]:
    """The rows of all files, as tables of a few rows each. The files must have the same columns.
    The types of texts are those in ``schema``, where it names them."""
    if form in _TEXTS:
        return text_tables(partial(_pieces, dataset, form), form, columns, schema)
    return _typed(dataset, form, columns)


def _pieces(dataset: Dataset, form: str) -> Iterator[Piece]:
    for url, file in _opened(dataset):
        with _naming(url, form):
            yield from ((url, rows, columns) for rows, columns in _TEXTS[form].pieces_of(file))


def _typed(dataset: Dataset, form: str, columns: list[str] | None) -> Iterator[Any]:
    """The tables of each file. The first has no rows: columns may be all that a file has."""
    import pyarrow as pa

    for url, file in _opened(dataset):
        with _naming(url, form):
            schema, batches = _READERS[form](pa, pa.PythonFile(file, mode="r"), columns)
            yield schema.empty_table()
            for batch in batches:
                yield pa.Table.from_batches([batch])


def _opened(dataset: Dataset) -> Iterator[tuple[str, StoredFile]]:
    for index, shard in enumerate(dataset.shards):
        store, path = dataset.open(index)
        with StoredFile(store, path, shard.nbytes, shard.version) as file:
            yield shard.url, file


@contextlib.contextmanager
def _naming(url: str, form: str) -> Iterator[None]:
    """Errors name the file."""
    import pyarrow as pa

    try:
        yield
    except (
        ValueError,
        pa.ArrowNotImplementedError,
        pa.ArrowKeyError,
        pa.ArrowIndexError,
        pa.ArrowMemoryError,
    ) as error:
        raise ValueError(f"{url}: cannot be read as {form}: {error}") from error


def _parquet(pa: Any, file: Any, columns: list[str] | None) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    found = pq.ParquetFile(file)
    schema = _selected(found.schema_arrow.empty_table(), columns).schema
    return schema, found.iter_batches(_ROWS, columns=columns)


def _arrow(pa: Any, file: Any, columns: list[str] | None) -> tuple[Any, Iterator[Any]]:
    try:
        found = pa.ipc.open_file(file)
        batches = (found.get_batch(i) for i in range(found.num_record_batches))
    except pa.ArrowInvalid:
        file.seek(0)
        found = batches = pa.ipc.open_stream(file)
    schema = _selected(found.schema.empty_table(), columns).schema
    return schema, (_validated(_selected(batch, columns)) for batch in batches)


def _validated(batch: Any) -> Any:
    """Arrow uses the offsets of a file as they are: those beyond it would read other memory."""
    batch.validate(full=True)
    return batch


_READERS: dict[str, Callable[..., tuple[Any, Iterator[Any]]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
}

_TEXTS: dict[str, Any] = {"csv": csv_texts, "jsonl": json_lines}


def _selected(batch: Any, columns: list[str] | None) -> Any:
    if columns is None:
        return batch
    check_columns(columns, batch.schema.names)
    return batch.select(columns)


def check_columns(columns: Sequence[str] | None, names: list[str]) -> None:
    """ValueError unless there are such columns."""
    for name in columns or ():
        if name not in names:
            raise ValueError(unknown("column", name, names))


def write_tables(batches: Any, form: str, file: OutputFile) -> int:
    """Write a `pyarrow.RecordBatchReader`, and give the number of its rows."""
    import pyarrow as pa

    rows = 0
    sink = pa.PythonFile(file, mode="w")
    with _writing(form), _writer(pa, form, sink, batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


@contextlib.contextmanager
def _writing(form: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"{form} cannot hold this table: {error}") from error


def _writer(pa: Any, form: str, sink: Any, schema: Any) -> Any:
    if form == "parquet":
        import pyarrow.parquet as pq

        return pq.ParquetWriter(sink, schema)
    if form == "csv":
        import pyarrow.csv as csv

        return csv.CSVWriter(sink, schema)
    return pa.ipc.new_file(sink, schema)
