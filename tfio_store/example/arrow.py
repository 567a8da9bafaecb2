"""Decoded columns to and from pyarrow, without Python per row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch

__all__ = ["from_arrow", "to_arrow"]


def to_arrow(columns: Mapping[str, Any], schema: Schema) -> Any:
    """A Table. Fixed dimensions become fixed-size lists, ragged ones large lists."""
    pa = _pyarrow()
    arrays = [_array(pa, column, schema[name].dtype) for name, column in columns.items()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("pyarrow is needed: pip install 'tfio_store[arrow]'") from error
    return pyarrow


def _array(pa: Any, column: Any, dtype: str) -> Any:
    if isinstance(column, Ragged):
        values = _array(pa, column.values, dtype)
        return pa.LargeListArray.from_arrays(pa.array(column.row_splits), values)
    if isinstance(column, RecordBatch):
        return column.to_arrow().cast(pa.large_string() if dtype == "str" else pa.large_binary())
    array, dims = column.reshape(-1), column.shape[1:]
    if column.dtype == object:
        result = pa.array(array, pa.large_string() if dtype == "str" else pa.large_binary())
    elif array.dtype.kind in "cV":
        raise TypeError(f"dtype {array.dtype} has no Arrow type; read the column as arrays")
    else:
        result = pa.array(array)
    for size in reversed(dims):
        result = pa.FixedSizeListArray.from_arrays(result, size)
    return result


def from_arrow(name: str, column: Any) -> Any:
    """An array, `RecordBatch` or `Ragged` over the column's memory, or a copy where chunks must be
    joined. ValueError for nulls, TypeError for types that a feature can't hold."""
    pa = _pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # what does not fit one array of 32-bit offsets
        raise ValueError(f"feature {name!r}: too large for its type; use the large_ one")
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.null_count:
        raise ValueError(f"feature {name!r}: {column.null_count} nulls; fill them in first")
    return _from_array(pa, name, column)


def _from_array(pa: Any, name: str, column: Any) -> Any:
    kind, types = column.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        splits = column.offsets.to_numpy().astype(np.int64)
        start, stop = int(splits[0]), int(splits[-1])
        return Ragged(from_arrow(name, column.values[start:stop]), splits - start)
    if types.is_fixed_size_list(kind):
        rows = from_arrow(name, column.flatten())
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
