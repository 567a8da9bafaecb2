"""`convert`: tables, WebDatasets, images and arrays to a TFRecord dataset, and back."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from tfio_store.dataset.source import (
    Source,
    common_storage,
    open_dataset,
    repeatable,
)
from tfio_store.example.arrow import needed_pyarrow
from tfio_store.example.codec import SchemaLike
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import check_storage, for_writing, given_storage
from tfio_store.storage.store import OutputFile
from tfio_store.tables.formats.array_files import ImageFolder, check_columns, read_arrays
from tfio_store.tables.formats.source_file import (
    TABLES,
    TFRECORD,
    check_delimiter,
    chosen_format,
    is_packed,
    usual_delimiter,
)
from tfio_store.tables.formats.tar_samples import read_samples, write_samples
from tfio_store.tables.read_table import iter_tables
from tfio_store.tables.rows import Selection
from tfio_store.tables.texts import JsonNumbers, as_json_line
from tfio_store.tables.write_table import write_table
from tfio_store.write.progress import OnProgress

_LINES = 1 << 20
_NEITHER = (
    "copy() makes a dataset of datasets; a table's file ends in .parquet, .csv, .tsv, .jsonl or "
    ".arrow, or else source_format= or target_format= says what it is"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of `convert`.

    Attributes:
        target (str): What was written.
        source_format (str): "tfrecord", or what was read.
        target_format (str): "tfrecord", or what was written.
        records (int): How many rows.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2]}, "train")
        >>> tfs.convert("train", "x.csv").records
        2
    """

    target: str
    source_format: str
    target_format: str
    records: int


