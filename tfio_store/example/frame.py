"""Decoded columns as a pandas data frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfio_store.example.arrow import to_arrow
from tfio_store.example.arrow_types import unpacked
from tfio_store.example.nullable import Nullable, valid_rows
from tfio_store.example.schema import Schema

__all__ = ["to_pandas"]


def to_pandas(columns: Mapping[str, Any], schema: Schema) -> Any:
    """A DataFrame, as the one that was written, if one was. Else what is not one value per row
    becomes one object per row."""
    import pandas

    typed = {name: columns[name] for name in _typed_names(schema) if name in columns}
    if not typed:
        return pandas.DataFrame({name: _column(pandas, columns[name]) for name in columns})
    table = to_arrow(typed, schema)
    if _is_of_pandas(table):
        return _in_order(pandas, columns, typed, _frame(pandas, columns, table))
    made = {
        name: table[name].to_pandas()
        if name in typed and not _is_numbers(column)
        else _column(pandas, column)
        for name, column in columns.items()
    }
    return pandas.DataFrame(made)


def _typed_names(schema: Schema) -> list[str]:
    """The columns whose Arrow types are known, if pyarrow is there to make them."""
    if schema.arrow is None:
        return []
    try:
        return list(unpacked(schema.arrow)[0].names)
    except ImportError:
        return []


def _is_of_pandas(table: Any) -> bool:
    return b"pandas" in (table.schema.metadata or {})


def _in_order(pandas: Any, columns: Mapping[str, Any], typed: Any, frame: Any) -> Any:
    """The frame of the typed columns, with the others at their places."""
    columns = {name: columns[name] for name in columns if name in frame or name not in typed}
    if all(name in typed for name in columns):
        return frame[list(columns)]
    rows = frame.reset_index(drop=True)
    parts = {
        name: rows[name] if name in typed else _column(pandas, column)
        for name, column in columns.items()
    }
    return pandas.DataFrame(parts).set_axis(frame.index)


def _frame(pandas: Any, columns: Mapping[str, Any], table: Any) -> Any:
    """The frame of a table. What pandas had as objects is objects again, integers among nulls keep
    their digits, and NaN beside NA stays NaN."""
    frame = table.to_pandas(integer_object_nulls=True)
    for column in table.schema.pandas_metadata["columns"]:
        name, dtype = column["name"], column["numpy_type"]
        if name not in frame:
            continue
        if dtype == "object" and frame[name].dtype != object:
            made = frame[name].astype(object)
            made[table[name].is_null().to_numpy()] = None
            frame[name] = made
        elif dtype in ("Float32", "Float64"):
            values = columns[name]
            frame[name] = _nullable(pandas, np.asarray(values), ~np.ma.getmaskarray(values))
    return frame


def _is_numbers(column: Any) -> bool:
    """Whether pandas has a nullable dtype for them, and Arrow's way to it would give NaN."""
    return (
        isinstance(column, np.ma.MaskedArray) and column.ndim == 1 and column.dtype.kind in "iubf"
    )


def _column(pandas: Any, column: Any) -> Any:
    if isinstance(column, np.ma.MaskedArray):
        valid = valid_rows(column)
        values = np.asarray(column)
        return (
            _nullable(pandas, values, valid) if column.ndim == 1 else _rows(pandas, values, valid)
        )
    if isinstance(column, Nullable):
        return _rows(pandas, column.values, column.valid)
    return list(column) if getattr(column, "ndim", 2) > 1 else column


def _nullable(pandas: Any, values: Any, valid: Any) -> Any:
    """An array of one of pandas' nullable dtypes, where it has one for the numbers."""
    arrays = pandas.arrays
    kind = values.dtype.kind
    if kind in "iu":
        return arrays.IntegerArray(values, ~valid)
    if kind == "b":
        return arrays.BooleanArray(values, ~valid)
    if kind == "f":
        wide = values.astype(np.float32) if values.dtype.itemsize < 4 else values
        return arrays.FloatingArray(wide, ~valid)
    if kind in "mM":
        return np.where(valid, values, np.array("NaT", values.dtype))
    return _rows(pandas, values, valid)


def _rows(pandas: Any, values: Any, valid: Any) -> Any:
    rows = np.empty(len(valid), object)
    for i, has in enumerate(valid.tolist()):
        rows[i] = values[i] if has else None
    return pandas.Series(rows, dtype=object)
