"""Decoded columns to and from pyarrow, without Python per row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable, spread, valid_rows
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch

__all__ = ["from_arrow", "to_arrow"]


def to_arrow(columns: Mapping[str, Any], schema: Schema) -> Any:
    """A Table. Fixed dimensions become fixed-size lists, ragged ones large lists."""
    pa = _pyarrow()
    arrays = [_array(pa, column, schema[name]) for name, column in columns.items()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("pyarrow is needed: pip install 'tfio_store[arrow]'") from error
    return pyarrow


def _array(pa: Any, column: Any, feature: Feature) -> Any:
    if isinstance(column, Nullable):
        values = _array(pa, column.values, feature)
        each = max(1, len(column) // max(1, len(values)))  # flags of one row
        return _with_nulls(pa, values, column.valid[::each])
    if isinstance(column, np.ma.MaskedArray):
        return _with_nulls(pa, _array(pa, np.asarray(column), feature), valid_rows(column))
    if isinstance(column, Ragged):
        values = _array(pa, column.values, replace(feature, shape=(), default=None))
        return pa.LargeListArray.from_arrays(pa.array(column.row_splits), values)
    text = pa.large_string() if feature.dtype == "str" else pa.large_binary()
    if isinstance(column, RecordBatch):
        rows = len(column) // max(1, feature.width)
        return _fixed_lists(pa, column.to_arrow().cast(text), (rows, *feature.shape))
    flat = column.reshape(-1)
    if column.dtype.kind in "cV":
        raise TypeError(f"dtype {column.dtype} has no Arrow type; read the column as arrays")
    flat = pa.array(flat, text) if column.dtype == object else pa.array(flat)
    return _fixed_lists(pa, flat, column.shape)


def _fixed_lists(pa: Any, flat: Any, shape: tuple[Any, ...]) -> Any:
    """``flat`` in fixed-size lists, one for each dimension but the first."""
    for level in range(len(shape) - 1, 0, -1):
        kind = pa.list_(flat.type, shape[level])
        flat = pa.Array.from_buffers(kind, math.prod(shape[:level]), [None], children=[flat])
    return flat


def _with_nulls(pa: Any, array: Any, valid: Any) -> Any:
    import pyarrow.compute as pc

    return array if valid.all() else pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))


def from_arrow(name: str, column: Any) -> Any:
    """An array, `RecordBatch` or `Ragged` over the column's memory, or a copy where chunks must be
    joined or nulls left out; a `Nullable` if there are nulls. ValueError for nulls inside lists,
    TypeError for types that a feature can't hold."""
    pa = _pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # what does not fit one array of 32-bit offsets
        raise ValueError(f"feature {name!r}: too large for its type; use the large_ one")
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not column.null_count:
        return _from_array(pa, name, column)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Nullable(spread(_from_array(pa, name, column.drop_null()), valid), valid)


def _items(name: str, column: Any) -> Any:
    if column.null_count:
        raise ValueError(
            f"feature {name!r}: {column.null_count} nulls inside its lists; a row is null as a "
            "whole, or not at all"
        )
    return from_arrow(name, column)


def _from_array(pa: Any, name: str, column: Any) -> Any:
    kind, types = column.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        splits = column.offsets.to_numpy().astype(np.int64)
        start, stop = int(splits[0]), int(splits[-1])
        return Ragged(_items(name, column.values[start:stop]), splits - start)
    if types.is_fixed_size_list(kind):
        rows = _items(name, column.flatten())
        if isinstance(rows, (Ragged, RecordBatch)):
            splits = np.arange(len(column) + 1, dtype=np.int64) * kind.list_size
            return Ragged(rows, splits)
        return rows.reshape(len(column), kind.list_size, *rows.shape[1:])
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return np.array(column.to_pylist(), dtype=object)
    if types.is_binary(kind) or types.is_large_binary(kind) or str(kind) == "binary_view":
        return _binary(pa, column.cast(pa.large_binary()))
    if types.is_fixed_size_binary(kind):
        return _binary(pa, column.cast(pa.large_binary()))
    if types.is_boolean(kind) or types.is_primitive(kind):
        return column.to_numpy(zero_copy_only=False)
    raise TypeError(f"feature {name!r}: Arrow type {kind} can't be encoded")


def _binary(pa: Any, column: Any) -> RecordBatch:
    """Arrow's own layout of byte strings: offsets into one buffer."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return RecordBatch(data if data is not None else b"", ends[:-1], np.diff(ends))