def convert(
    source: Source,
    target: str | os.PathLike[str] | BinaryIO,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    columns: Sequence[str] | None = None,
    schema: SchemaLike | None = None,
    delimiter: str | None = None,
    exact: bool = False,
    flatten: bool = False,
    num_shards: int | None = None,
    max_shard_bytes: int | None = None,
    target_compression: str | None = None,
    if_exists: str = "error",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    target_storage: Storage | None = None,
    on_progress: OnProgress | None = None,
) -> Conversion:
    """Convert files of another format to a TFRecord dataset, or a dataset to such a file.

    The files are tables (Parquet, CSV, JSON lines, Arrow IPC), WebDataset's tar files, NumPy's
    arrays, or images in folders that have the names of their classes. Arrays and images are never
    the target.

    Rows are read and written in pieces, in their order. All Arrow values come back exactly from
    Parquet and Arrow IPC, with nulls and lists, and float64 with ``exact``. The end of a name
    decides the format. Tables need pyarrow, except for JSON lines as the target.

    gzip may pack CSV and JSON lines; a target is packed if its name ends in ".gz". Both are read
    twice: all values of a column decide its type. In CSV these stay texts: dates, numbers with
    leading zeros, integers of more than 64 bits, numbers of more digits than a float holds, and
    12e3 (an exponent needs a sign or a point). A value that a type would change is an error, and so
    are two columns of one name, or CSV files with different columns. A field that a line of JSON
    lacks is a null, and so is an empty line of a CSV file with one column. With ``schema``, lines
    made from a dataset become its values again: times and durations are ISO 8601 texts, in UTC with
    a Z if the column had a zone, and bytes that are not UTF-8 are ``{"base64": ...}``. Among
    numbers, "NaN", "Infinity" and "-Infinity" are numbers; a column that holds no others is not
    written as lines.

    The parts of a WebDataset sample are columns. Those that WebDataset decodes as text ("txt",
    "json") become str, those it decodes as numbers ("cls", "index") int64, and all others bytes.
    The column "__key__" names the sample; without it, samples are numbered. Images have the columns
    "image", "path" and "label". An array is cut along its first dimension. That of a .npy file is
    the column "array".

    Args:
        source (str | PathLike | list): Files of one format with the same columns, a folder of
            images, or a source as for `RecordReader`.
        target (str | PathLike | BinaryIO): A dataset's folder and name, or a file. An open binary
            file needs ``target_format``, and is not closed.
        source_format (str | None): "tfrecord", "parquet", "csv", "jsonl", "arrow", "webdataset",
            "images" or "numpy". Default None: the end of the source's name decides; "images" must
            be passed.
        target_format (str | None): The same for the target, but for "images" and "numpy". Default
            None.
        columns (list[str] | None): The columns to convert. Default None: all.
        schema (Schema | dict | None): See `write_table`. For TFRecord targets. Default None.
        delimiter (str | None): The CSV delimiter, one character. Default None: a tab for names that
            end in ".tsv", and a comma for all others.
        exact (bool): See `write_table`. For TFRecord targets. Default False.
        flatten (bool): See `write_table`. For TFRecord targets. Default False.
        num_shards (int | None): See `write_table`. For TFRecord targets. Default None.
        max_shard_bytes (int | None): See `write_table`. For TFRecord targets. Default None.
        target_compression (str | None): As for `ShardedWriter`. For TFRecord targets. Default None.
        if_exists (str): "error" (default) or "overwrite"; datasets also take "append".
        storage_options (dict | None): The source's. See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        target_storage (Storage | None): How the target's storage is reached. Default None: as the
            source's.
        on_progress (Callable | None): See `ShardedWriter`. For TFRecord targets. Default None.

    Returns:
        Conversion: What was written.

    Raises:
        OSError: The storage fails; FileExistsError if the target exists and ``if_exists`` is
            "error".
        ImportError: pyarrow is not installed.
        ValueError: Both sides are datasets, or neither is; or a file or a column cannot be
            converted.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> tfs.convert("train", "train.parquet").records
        2
        >>> tfs.convert("train.parquet", "again", num_shards=1).target_format
        'tfrecord'
        >>> tfs.diff("train", "again").same
        True
    """
    storage = given_storage(storage_options, storage)
    check_storage(target_storage, "target_storage")
    names = repeatable(source)
    into = target_storage or storage or common_storage(names)
    file = _name_or_file(target)
    read, written = _sides(source_format, names, target_format, file)
    check_delimiter(delimiter, read, written)
    wanted = None if columns is None else list(columns)
    of_dataset: dict[str, Any] = {
        "exact": exact,
        "flatten": flatten,
        "num_shards": num_shards,
        "max_shard_bytes": max_shard_bytes,
    }
    if written != TFRECORD:
        _refuse(written, schema=schema, target_compression=target_compression, **of_dataset)
        name = file if isinstance(file, str) else ""
        packed, parts = is_packed(name), delimiter or usual_delimiter(name)
        made = _File(names, storage, wanted, written, packed, parts)
        records = made.put(file, into, if_exists) if isinstance(file, str) else made.write(file)
        return Conversion(_said(file), read, written, records)
    if not isinstance(file, str):
        raise ValueError("target= is an open file: a TFRecord dataset takes a name")
    schema = None if schema is None else _of_any_dtype(schema)
    tables, known = _tables(read, names, storage, wanted, schema, delimiter)
    manifest = write_table(
        tables,
        file,
        schema={**known, **Schema.of(schema or {})} if known else schema,
        compression=target_compression,
        if_exists=if_exists,
        on_progress=on_progress,
        storage=into,
        **of_dataset,
    )
    return Conversion(_said(file), read, written, manifest.records)


def _name_or_file(target: object) -> str | BinaryIO:
    if isinstance(target, str | os.PathLike):
        return os.fspath(target)
    if isinstance(target, io.TextIOBase):
        raise TypeError("target= is a file that was opened as text; open it as bytes")
    if not callable(getattr(target, "write", None)):
        raise TypeError(f"target= takes a name or an open file, not {type(target).__name__}")
    return cast(BinaryIO, target)


def _sides(
    source_format: str | None, source: Any, target_format: str | None, target: str | BinaryIO
) -> tuple[str, str]:
    """The formats of source and target. One of them is TFRecord."""
    read = chosen_format(source_format, source, "source_format")
    if target_format is None and not isinstance(target, str):
        raise ValueError("target= is an open file, and has no name; pass target_format=")
    written = chosen_format(target_format, target, "target_format")
    if (read == TFRECORD) == (written == TFRECORD):
        raise ValueError(
            f"exactly one side must be TFRecord: source= is {read}, target= is {written}; "
            + (_NEITHER if read == TFRECORD else "name a dataset")
        )
    if read in TABLES:
        needed_pyarrow()
    return read, written


