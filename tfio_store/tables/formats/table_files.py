"""Files of tables: Parquet, CSV, JSON lines and Arrow IPC, read and written in pieces."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from tfio_store.dataset.model import Dataset
from tfio_store.example import decode_examples
from tfio_store.example.feature import ClassLabel, Feature
from tfio_store.example.schema import Schema
from tfio_store.tables.formats import csv_texts, json_lines
from tfio_store.tables.formats.array_files import check_columns
from tfio_store.tables.formats.json_lines import as_whole, check_range
from tfio_store.tables.formats.source_file import SourceFile, opened, unpacked, usual_delimiter
from tfio_store.tables.texts import from_iso

_ROWS = 16 << 10
_ARROW_FILE = b"ARROW1"
_ERRORS = (
    ValueError,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowMemoryError,
)
"""What pyarrow raises beside OSError."""


def read_tables(
    dataset: Dataset,
    form: str,
    columns: list[str] | None,
    schema: Schema,
    delimiter: str | None = None,
) -> Iterator[Any]:
    """The rows of all files, as tables of a few rows each. The files must have the same columns.
    The types of texts are those in ``schema``, where it names them."""
    if form in ("csv", "jsonl"):
        return _text_tables(dataset, form, columns, schema, delimiter)
    return _typed_tables(dataset, form, columns)


def _typed_tables(dataset: Dataset, form: str, columns: list[str] | None) -> Iterator[Any]:
    """The tables of each file. The first has no rows: columns may be all that a file has."""
    for file in opened(dataset):
        with file.decoded_as(form, *_ERRORS):
            schema, batches = _READERS[form](file, columns)
            yield schema.empty_table()
            for batch in batches:
                yield pa.Table.from_batches([batch])


def _parquet(file: SourceFile, columns: list[str] | None) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    found = pq.ParquetFile(pa.PythonFile(file, mode="r"))
    schema = _selected(found.schema_arrow.empty_table(), columns).schema
    return schema, found.iter_batches(_ROWS, columns=columns)


def _arrow(file: SourceFile, columns: list[str] | None) -> tuple[Any, Iterator[Any]]:
    is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    file.seek(0)
    if is_file:
        found = pa.ipc.open_file(pa.PythonFile(file, mode="r"))
        batches: Iterator[Any] = map(found.get_batch, range(found.num_record_batches))
    else:
        found = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
        batches = _to_the_end(file, found)
    schema = _selected(found.schema.empty_table(), columns).schema
    return schema, (_validated(_selected(batch, columns)) for batch in batches)


def _to_the_end(file: SourceFile, stream: Any) -> Iterator[Any]:
    """All batches of a stream. Pyarrow takes the end of the bytes for that of the stream."""
    yield from stream
    if file.is_short:
        raise ValueError(
            f"it ends at byte {file.tell():,} without the mark that ends a stream, and so may be "
            "cut; write it again, and close its writer"
        )
    if file.tell() != file.nbytes:
        raise ValueError(
            f"its stream ends at byte {file.tell():,} of {file.nbytes:,}; write each stream to a "
            "file of its own"
        )


def _validated(batch: Any) -> Any:
    """Arrow uses the offsets of a file as they are: those beyond it would read other memory."""
    batch.validate(full=True)
    return batch


_READERS: dict[str, Callable[..., tuple[Any, Iterator[Any]]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
}


def _selected(batch: Any, columns: list[str] | None) -> Any:
    if columns is None:
        return batch
    check_columns(columns, batch.schema.names)
    return batch.select(columns)


# Tables of formats that have no types: CSV and JSON lines. They are read twice: all of the values
# decide the types, and so none of them changes.


_TEXTS: dict[str, Any] = {"csv": csv_texts, "jsonl": json_lines}

Piece = tuple[str, int, dict[str, Any]]
"""A file's URL, the number of some of its rows, and their columns. Rows may have no column."""


def _text_tables(
    dataset: Dataset,
    form: str,
    columns: list[str] | None,
    schema: Schema,
    delimiter: str | None,
) -> Iterator[dict[str, Any]]:
    """The rows as tables of a few rows each; the first has none. What ``schema`` names gets its
    type. The values decide the others. ValueError where a value would change."""
    types = _types(_pieces(dataset, form, delimiter), form, schema)
    check_columns(columns, types)
    names = list(types) if columns is None else columns
    begun = False
    for url, rows, piece in _pieces(dataset, form, delimiter):
        if rows and not types:
            raise ValueError(f"{url}: its rows have no columns, and so a table cannot hold them")
        for count, part in _narrow(piece, rows, len(names)):
            yield _table(url, part, count, names, types, schema)
            begun = True
    if not begun:
        yield {name: _empty(types[name], schema.get(name)) for name in names}


def _pieces(dataset: Dataset, form: str, delimiter: str | None) -> Iterator[Piece]:
    for file in opened(dataset):
        with file.decoded_as(form, *_ERRORS):
            text = unpacked(file)
            if form == "csv":
                usual, is_sure = usual_delimiter(file.url), delimiter is not None
                pieces = csv_texts.pieces_of(text, file.nbytes, delimiter or usual, is_sure=is_sure)
            else:
                pieces = json_lines.pieces_of(text)
            yield from ((file.url, rows, columns) for rows, columns in pieces)


