"""TFRecord datasets as data frames of Dask. Needs Dask: ``pip install 'tfio_store[dask]'``."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.dataset.source_names import refuse_number
from tfio_store.example.codec import SchemaLike, SchemaToRead
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import named_schema, telling
from tfio_store.tables.partitions import Partition, partitions, row_batches
from tfio_store.tables.read_table import row_types
from tfio_store.tables.write_table import TableJob, WrittenTable, needs
from tfio_store.write.commit import KEEP_REPLACED, IfExists, Names

with needs("dask", "distributed", "pandas", "pyarrow"):
    import dask
    import dask.dataframe as dd
    import pandas as pd
    import pyarrow as pa
    from dask.dataframe.utils import clear_known_categories
    from dask.delayed import Delayed, delayed
    from dask.utils import parse_bytes

__all__ = ["read_tfrecords", "to_tfrecords"]


def read_tfrecords(
    paths: Source,
    *,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    blocksize: int | str = "128 MiB",
    npartitions: int | None = None,
    compression: str | None = "auto",
    on_corrupt: str = "raise",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> dd.DataFrame:
    """Read TFRecord files of Examples as a data frame of Dask.

    A partition is a run of blocks, also from the middle of a shard that is compressed. Columns that
    the computation does not need are not decoded. If all files have an index, rows are numbered
    through and the divisions are known, so that ``df.loc[1000:2000]`` reads what holds these rows.

    Args:
        paths (str | PathLike | list): What `tfio_store.RecordReader` takes as a source: a dataset's
            folder and name, files, globs, or a list of these.
        schema (Schema | dict | str | None): What the records hold. "bytes": one column, ``record``,
            of the records as they are. "auto": what the manifest says, or else what
            `tfio_store.infer_schema` finds in some records; what these lack is not read. Default
            None: what the manifest says, or TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): The columns to read. Default None: all of them.
        blocksize (int | str): Stored bytes of a partition, at most, such as "64 MiB". Default
            "128 MiB".
        npartitions (int | None): How many partitions to make, whatever their size. There are fewer
            where there are fewer blocks. Default None: ``blocksize`` decides.
        compression (str | None): See `tfio_store.RecordReader`. Default "auto".
        on_corrupt (str): See `tfio_store.RecordReader`. Default "raise".
        storage_options (dict | None): See `tfio_store.RecordReader`. They travel to the workers.
            Default None.
        storage (Storage | None): In place of ``storage_options``; see `tfio_store.RecordReader`.
            Default None.

    Returns:
        dask.dataframe.DataFrame: Numbers and booleans that can be null have pandas' nullable
        dtypes. What is not one value for each row is an object: an array, or None.

    Raises:
        FileNotFoundError: There are no such files.
        KeyError: There is no such column.
        ValueError: An argument is not as described.

    Example:
        >>> from tfio_store.dask import read_tfrecords
        >>> _ = tfs.write_table({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}, "train")
        >>> int(read_tfrecords("train")["x"].sum().compute(scheduler="synchronous"))
        6
    """
    if not isinstance(blocksize, int | str):
        raise TypeError(f"blocksize= takes bytes, such as 64 << 20 or '64 MiB', not {blocksize!r}")
    storage = given_storage(storage_options, storage)
    size = parse_bytes(blocksize)
    given = named_schema(schema)
    # What it tells, its partitions tell too.
    found = telling(open_dataset(paths, storage, compression=compression), schema)
    full = given or found.schema
    parts = partitions(found, target_bytes=size, num_partitions=npartitions)
    # A partition has the categories that its records show.
    meta = clear_known_categories(_frame(row_types(full, columns).empty_table(), full))
    if not parts:
        return dd.from_pandas(meta, npartitions=1)
    with dask.config.set({"dataframe.convert-string": False}):  # it takes bytes for text
        return dd.from_map(
            _read,
            parts,
            columns=None if columns is None else list(dict.fromkeys(columns)),
            schema=given,
            on_corrupt=on_corrupt,
            meta=meta,
            divisions=_divisions(parts) if on_corrupt == "raise" else None,
            label="read-tfrecords",
        )


def _read(
    part: Partition,
    columns: Sequence[str] | None,
    *,
    schema: Schema | None,
    on_corrupt: str,
) -> pd.DataFrame:
    """A partition's frame. Dask gives it the ``columns`` that it needs, which may be none, since
    they have no default."""
    known = part.schema if schema is None else schema
    batches = list(row_batches(part, schema, columns, {"on_corrupt": on_corrupt}))
    rows = sum(batch.num_rows for batch in batches)
    table = pa.Table.from_batches(batches, row_types(known, columns))
    frame = _frame(table, known)
    first = part.first_record if on_corrupt == "raise" else None
    return frame.set_axis(pd.RangeIndex(rows) + (first or 0))


def _frame(table: pa.Table, schema: Schema | None) -> pd.DataFrame:
    """The table as a frame, whose dtypes are those of its types, whatever the values are."""
    table = table.replace_schema_metadata(None)
    features: Mapping[str, Feature] = schema or {}
    holed = [
        of.name
        for of in table.schema
        if of.name in features and features[of.name].nullable and of.type in _NULLABLE
    ]
    whole = [name for name in table.column_names if name not in holed]
    frame = table.select(whole).to_pandas()
    if holed:
        frame = frame.join(table.select(holed).to_pandas(types_mapper=_NULLABLE.get))
    return frame[table.column_names]


_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
}
"""Dtypes of columns that have no value for a null in pandas' other dtypes. NaN is none: it would be
written as a number."""


def _divisions(parts: Sequence[Partition]) -> tuple[int, ...] | None:
    """The number of each partition's first row, and of the last row. None if not all are known."""
    starts = [part.first_record for part in parts]
    last = parts[-1].num_records
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or not last:
        return None
    return (*known, known[-1] + last - 1)


