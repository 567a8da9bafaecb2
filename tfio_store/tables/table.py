"""Tables as datasets of Examples: `write_table` and `read_table`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, Literal

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.source import Source
from tfio_store.dataset.source_names import numbered_target
from tfio_store.example import Examples, decode_examples
from tfio_store.example.codec import SchemaLike, SchemaToRead, Strings
from tfio_store.example.decoding import Nulls, most_room
from tfio_store.example.kinds import Labels
from tfio_store.example.ragged import joined_columns
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import read_by, schema_of_source
from tfio_store.tables.table_job import chosen_schema, encoder_of
from tfio_store.tables.table_parts import Part, is_one_table, parts_of
from tfio_store.tables.table_schema import kept_features
from tfio_store.tables.table_stream import decoded
from tfio_store.write.commit import KEEP_REPLACED
from tfio_store.write.placement import InRuns
from tfio_store.write.progress import OnProgress
from tfio_store.write.record_check import schema_of_both
from tfio_store.write.sharded_writer import ShardedWriter

__all__ = ["read_table", "write_table"]


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
            dataset's schema says; only nulls may be new to it.
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
        for part in chain([first], parts):
            for batch in encoder.batches(part):
                writer.write_batch(batch)
        if encoder.schema is not None:
            writer._keep_schema(encoder.schema)
    return writer.manifest


def read_table(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    schema: SchemaToRead | None = None,
    strings: Strings = "object",
    nulls: Nulls = "mask",
    labels: Labels = "numbers",
    decode_images: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Examples:
    """Read a whole dataset of Examples as columns, with the rows in the order of the shards.

    Of SequenceExamples, feature lists are columns beside those of the context.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        schema (Schema | dict | str | None): What the records hold. "bytes": one column, ``record``,
            of the records as they are. "auto": what the manifest says, or else what `infer_schema`
            finds in some records; what these lack is not read. Default None: what the manifest
            says, or else what all records show.
        strings (str): See `decode_examples`. Default "object".
        nulls (str): See `decode_examples`. Default "mask".
        labels (str): See `decode_examples`. Default "numbers".
        decode_images (bool): See `decode_examples`. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

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
    storage = given_storage(storage_options, storage)
    with RecordReader(source, storage=storage, max_record_bytes=max_record_bytes) as reader:
        full = reader.dataset.schema if schema is None else read_by(schema, reader.dataset)
        batches: Iterable[RecordBatch] = reader.batches()
        if full is None:
            # A feature may be missing, or of one length, in all records but the last.
            batches = list(batches)
            full = schema_of_source(batches, source, storage)
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
