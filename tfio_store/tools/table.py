"""Tables as datasets of Examples: `write_table` and `read_table`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.source import Source
from tfio_store.example import Examples, decode_examples
from tfio_store.example.codec import SchemaLike, Strings
from tfio_store.example.decoding_nulls import Nulls, most_room
from tfio_store.example.joining import joined_columns
from tfio_store.example.kind_values import Labels
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Access, Retry
from tfio_store.tools.table_decoding import decoded
from tfio_store.tools.table_encoding import TableEncoder
from tfio_store.tools.table_parts import Part, parts_of
from tfio_store.tools.table_schema import kept_features
from tfio_store.tools.tfds_schema import schema_of_source
from tfio_store.write.appending import schema_of_both
from tfio_store.write.plan import KEEP_REPLACED
from tfio_store.write.progress import OnProgress
from tfio_store.write.sharded_writer import ShardedWriter

__all__ = ["read_table", "write_table"]


def write_table(
    table: Any,
    url: str | os.PathLike[str],
    *,
    schema: SchemaLike | None = None,
    nan_as_null: bool = False,
    flatten: bool = False,
    num_shards: int | None = None,
    max_shard_bytes: int | None = None,
    compression: str | None = None,
    if_exists: Any = "error",
    keep_replaced: float = KEEP_REPLACED,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> DatasetManifest:
    """Write each row of a table as an Example. `read_table` gives the same table back.

    By a schema with feature lists (``Feature(..., sequence=True)``) rows are SequenceExamples.

    Args:
        table (dict | DataFrame | Table | Iterable): A dict of columns (as for `encode_examples`), a
            pandas DataFrame (its index is not written), a pyarrow Table, whatever gives an Arrow C
            stream (``__arrow_c_stream__``); or an iterable of these with the same columns, which
            are written one after another. A null (see `encode_examples`) is a feature that the
            record lacks.
        url (str | PathLike): Folder and name, such as ``s3://bucket/folder/train``.
        schema (Schema | dict | None): How to write some or all of the columns. ``{"price":
            "float32"}`` rounds a float64 column to what ``tf.io.parse_example`` reads. Default
            None: each column is kept exactly. What fits int64 and float32 is written as such,
            anything else (float64, uint64, datetimes, arrays of bytes) as raw memory. Such a column
            is nullable if it has nulls; of the others the schema says so.
        nan_as_null (bool): See `encode_examples`. Default False.
        flatten (bool): Make a column of each field of Arrow's structs: ``a`` and ``b.c`` of ``s``
            become ``s.a`` and ``s.b.c``. A null struct is a null in each, and they come back as
            such columns. Default False: a struct is an error.
        num_shards (int | None): Rows go round this many shards in turn. Default None: they are
            written in order, into shards of ``max_shard_bytes``.
        max_shard_bytes (int | None): See `ShardedWriter`. Default None: 256 MiB, if ``num_shards``
            is None too.
        compression (str | None): See `ShardedWriter`. Default None.
        if_exists (str): See `ShardedWriter`. Default "error". Rows to append are written as the
            dataset's schema says; only nulls may be new to it.
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        on_progress (Callable | None): See `ShardedWriter`. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `ShardedWriter`. Default "fsspec".

    Returns:
        DatasetManifest: What was committed. It holds the schema.

    Raises:
        TypeError: The table, or a column, is of another kind than the function or the schema takes.
            The error names column, row and both types. Nothing is committed.
        ValueError: A value cannot be written or does not fit, or ``schema`` names what is no
            column.
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        OSError: The store fails.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> tfs.read_table("train", columns=["x"])
        {'x': array([1, 2])}
    """
    parts = parts_of(table, nan_as_null=nan_as_null, flatten=flatten)
    first = next(parts, Part())
    chosen = Schema.of({} if schema is None else schema)
    with ShardedWriter(
        url,
        num_shards=num_shards,
        max_shard_bytes=max_shard_bytes,
        compression=compression,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        on_progress=on_progress,
        **Access(storage_options, retry, backend).arguments,
    ) as writer:
        kept = writer._kept()
        encoder = TableEncoder(first, chosen, kept_features(kept))
        schema_of_both(kept, encoder.features.to_json())
        for part in chain([first], parts):
            for batch in encoder.batches(part):
                writer.write_batch(batch)
        writer._keep_schema(encoder.schema)
    return writer.manifest


def read_table(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    schema: SchemaLike | None = None,
    strings: Strings = "object",
    nulls: Nulls = "mask",
    labels: Labels = "numbers",
    decode_images: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> Examples:
    """Read a whole dataset of Examples as columns, with the rows in the order of the shards.

    Of SequenceExamples, feature lists are columns beside those of the context.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        schema (Schema | dict | None): What the records hold. Default None: what the manifest says.
            Without a manifest, what all records show; `infer_schema` tells how.
        strings (str): See `decode_examples`. Default "object".
        nulls (str): See `decode_examples`. Default "mask".
        labels (str): See `decode_examples`. Default "numbers".
        decode_images (bool): See `decode_examples`. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".

    Returns:
        Examples: A dict of columns, shaped as by `decode_examples`. ``.to_arrow()`` and
        ``.to_pandas()`` make a table of it.

    Raises:
        CorruptRecordError: A record is neither an Example nor a SequenceExample.
        KeyError: There is no such column.
        SchemaError: A record is not as the schema says.
        NoRecordsError: There are no records to infer a schema from.
        OSError: The storage fails.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> tfs.read_table("train").to_pandas().shape
        (2, 2)
    """
    access = Access(storage_options, retry, backend)
    where = access.arguments | {"max_record_bytes": max_record_bytes}
    with RecordReader(source, **where) as reader:
        full = reader.dataset.schema if schema is None else Schema.of(schema)
        batches: Iterable[RecordBatch] = reader.batches()
        if full is None:
            # A feature may be missing, or of one length, in all records but the last.
            batches = list(batches)
            full = schema_of_source(batches, source, access)
        wanted = full if columns is None else full.select(columns)
        how: Any = {
            "strings": strings,
            "nulls": nulls,
            "labels": labels,
            "decode_images": decode_images,
        }
        decode = partial(decode_examples, schema=wanted, **how)
        room = most_room(wanted.values())
        with closing(decoded(batches, decode, source, room=room)) as made:
            parts = list(made)
    parts = parts or [decode_examples([], wanted, **how)]
    joined = {name: joined_columns([part[name] for part in parts]) for name in wanted}
    return Examples(joined, parts[0].schema)
