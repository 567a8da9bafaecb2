"""`arrow_dataset`: a dataset of Examples for query engines, which scan it as a pyarrow Dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.source import Source, is_one
from tfio_store.example.codec import SchemaToRead
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tools.table_stream import arrow_types, whole_schema

__all__ = ["arrow_dataset"]


def arrow_dataset(
    source: Source,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    memory_budget: int = 256 << 20,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Any:
    """Give a dataset of Examples to engines that scan pyarrow's. Needs pyarrow.

    DuckDB, Polars and others ask it for the columns and the rows of a query. Only these columns are
    decoded, and rows that a filter drops go no further. Each scan reads the dataset anew, as a
    stream: a few blocks and what is in flight are in memory. One that ends early stops reading.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        schema (Schema | dict | str | None): See `read_table`. Default None: what the manifest says.
            Without a manifest, what all records show: they are read here, once.
        columns (list[str] | None): The columns that there shall be. Default None: all of them.
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
    if not is_one(source):
        source = list(source)  # each scan goes through them
    full = whole_schema(partial(RecordReader, source, **where), source, schema)
    wanted = full if columns is None else full.select(columns)
    arrow_types(wanted)  # says so if pyarrow is missing
    from tfio_store.tools.arrow_scan import ExampleDataset

    return ExampleDataset(source, wanted, where)
