"""Arrays of fixed shapes: lists in Arrow, tensors in Ray."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.extensions import (
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowVariableShapedTensorType,
    get_arrow_extension_tensor_types,
)

from tfio_store.example.schema import Schema

ONLY_ROWS = "__bsp_stub"
"""The column by which Ray knows the number of rows of a table without columns. It shows it to
nobody."""


def tensor_names(schema: Schema, types: pa.Schema) -> list[str]:
    """The columns that become tensors: numbers and booleans of one shape in all rows, without
    nulls."""
    return [
        name
        for name, feature in schema.items()
        if feature.shape
        and None not in feature.shape
        and not feature.nullable
        and name in types.names
        and _is_number(types.field(name).type)
    ]


def _is_number(kind: pa.DataType) -> bool:
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def with_tensors(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table, in which these columns are tensors over the same memory."""
    for name in names:
        at = table.schema.get_field_index(name)
        chunks = [_tensors(chunk) for chunk in table.column(at).chunks]
        made = chunks or [_tensors(pa.array([], table.schema.field(at).type))]
        column = pa.chunked_array(made)
        table = table.set_column(at, pa.field(name, column.type), column)
    return table


def _tensors(lists: pa.Array) -> pa.Array:
    shape = [len(lists)]
    while pa.types.is_fixed_size_list(lists.type):
        shape.append(lists.type.list_size)
        lists = lists.flatten()
    return ArrowTensorArray.from_numpy(lists.to_numpy(zero_copy_only=False).reshape(shape))


def columns_of_block(block: Any) -> dict[str, Any]:
    """A block's columns, as `tfio_store.write_table` takes them. ValueError for rows without
    columns."""
    table = BlockAccessor.for_block(block).to_arrow()
    names = [name for name in table.column_names if name != ONLY_ROWS]
    if table.num_rows and not names:
        raise ValueError(
            f"a block of Ray has {table.num_rows} rows and no columns: nothing could be written of "
            "them"
        )
    return {name: _column(name, table.column(name)) for name in names}


def _column(name: str, column: pa.ChunkedArray) -> Any:
    if isinstance(column.type, ArrowPythonObjectType):
        raise TypeError(
            f"column {name!r} holds Python objects, which Ray pickles; make numbers, strings, "
            "bytes or arrays of one dtype of them"
        )
    if isinstance(column.type, ArrowVariableShapedTensorType):
        return _lists(name, column)
    if isinstance(column.type, get_arrow_extension_tensor_types()):
        parts = [chunk.to_numpy_ndarray() for chunk in column.chunks if len(chunk)]
        shape = (0, *column.type.shape)
        return np.concatenate(parts) if parts else np.empty(shape, _item_type(column.type))
    return column


def _item_type(kind: Any) -> Any:
    item = kind.storage_type.value_type
    return item.to_pandas_dtype()


def _lists(name: str, column: pa.ChunkedArray) -> Any:
    """Tensors of one dimension and of any length, as lists."""
    rows = list(_rows(column))
    if any(row.ndim != 1 for row in rows):
        raise TypeError(
            f"column {name!r} has tensors of several shapes; write their values and their shape "
            "as two columns"
        )
    items = np.concatenate(rows)
    offsets = np.cumsum([0, *map(len, rows)])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(items))


def _rows(column: pa.ChunkedArray) -> Iterator[np.ndarray]:
    for chunk in column.chunks:
        yield from chunk.to_numpy(zero_copy_only=False)
