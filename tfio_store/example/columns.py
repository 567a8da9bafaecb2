"""Turns a table's columns, in any form that users have, into the few forms that the codec writes.

The codec takes (key, values, row_splits or None, width, valid or None) with flat values: a float32
or int64 array, a list of bytes and str, (buffer, offsets, lengths) of byte strings, or None for no
values of no type. ``valid`` marks the rows that are not null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import (
    exact_array,
    has_nulls_of_its_own,
    is_null,
    null_flags,
    null_kinds,
    number_kind,
)
from tfio_store.example.feature import EXACT, ROW_LENGTHS, Feature
from tfio_store.example.fitting import blank, fitted, levelled
from tfio_store.example.kinds import written
from tfio_store.example.ragged import Nullable, Ragged, Text, apart, row_of, spread, valid_rows
from tfio_store.example.schema import Schema
from tfio_store.example.values import (
    check_keys,
    is_string,
    no_feature,
    plain_array,
    plain_string,
)
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.framing import RecordBatch

__all__ = [
    "CoreColumn",
    "blanked",
    "check_names",
    "check_rows",
    "core_column",
    "core_columns",
    "is_narrowed",
    "nan_as_nulls",
    "normal_column",
    "plain_row",
    "schema_of",
    "undecided",
]

CoreColumn = tuple[bytes, Any, "Int64Array | None", int, "BoolArray | None"]


def check_names(columns: Mapping[str, Any], schema: Schema | None) -> None:
    """TypeError for names that are no str; ValueError unless they are those of the schema."""
    check_keys(columns)
    if schema is not None and set(schema) != set(columns):
        odd = sorted(set(schema) ^ set(columns))
        raise ValueError(f"the schema and the columns must have the same names; not so: {odd}")


def check_rows(rows: Mapping[str, int]) -> int:
    """The number of rows that all columns have. ValueError if they differ."""
    if len(set(rows.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in rows.items())
        raise ValueError(f"columns must have the same number of rows; they have: {listed}")
    return next(iter(rows.values()), 0)


def core_columns(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature] | None,
    first_row: int = 0,
    exact: Collection[str] = (),
    untyped: Collection[str] = (),
) -> tuple[list[CoreColumn], dict[str, int]]:
    """The columns, sorted by key, and the number of rows of each. Errors count rows from
    ``first_row``. Of ``exact`` ones the schema may not change a value. ``untyped`` ones are lists
    without values, which records hold as such of any type."""
    ready: dict[str, CoreColumn] = {}
    rows: dict[str, int] = {}
    for name, column in columns.items():
        normal = normal_column(name, column)
        rows[name] = len(normal)
        feature = None if features is None else features[name]
        normal, valid = apart(normal)
        if feature is not None and feature.kind is not None:
            normal = written(name, normal, valid, feature, first_row)
        if valid is not None:
            normal = blanked(name, normal, valid, feature, first_row)
        if feature is not None:
            normal = levelled(name, normal, feature)
        for part, value in _split_nested(name, normal):
            if part in ready or (part != name and part in columns):
                raise ValueError(f"feature {part!r}: the nested {name!r} needs that name")
            if feature is not None and part == name:
                value = _fitted(part, value, feature, first_row, part in exact)
                key, values, splits, width = core_column(part, value, raw=feature.raw)
                ready[part] = (key, None if part in untyped else values, splits, width, valid)
            else:
                ready[part] = (*core_column(part, value), valid)
    return [ready[name] for name in sorted(ready)], rows


def blanked(
    name: str, values: Any, valid: BoolArray, feature: Feature | None, first_row: int
) -> Any:
    """The values, with nothing where rows are null that could misfit."""
    if feature is not None and not feature.nullable:
        row = first_row + int(np.argmin(valid))
        raise ValueError(
            f"feature {name!r}: row {row} is null, where the schema has {feature.dtype} that is "
            "not nullable; give a value in its place, or Feature(..., nullable=True)"
        )
    if feature is not None and not valid.any():
        return blank(feature, len(valid))
    if isinstance(values, Text):
        return Text(blanked(name, values.batch, valid, None, first_row))
    if isinstance(values, RecordBatch):
        return RecordBatch(values.buffer, values.offsets * valid, values.lengths * valid)
    if isinstance(values, np.ndarray):
        return spread(values[valid], valid)
    return values


def nan_as_nulls(column: Any) -> Any:
    """A normal column, whose NaNs are nulls too if its rows are single floats."""
    values, valid = apart(column)
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        return column
    with np.errstate(invalid="ignore"):
        found = values != values if values.dtype.kind in "fcmMV" else np.zeros(len(values), bool)
    if not found.any():
        return column
    return Nullable(values, ~found if valid is None else valid & ~found)


def normal_column(name: str, column: Any) -> Any:
    """An array, a `RecordBatch`, a `Ragged` or a list of bytes and str, of one entry per row; a
    `Nullable` of one of these, if rows are null. NaT is a null."""
    return _nat_as_null(name, _normal(name, column))


def _nat_as_null(name: str, column: Any) -> Any:
    values, valid = apart(column)
    flat = values
    while isinstance(flat, Ragged):
        flat = flat.values
    if not isinstance(flat, np.ndarray) or flat.dtype.kind not in "mM":
        return column
    missing = np.isnat(flat)
    if not missing.any():
        return column
    if isinstance(values, Ragged):
        raise _partly_null(name, row_of(values, int(np.argmax(missing.ravel()))))
    missing = missing.reshape(len(flat), -1)
    whole = missing.all(axis=1)
    partly = missing.any(axis=1) & ~whole & (True if valid is None else valid)
    if partly.any():
        raise _partly_null(name, int(np.argmax(partly)))
    has: BoolArray = np.asarray(~whole if valid is None else valid & ~whole)
    return Nullable(values, has)


def _normal(name: str, column: Any) -> Any:
    if isinstance(column, Nullable):
        values, valid = apart(column)
        if valid is not None and isinstance(values, list):  # what stands for a null means nothing
            values = [row if has else None for row, has in zip(values, valid.tolist(), strict=True)]
        values = _normal(name, values)
        return values if valid is None else _both(name, values, valid)
    if isinstance(column, np.ma.MaskedArray):
        return _masked(name, column)
    if isinstance(column, tuple) and len(column) == 2:
        return _ragged(name, *column)
    if isinstance(column, (Ragged, RecordBatch, Text)):
        return column
    if hasattr(column, "combine_chunks") or type(column).__module__.startswith("pyarrow"):
        from tfio_store.example.arrow import from_arrow

        return from_arrow(name, column)
    if hasattr(column, "to_numpy") and not isinstance(column, np.ndarray):  # a pandas Series
        return _from_series(name, column)
    if isinstance(column, (list, tuple)):
        return _list(name, list(column))
    array = np.asarray(column)
    if array.dtype.kind in "SU" and array.ndim and not hasattr(column, "__array__"):
        return _list(name, list(column))  # numpy's own strings lose zeros at their ends
    if array.ndim == 0:
        raise _no_rows(name)
    return _list(name, array.tolist()) if array.dtype == object and array.ndim == 1 else array


def _no_rows(name: str) -> ValueError:
    return ValueError(
        f"feature {name!r}: a column has a row dimension; got one value (rows as "
        "dicts go to ShardedWriter.write_batch, or into pandas.DataFrame(rows))"
    )


def _both(name: str, values: Any, valid: BoolArray) -> Nullable:
    """A normal column, which may have nulls of its own, whose other rows are null too."""
    values, others = apart(values)
    try:
        return Nullable(values, valid if others is None else valid & others)
    except ValueError as error:
        raise ValueError(f"feature {name!r}: {error}") from None


def _from_series(name: str, column: Any) -> Any:
    """Make nulls of what pandas calls missing, but for NaN among floats."""
    numbers = isinstance(column.dtype, np.dtype) and column.dtype.kind not in "OmM"
    if numbers or type(column.dtype).__name__ == "SparseDtype":
        return _normal(name, np.asarray(column))
    valid = ~np.asarray(column.isna())
    if valid.all():
        return _normal(name, column.to_numpy())
    return _with_nulls(_normal(name, column[valid].to_numpy()), valid)


def _masked(name: str, column: Any) -> Any:
    if column.ndim == 0:
        raise _no_rows(name)
    if column.dtype.names:
        raise TypeError(f"feature {name!r}: dtype {column.dtype} can't be encoded")
    mask, valid = np.ma.getmaskarray(column), valid_rows(column)
    partly = np.flatnonzero(~valid & ~mask.all(axis=tuple(range(1, mask.ndim))))
    if len(partly):
        raise _partly_null(name, int(partly[0]))
    return _with_nulls(_normal(name, np.asarray(column)[valid]), valid)


def _with_nulls(values: Any, valid: BoolArray) -> Any:
    """A normal column of the ``values`` of valid rows."""
    return values if valid.all() else Nullable(spread(values, valid), valid)


def _ragged(name: str, values: Any, row_splits: Any) -> Ragged:
    try:
        return Ragged(_normal(name, values), row_splits)
    except ValueError as error:
        raise ValueError(f"feature {name!r}: {error}") from None


def _list(name: str, rows: list[Any]) -> Any:
    """A list of rows: strings stay a list, numbers and equal shapes an array, others ragged."""
    kinds = {type(row) for row in rows}
    if kinds <= {bytes, str}:
        return rows
    if any(map(is_string, kinds)):
        rows = [plain_string(row) for row in rows]
        kinds = {type(row) for row in rows}
        if kinds <= {bytes, str}:
            return rows
    if any(map(has_nulls_of_its_own, kinds)) or kinds & {list, tuple}:
        rows = [plain_row(name, i, row) for i, row in enumerate(rows)]
        kinds = {type(row) for row in rows}
    if null_kinds(kinds):
        valid = np.array([not is_null(row) for row in rows])
        return _with_nulls(_list(name, [row for row in rows if not is_null(row)]), valid)
    if not any(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return _list_of_scalars(name, rows)
    shapes = {np.shape(row) if isinstance(row, np.ndarray) else _list_shape(row) for row in rows}
    known = len(shapes) == 1 and not any(shape is None or 0 in shape for shape in shapes)
    if known or _is_all_arrays(rows, shapes):
        return np.array(rows, object) if _has_strings(rows[0]) else _numbers(name, rows)
    try:
        return Ragged.from_rows(rows)
    except (TypeError, ValueError) as error:
        raise type(error)(f"feature {name!r}: {error}") from None


def _is_all_arrays(rows: list[Any], shapes: set[tuple[int, ...] | None]) -> bool:
    """Whether they are arrays of one shape. Unlike lists, they have a type without values too."""
    return len(shapes) == 1 and all(isinstance(row, np.ndarray) for row in rows)


def plain_row(name: str, index: int, row: Any) -> Any:
    """A row of numpy or Python, whatever array it is; None if all of it is null."""
    if isinstance(row, (list, tuple)):
        items = [plain_row(name, index, item) for item in row]
        if any(is_null(item) for item in items):
            raise _partly_null(name, index)
        return items
    if is_string(type(row)):
        return plain_string(row)
    nulls = null_flags(row)
    if nulls is None:
        return row
    if nulls.size and nulls.all():
        return None
    if nulls.any():
        raise _partly_null(name, index)
    return np.asarray(row)


def _partly_null(name: str, row: int) -> ValueError:
    return ValueError(
        f"feature {name!r}: row {row} is null in part; a row is null as a whole, or not at all"
    )


def _numbers(name: str, rows: list[Any]) -> Any:
    try:
        array = exact_array(rows)
    except ValueError as error:
        raise ValueError(f"feature {name!r}: {error}") from None
    if array.dtype.kind in "SU":
        raise TypeError(f"feature {name!r}: the column mixes text and numbers")
    return array


def _list_of_scalars(name: str, rows: list[Any]) -> Any:
    array = _numbers(name, rows)
    if array.dtype == object:
        kinds = sorted({type(row).__qualname__ for row in rows})
        raise TypeError(f"feature {name!r}: rows of type {', '.join(kinds)} can't be encoded")
    return array


def _list_shape(row: Any) -> tuple[int, ...] | None:
    """None for a column that is ragged itself."""
    if not isinstance(row, (list, tuple)):
        return tuple(np.shape(row))
    inner = {_list_shape(item) for item in row}
    if len(inner) > 1 or None in inner:
        return None
    return (len(row), *(next(iter(inner)) or ())) if inner else (0,)


def _has_strings(row: Any) -> bool:
    while isinstance(row, (list, tuple)) and row:
        row = row[0]
    return isinstance(row, (bytes, str)) or getattr(row, "dtype", None) == np.dtype(object)


def _split_nested(name: str, column: Any) -> list[tuple[str, Any]]:
    """A column of two ragged levels is two features: the values, and the lengths of the inner
    rows."""
    if not (isinstance(column, Ragged) and isinstance(column.values, Ragged)):
        return [(name, column)]
    inner = column.values
    if isinstance(inner.values, Ragged):
        raise ValueError(f"feature {name!r}: more than two ragged levels can't be encoded")
    flat = Ragged(inner.values, inner.row_splits[column.row_splits])
    return [(name, flat), (name + ROW_LENGTHS, Ragged(inner.row_lengths, column.row_splits))]


def _fitted(name: str, column: Any, feature: Feature, first_row: int, exact: bool) -> Any:
    values = fitted(name, column, feature, first_row, exact=exact)
    return Ragged(values, column.row_splits) if isinstance(column, Ragged) else values


def core_column(
    name: str, column: Any, *, raw: bool = False
) -> tuple[bytes, Any, Int64Array | None, int]:
    """A column of at most one ragged level, as the codec takes it."""
    splits = column.row_splits if isinstance(column, Ragged) else None
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(values, Text):
        values = values.batch
    if isinstance(values, list):
        return name.encode(), values, splits, 1
    if isinstance(values, RecordBatch):
        spans = (values.buffer, values.offsets, values.lengths)
        return name.encode(), spans, splits, 1
    if raw:
        return name.encode(), *_raw(values, splits)
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    if splits is not None:
        splits = splits * width
    if values.dtype.kind == "S":
        return name.encode(), _fixed_strings(values), splits, width
    return name.encode(), _flat(plain_array(name, values)), splits, width


def _flat(values: Any) -> Any:
    return values.ravel() if isinstance(values, np.ndarray) else list(values)


def _raw(values: Any, splits: Int64Array | None) -> tuple[Any, Int64Array | None, int]:
    """Each row's memory as one byte string."""
    if splits is None:
        splits = np.arange(len(values) + 1, dtype=np.int64)
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    row = int(np.prod(values.shape[1:], dtype=np.int64)) * values.dtype.itemsize
    data = np.ascontiguousarray(little).reshape(-1).view(np.uint8)
    return (data, splits[:-1] * row, np.diff(splits) * row), None, 1