def _said(target: str | BinaryIO) -> str:
    """What a target is called."""
    if isinstance(target, str):
        return redacted(target)
    return str(getattr(target, "name", "<file object>"))


def _refuse(form: str, **of_datasets: Any) -> None:
    """ValueError for an option that would do nothing."""
    for name, value in of_datasets.items():
        if value is not None and value is not False:
            raise ValueError(f"{name}= is for TFRecord targets, and target= is {form}")


def _tables(
    form: str,
    names: Any,
    storage: Storage | None,
    columns: list[str] | None,
    schema: Schema | None,
    delimiter: str | None,
) -> tuple[Iterator[Any], dict[str, Feature]]:
    """The rows of the source as tables, and what is known of the columns before."""
    if form == "images":
        if not isinstance(names, str | os.PathLike):
            raise ValueError("source= takes one folder of images")
        folder = ImageFolder(names, storage)
        check_columns(columns, folder.features)
        wanted = folder.features if columns is None else columns
        found = {name: folder.features[name] for name in wanted}
        return ({name: table[name] for name in found} for table in folder.tables()), found
    dataset = open_dataset(names, storage)
    if form == "webdataset":
        return read_samples(dataset, columns), {}
    if form == "numpy":
        return read_arrays(dataset, columns), {}
    from tfio_store.tables.formats.table_files import read_tables

    return read_tables(dataset, form, columns, schema or Schema({}), delimiter), {}


def _of_any_dtype(schema: SchemaLike) -> Schema:
    """The schema, in which the mere name of a dtype that records hold as memory alone, such as
    uint64, means that."""
    if isinstance(schema, Schema) or "features" in schema:
        return Schema.of(schema)
    return Schema.of({name: _raw_if_wide(of) for name, of in schema.items()})


def _raw_if_wide(of: Any) -> Any:
    if not isinstance(of, str):
        return of
    for raw in (False, True):
        with contextlib.suppress(ValueError, TypeError):
            return Feature(of, raw=raw)
    return of


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is made of a dataset."""

    source: Any
    storage: Storage | None
    columns: list[str] | None
    form: str
    packed: bool
    delimiter: str

    def put(self, target: str, into: Storage | None, if_exists: str) -> int:
        """Write it to this place, and give the number of rows."""
        if if_exists not in ("error", "overwrite"):
            raise ValueError(f'if_exists={if_exists!r}: a file takes "error" or "overwrite"')
        store, path = for_writing(into).open(target)
        absent = if_exists == "error"
        if absent and store.look(path) is not None:  # before all the work
            raise FileExistsError(f'{store.url(path)}: exists; pass if_exists="overwrite"')
        output = store.open_output(path)
        try:
            records = self.write(OutputFile(output))
        except BaseException:
            output.abort()
            raise
        output.commit(if_absent=absent)
        return records

    def write(self, file: Any) -> int:
        """Write it to an open file, and give the number of rows."""
        if self.form == "webdataset":
            return write_samples(self._rows(), file, compressed=self.packed)
        if self.packed and self.form in ("csv", "jsonl"):
            # without a time: the same rows, the same file
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packing:
                return self._write_table(packing)
        return self._write_table(file)

    def _write_table(self, file: Any) -> int:
        if self.form == "jsonl":
            return _write_lines(self._rows(), file)
        batches = iter_tables(self.source, columns=self.columns, storage=self.storage)
        from tfio_store.tables.formats.table_files import write_tables

        return write_tables(batches, self.form, file, self.delimiter)

    def _rows(self) -> Iterator[dict[str, Any]]:
        selection = Selection(self.source, storage=self.storage)
        return selection.rows(selection.all(), self.columns)


def _write_lines(rows: Iterator[dict[str, Any]], file: Any) -> int:
    records, waiting = 0, bytearray()
    numbers = JsonNumbers()
    for row in rows:
        records += 1
        numbers.see(row)
        waiting += as_json_line(row).encode() + b"\n"
        if len(waiting) >= _LINES:
            file.write(waiting)
            waiting.clear()
    numbers.check()
    file.write(waiting)
    return records