def _narrow(piece: dict[str, Any], rows: int, width: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a piece in runs that make small tables: other rows may have far more columns."""
    step = max(1, json_lines.CELLS // max(1, width))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        yield stop - start, {name: values[start:stop] for name, values in piece.items()}


def _types(pieces: Iterator[Piece], form: str, schema: Schema) -> dict[str, Any]:
    """The type of all values of each column. What ``schema`` names has none."""
    reader = _TEXTS[form]
    types: dict[str, Any] = {}
    for url, _, piece in pieces:
        if form == "csv" and types:
            _check_names(url, piece, types)
        for name, values in piece.items():
            if name in schema and not _of_kind(schema[name], form):
                types[name] = None
                continue
            if len(types) > json_lines.MOST_FIELDS:
                most = json_lines.MOST_FIELDS
                raise ValueError(f"{url}: more than {most:,} columns come together; split it")
            with _of_column(url, name):
                found = reader.type_of(values)
                types[name] = reader.common_type(types.get(name, found), found)
    if form == "jsonl":
        return {name: kind and json_lines.decided(kind) for name, kind in types.items()}
    return types


def _check_names(url: str, piece: dict[str, Any], types: dict[str, Any]) -> None:
    """Lines of CSV do not name their fields: files of other columns are other tables."""
    for name in types.keys() ^ piece.keys():
        has = "has a" if name in piece else "lacks the"
        raise ValueError(
            f"{url}: it {has} column {name!r}, unlike the first file; convert it apart, or mend it"
        )


def _of_kind(feature: Feature, form: str) -> bool:
    """Classes are names or numbers: the values decide."""
    return form == "csv" and isinstance(feature.kind, ClassLabel)


def _table(
    url: str,
    piece: dict[str, Any],
    rows: int,
    names: list[str],
    types: dict[str, Any],
    schema: Schema,
) -> dict[str, Any]:
    made = {}
    for name in names:
        if name not in piece and types[name] is not None:
            made[name] = pa.nulls(rows, types[name])
            continue
        values = piece.get(name, [None] * rows)
        with _of_column(url, name):
            if types[name] is None:
                made[name] = _chosen(values, schema[name])
            elif isinstance(values, list):
                made[name] = json_lines.as_type(values, types[name])
            else:
                made[name] = csv_texts.as_type(values, types[name])
    return made


def _empty(kind: Any, feature: Feature | None) -> Any:
    if kind is not None:
        return pa.array([], kind)
    assert feature is not None
    return decode_examples([], {"of": feature})["of"]


def _chosen(values: Any, feature: Feature) -> Any:
    """The values as what the feature is encoded from."""
    if not isinstance(values, list):
        values = csv_texts.as_values(values, feature)
    kind = feature.item_dtype()
    return [_as(feature.dtype, kind, value) for value in values]


def _as(dtype: str, kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_as(dtype, kind, item) for item in value]
    if dtype == "bytes":
        return _as_bytes(value)
    if isinstance(value, str) and dtype.startswith(("datetime64", "timedelta64")):
        return from_iso(value, dtype)
    if "float" in dtype:
        return _as_float(value, kind)
    return value


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"it holds no base64: {error}") from None
    return value


def _as_float(value: Any, kind: Any) -> Any:
    """JSON has neither NaN nor infinities; and 1 is 1.0."""
    if isinstance(value, str):
        return json_lines.NOT_FINITE.get(value, value)
    if type(value) is float:
        check_range(value, kind)
    return as_whole(value, kind) if type(value) is int else value


@contextlib.contextmanager
def _of_column(url: str, name: str) -> Iterator[None]:
    """Errors name file and column."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{url}: column {name!r}: {error}; choose its type by schema=, or mend the file"
        ) from error


def write_tables(batches: Any, form: str, file: Any, delimiter: str = ",") -> int:
    """Write a `pyarrow.RecordBatchReader`, and give the number of its rows."""
    rows = 0
    sink = pa.PythonFile(file, mode="w")
    refused = batches.schema.empty_table()
    try:
        how = {"write_options": csv.WriteOptions(delimiter=delimiter)} if form == "csv" else {}
        with _WRITERS[form](sink, batches.schema, **how) as writer:
            for batch in batches:
                refused = batch
                writer.write_batch(batch)
                rows += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _cannot_hold(form, refused, error) from error
    return rows


def _cannot_hold(form: str, table: Any, error: Exception) -> ValueError:
    """The error that names the columns of the table that this format refuses by themselves."""
    names = [name for name in table.schema.names if _is_refused(form, table.select([name]))]
    listed = ", ".join(map(repr, names))
    what = f"column{'s' * (len(names) > 1)} {listed}" if names else "this table"
    wider = [f'target_format="{other}"' for other in _WIDER[form]]
    others = (["name others in columns="] if names else []) + [f"pass {each}" for each in wider]
    return ValueError(f"{form} cannot hold {what}: {error}; {' or '.join(others)}")


def _is_refused(form: str, table: Any) -> bool:
    try:
        with _WRITERS[form](io.BytesIO(), table.schema) as writer:
            writer.write(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return True
    return False


_WIDER = {"csv": ("jsonl", "parquet"), "parquet": ("arrow",), "arrow": ("parquet",)}
"""Formats that may hold what one refuses."""


def _parquet_writer(sink: Any, schema: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema)


_WRITERS: dict[str, Callable[..., Any]] = {
    "parquet": _parquet_writer,
    "csv": csv.CSVWriter,
    "arrow": pa.ipc.new_file,
}
