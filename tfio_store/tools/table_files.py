"""Files of tables: Parquet, CSV, JSON lines and Arrow IPC, read and written in pieces. Needs
pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tfio_store.dataset.model import Dataset
from tfio_store.storage.stored_file import OutputFile, StoredFile

__all__ = ["FORMATS", "format_of", "read_tables", "write_tables"]

FORMATS = ("parquet", "csv", "jsonl", "arrow")

_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip

_ROWS = 16 << 10


def format_of(name: str) -> str | None:
    """The format that a file's name tells; None for all other names."""
    path = name.partition("?")[0].lower()
    return next((form for suffix, form in _SUFFIXES.items() if path.endswith(suffix)), None)


def read_tables(dataset: Dataset, form: str, columns: list[str] | None) -> Iterator[Any]:
    """The rows of all files, as Arrow tables of a few rows each. The files must have the same
    columns."""
    import pyarrow as pa

    for index, shard in enumerate(dataset.shards):
        store, path = dataset.open(index)
        file = pa.PythonFile(StoredFile(store, path, shard.nbytes, shard.version), mode="r")
        with file, _naming(shard.url, form):
            for batch in _READERS[form](pa, file, columns):
                yield pa.Table.from_batches([batch])


@contextlib.contextmanager
def _naming(url: str, form: str) -> Iterator[None]:
    """pyarrow's errors name no file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise ValueError(f"{url}: cannot be read as {form}: {error}") from error


def _parquet(pa: Any, file: Any, columns: list[str] | None) -> Iterator[Any]:
    import pyarrow.parquet as pq

    found = pq.ParquetFile(file)
    _check(columns, found.schema_arrow.names)
    yield from found.iter_batches(_ROWS, columns=columns)


def _csv(pa: Any, file: Any, columns: list[str] | None) -> Iterator[Any]:
    import pyarrow.csv as csv

    options = csv.ConvertOptions(include_columns=columns)
    yield from csv.open_csv(file, convert_options=options)


def _jsonl(pa: Any, file: Any, columns: list[str] | None) -> Iterator[Any]:
    import pyarrow.json as json

    if not hasattr(json, "open_json"):
        raise ImportError("JSON lines need a newer pyarrow: pip install -U pyarrow")
    for batch in json.open_json(file):
        yield _selected(batch, columns)


def _arrow(pa: Any, file: Any, columns: list[str] | None) -> Iterator[Any]:
    try:
        found = pa.ipc.open_file(file)
        batches = (found.get_batch(i) for i in range(found.num_record_batches))
    except pa.ArrowInvalid:
        file.seek(0)
        batches = iter(pa.ipc.open_stream(file))
    for batch in batches:
        yield _selected(batch, columns)


_READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _jsonl,
    "arrow": _arrow,
}


def _selected(batch: Any, columns: list[str] | None) -> Any:
    if columns is None:
        return batch
    _check(columns, batch.schema.names)
    return batch.select(columns)


def _check(columns: list[str] | None, names: list[str]) -> None:
    for name in columns or ():
        if name not in names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(names)}")


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