def _fixed_strings(values: npt.NDArray[Any]) -> tuple[Any, Int64Array, Int64Array]:
    """numpy's "S" puts each item into a cell of its own. The zeros that fill the cell are no part
    of it."""
    flat = np.ascontiguousarray(values).ravel()
    lengths = np.char.str_len(flat).astype(np.int64)
    offsets = np.arange(len(flat), dtype=np.int64) * flat.itemsize
    data = flat.view(np.uint8) if flat.itemsize and len(flat) else np.empty(0, np.uint8)
    return data, offsets, lengths


def schema_of(columns: Mapping[str, Any], *, exact: bool = False) -> Schema:
    """Make the schema that columns are written by: numbers as int64 or float32, as TensorFlow reads
    them. ``exact``: what these can't hold is written raw."""
    return Schema({name: _named_feature(name, column, exact) for name, column in columns.items()})


def is_narrowed(column: Any) -> bool:
    """Whether the numbers of a normal column are floats that float32 rounds."""
    while isinstance(column, (Nullable, Ragged)):
        column = column.values
    dtype = getattr(column, "dtype", np.dtype(object))
    return bool(dtype.kind == "f" and dtype.itemsize > 4)


def undecided(column: Any) -> bool:
    """Whether no row of a normal column shows its type: all are null or lists without values, or
    there is none."""
    values, valid = apart(column)
    lists = isinstance(values, Ragged)
    while isinstance(values, Ragged):
        values = values.values
    if lists and len(values):
        return False
    if not lists and len(column) and (valid is None or valid.any()):
        return False
    return isinstance(values, list) or (isinstance(values, np.ndarray) and values.dtype == object)


