"""Hugging Face Datasets: a dataset as a `datasets.IterableDataset`. Needs ``tfio_store[hf]``."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from tfio_store.dataset.model import TASK_BUDGET

try:
    import datasets
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "tfio_store.hf needs datasets: pip install 'tfio_store[hf]'", name=_error.name
    ) from _error
import pyarrow as pa
from datasets.iterable_dataset import ArrowExamplesIterable
from datasets.table import cast_table_to_features

from tfio_store.dataset.source import Source, open_dataset
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.feature import ClassLabel, Feature
from tfio_store.example.schema import Schema, column_names
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import read_by
from tfio_store.tables.partitions import Partition, partitions
from tfio_store.tables.read_table import arrow_types

__all__ = ["iterable_dataset"]

_ARRAYS = {2: datasets.Array2D, 3: datasets.Array3D, 4: datasets.Array4D, 5: datasets.Array5D}


def iterable_dataset(
    source: Source,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    *,
    target_bytes: int = 128 << 20,
    num_partitions: int | None = None,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    memory_budget: int = TASK_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> datasets.IterableDataset:
    """Stream a dataset into Hugging Face's tools: `map`, `filter`, `shuffle`, their trainers.

    Its shards are the partitions of the source (see `partitions`): workers of a DataLoader and
    ``datasets.distributed.split_dataset_by_node`` share these, and ``shuffle`` changes their order.
    Blocks are decoded as Arrow tables. ``state_dict`` returns the place of the very next row, and
    going on there reads its partition from the partition's start. For tensors, ask for batches:
    ``dataset.with_format("torch").batch(64)`` cuts tables, where a DataLoader's ``batch_size`` asks
    for row after row, which is many times slower.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        schema (Schema | dict | str | None): What the records hold. "bytes": one column, ``record``,
            of the records as they are. "auto": what the manifest says, or else what
            `tfio_store.infer_schema` finds in some records; what these lack is not read. Default
            None: what the manifest says, or TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        target_bytes (int): See `partitions`. Default 128 MiB.
        num_partitions (int | None): See `partitions`. Take a multiple of the ranks times the
            workers: each then has as many shards. Default None: ``target_bytes`` decides.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        memory_budget (int): Bytes in flight, in each worker. Default 64 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        datasets.IterableDataset: Of known features. Scalars are `Value`, classes `ClassLabel`,
        images `Image`, arrays of two dimensions and more `Array2D` and so on, and lists, nullable
        arrays and feature lists `List`. Texts and bytes are ``string`` and ``binary``.

    Raises:
        OSError: The storage fails.
        KeyError: There is no such column.
        ValueError: ``columns`` are asked for, and nothing says what the records hold; or a dtype
            has no counterpart.

    Example:
        >>> import tfio_store.hf
        >>> _ = tfs.write_table({"x": [1, 2, 3], "name": ["a", "b", "c"]}, "train")
        >>> dataset = tfio_store.hf.iterable_dataset("train")
        >>> dataset.features
        {'x': Value('int64'), 'name': Value('string')}
        >>> next(iter(dataset.map(lambda row: {"y": row["x"] * 10})))
        {'x': 1, 'name': 'a', 'y': 10}
    """
    columns = None if columns is None else column_names(columns)
    storage = given_storage(storage_options, storage)
    found = open_dataset(source, storage, compression=compression)
    wanted = _wanted(read_by(schema, found), columns)
    parts = partitions(found, target_bytes=target_bytes, num_partitions=num_partitions)
    how = {"memory_budget": memory_budget, "max_record_bytes": max_record_bytes}
    given: dict[str, Any] = {"parts": parts, "wanted": wanted, "how": how}
    return datasets.IterableDataset(
        ArrowExamplesIterable(_tables, given), info=datasets.DatasetInfo(features=_features(wanted))
    )


def _wanted(full: Schema | None, columns: Sequence[str] | None) -> Schema | None:
    """The features to decode. None: it is unknown what the records hold."""
    if columns is None:
        return full
    if full is None:
        raise ValueError(
            f"columns={list(columns)}: no manifest says what the records hold; pass schema=, for "
            "example what tfio_store.infer_schema(source) finds"
        )
    return full.select(columns)


def _tables(
    parts: list[Partition], wanted: Schema | None, how: Mapping[str, Any]
) -> Iterator[tuple[str, pa.Table]]:
    """The tables of these partitions, one for each block, with keys. It runs in workers."""
    features = _features(wanted)
    for part in parts:
        with closing(_batches(part, wanted, how)) as batches:
            for number, batch in enumerate(batches):
                table = pa.Table.from_batches([batch])
                yield f"{part.index}_{number}", cast_table_to_features(table, features)


def _batches(
    part: Partition, wanted: Schema | None, how: Mapping[str, Any]
) -> Generator[Any, None, None]:
    if wanted is not None:
        yield from part.arrow_batches(wanted, **how)
        return
    for batch in part.batches(**how):
        yield pa.record_batch([batch.to_arrow()], names=["record"])


def _features(wanted: Schema | None) -> datasets.Features:
    if wanted is None:
        return datasets.Features({"record": datasets.Value("binary")})
    types = arrow_types(wanted)
    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in types])
    found = datasets.Features.from_arrow_schema(plain)
    return datasets.Features({name: _feature(wanted[name], found[name]) for name in wanted})


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that Hugging Face has a name for."""
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if (
        types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    ):
        return pa.binary()
    return kind


def _feature(feature: Feature, plain: Any) -> Any:
    """The meaning of values, where an Arrow type does not say it."""
    if feature.kind is not None:
        made: Any = datasets.Image()
        if isinstance(feature.kind, ClassLabel):
            made = datasets.ClassLabel(names=list(feature.kind.names))
        for size in reversed(feature.shape):
            made = datasets.Sequence(made, length=-1 if size is None else size)
        return made
    array = _ARRAYS.get(len(feature.shape))
    fixed = None not in feature.shape and not feature.nullable
    if array is None or not fixed or feature.dtype in ("str", "bytes"):
        return plain
    value = plain
    while isinstance(value, datasets.List):
        value = value.feature
    return array(shape=feature.shape, dtype=value.dtype)