def to_tfrecords(
    df: dd.DataFrame,
    path: str,
    *,
    schema: SchemaLike | Literal["bytes"] | None = None,
    nan_as_null: bool = False,
    compression: str | None = None,
    if_exists: IfExists = "error",
    keep_replaced: float = KEEP_REPLACED,
    names: Names = "tagged",
    max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    compute: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> DatasetManifest | Delayed:
    """Write each row of a data frame of Dask as an Example, partition by partition.

    The dataset is there when the last partition is written, whole, or not at all. Tasks that Dask
    runs again count once. The index is not written.

    Args:
        df (dask.dataframe.DataFrame): What to write.
        path (str): Folder and name, such as ``s3://bucket/folder/train``.
        schema (Schema | dict | str | None): See `tfio_store.write_table`. Default None: as the
            dtypes say.
        nan_as_null (bool): See `tfio_store.write_table`. Default False.
        compression (str | None): See `tfio_store.ShardedWriter`. Default None.
        if_exists (str): See `tfio_store.ShardedWriter`. Default "error".
        keep_replaced (float): See `tfio_store.ShardedWriter`. Seconds, default 3600.
        names (str): See `tfio_store.WriteJob`. "plain" is for readers that find shards by a glob.
            Default "tagged".
        max_shard_bytes (int): A partition is written as several shards, if it has more bytes.
            Default 256 MiB.
        compute (bool): Whether to write now. Default True. If False, the name is claimed now, and
            the result writes and commits once it is computed; one that never is leaves a claim,
            which `tfio_store.clean` removes.
        storage_options (dict | None): See `tfio_store.RecordReader`. They travel to the workers.
            Default None.
        storage (Storage | None): In place of ``storage_options``; see `tfio_store.RecordReader`.
            Default None.

    Returns:
        DatasetManifest | Delayed: What was committed; or with ``compute=False``, what will give it.

    Raises:
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        TypeError: ``df`` is no data frame of Dask, or a column is of a type that no Example holds.
        ValueError: Partitions have columns of different types.
        OSError: The store fails.

    Example:
        >>> import dask
        >>> import dask.dataframe as dd
        >>> from tfio_store.dask import to_tfrecords
        >>> df = dd.from_dict({"x": [1, 2, 3], "name": ["a", "b", "c"]}, npartitions=2)
        >>> with dask.config.set(scheduler="synchronous"):
        ...     to_tfrecords(df, "train").records
        3
    """
    if not isinstance(df, dd.DataFrame):
        raise TypeError(f"df= takes a dask.dataframe.DataFrame, not {type(df).__name__}")
    refuse_number(path)
    job = TableJob.begin(
        path,
        schema=schema,
        nan_as_null=nan_as_null,
        max_shard_bytes=max_shard_bytes,
        compression=compression,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        names=names,
        storage_options=storage_options,
        storage=storage,
    )
    write = delayed(partial(_write, job), pure=False)
    written = [write(part, order) for order, part in enumerate(df.to_delayed())]
    if not compute:
        return delayed(partial(_commit, job), pure=False)(written)
    try:
        return _commit(job, dask.compute(*written))
    except BaseException:
        job.abort()
        raise


def _write(job: TableJob, frame: pd.DataFrame, order: int) -> WrittenTable | None:
    """None for a task of a dataset that is there. Dask runs all tasks again when a worker dies with
    the result of the commit, or when somebody computes the same again."""
    try:
        return job.write([frame], order)
    except OSError as error:
        if error.errno == errno.ECANCELED and job.has_landed():
            return None
        raise


def _commit(job: TableJob, written: Iterable[WrittenTable | None]) -> DatasetManifest:
    return job.commit(each for each in written if each is not None)