def _named_feature(name: str, column: Any, exact: bool) -> Feature:
    try:
        return _feature_of(column, exact)
    except (TypeError, ValueError) as error:
        raise type(error)(f"feature {name!r}: {error}") from None


def _feature_of(column: Any, exact: bool) -> Feature:
    if isinstance(column, Nullable):
        return replace(_feature_of(column.values, exact), nullable=True)
    shape: tuple[int | None, ...] = ()
    while isinstance(column, Ragged):
        column, shape = column.values, (*shape, None)
    if isinstance(column, Text):
        return Feature("str", shape)
    if isinstance(column, RecordBatch):
        return Feature("bytes", shape)
    if isinstance(column, list):
        texts = bool(column) and all(type(item) is str for item in column)
        return Feature("str" if texts else "bytes", shape)
    shape = (*shape, *column.shape[1:])
    if column.dtype.kind in "UT":
        return Feature("str", shape)
    if column.dtype.kind in "SO":
        texts = column.size and all(type(item) is str for item in column.flat)
        return Feature("str" if texts else "bytes", shape)
    return _number_feature(column.dtype, shape, exact)


def _number_feature(dtype: np.dtype[Any], shape: tuple[int | None, ...], exact: bool) -> Feature:
    kind = number_kind(dtype)
    if exact and not (kind in "mM" or dtype.name in EXACT):
        return Feature(dtype.name, shape, raw=True)
    if kind not in "biufmM" or dtype.name in ("datetime64", "timedelta64"):
        raise no_feature(dtype)
    if kind in "mM" or dtype.name in (*EXACT, "uint64"):
        return Feature(dtype.name, shape)
    return Feature("float32" if kind == "f" else "int64", shape)
