"""Decoded columns as a pandas data frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfio_store.example.nullable import Nullable, valid_rows

__all__ = ["to_pandas"]


def to_pandas(columns: Mapping[str, Any]) -> Any:
    """A DataFrame. What is not one value per row becomes one object per row."""
    import pandas

    made = {name: _column(pandas, column) for name, column in columns.items()}
    return pandas.DataFrame(made)


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
