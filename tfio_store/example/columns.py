"""Turns a table's columns, in any form that users have, into the few forms that the codec writes.

The codec takes (key, values, row_splits or None, width, valid or None) with flat values: a float32
or int64 array, a list of bytes and str, (buffer, offsets, lengths) of byte strings, or None for no
values of no type. ``valid`` marks the rows that are not null.

Of feature lists it takes (key, values, steps, row_splits or None, width, valid or None). Row i has
the steps ``steps[i]:steps[i + 1]``. Each step has values as a row of a plain column has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import (
    exact_array,
    has_nulls_of_its_own,
    is_null,
    null_flags,
    null_kinds,
)
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.fitting import blank, evened, fitted, levelled, wrong_levels
from tfio_store.example.kinds import written
from tfio_store.example.ragged import Nullable, Ragged, Text, apart, row_of, spread, valid_rows
from tfio_store.example.schema import Schema
from tfio_store.example.values import (
    check_keys,
    is_string,
    numpy_times,
    plain_array,
    plain_string,
)
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.framing import RecordBatch

CoreColumn = tuple[bytes, Any, "Int64Array | None", int, "BoolArray | None"]
ListColumn = tuple[bytes, Any, Int64Array, "Int64Array | None", int, "BoolArray | None"]


def core_table(
    columns: Mapping[str, Any],
    schema: Schema | None,
    first_row: int = 0,
    exact: Collection[str] = (),
    untyped: Collection[str] = (),
) -> tuple[list[CoreColumn], list[ListColumn], int]:
    """The columns of the context, those of the feature lists, both sorted by key, and the number of
    rows. Errors count rows from ``first_row``. Of ``exact`` ones the schema may not change a value.
    ``untyped`` ones are lists without values, which records hold as such of any type."""
    _check_names(columns, schema)
    listed = {name: feature for name, feature in (schema or {}).items() if feature.sequence}
    plain = {name: column for name, column in columns.items() if name not in listed}
    context, rows = _core_columns(plain, schema, first_row, exact, untyped)
    lists, more = _core_lists(columns, listed, first_row, exact)
    return context, lists, _check_rows(rows | more)


def _check_names(columns: Mapping[str, Any], schema: Schema | None) -> None:
    """TypeError for names that are no str; ValueError unless they are those of the schema."""
    check_keys(columns)
    if schema is not None and set(schema) != set(columns):
        odd = sorted(set(schema) ^ set(columns))
        raise ValueError(f"the schema and the columns must have the same names; not so: {odd}")


def _check_rows(rows: Mapping[str, int]) -> int:
    """The number of rows that all columns have. ValueError if they differ."""
    if len(set(rows.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in rows.items())
        raise ValueError(f"columns must have the same number of rows; they have: {listed}")
    return next(iter(rows.values()), 0)


def _core_columns(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature] | None,
    first_row: int,
    exact: Collection[str],
    untyped: Collection[str],
) -> tuple[list[CoreColumn], dict[str, int]]:
    """The columns, sorted by key, and the number of rows of each."""
    ready: dict[str, CoreColumn] = {}
    rows: dict[str, int] = {}
    for name, column in columns.items():
        feature = None if features is None else features[name]
        normal, valid = _normal_and_valid(name, column, feature, first_row)
        rows[name] = len(normal)
        if feature is not None:
            normal = levelled(name, normal, feature)
        for part, value in _split_nested(name, normal):
            if part in ready or (part != name and part in columns):
                raise ValueError(f"feature {part!r}: the nested {name!r} needs that name")
            if feature is not None and part == name:
                held = fitted(part, value, feature, first_row, exact=part in exact)
                value = Ragged(held, value.row_splits) if isinstance(value, Ragged) else held
                key, values, splits, width = _core_column(part, value, raw=feature.raw)
                ready[part] = (key, None if part in untyped else values, splits, width, valid)
            else:
                ready[part] = (*_core_column(part, value), valid)
    return [ready[name] for name in sorted(ready)], rows


def _normal_and_valid(
    name: str, column: Any, feature: Feature | None, first_row: int
) -> tuple[Any, BoolArray | None]:
    """A normal column of what records hold, and which of its rows are valid: None if all are."""
    normal, valid = apart(normal_column(name, column))
    if feature is not None and feature.kind is not None:
        normal = written(name, normal, valid, feature, first_row)
    if valid is not None:
        normal = _blanked(name, normal, valid, feature, first_row)
    return normal, valid


def _blanked(
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
        return Text(_blanked(name, values.batch, valid, None, first_row))
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
    if any(issubclass(kind, (date, timedelta)) for kind in kinds):
        rows = numpy_times(rows)
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
        return numpy_times(row)
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
        raise _mixed(name, rows)
    return array


def _mixed(name: str, rows: list[Any]) -> TypeError:
    """The error of text among numbers. As a gap in text pandas has NaN."""
    numbers = [row for row in rows if not is_string(type(row))]
    gaps = all(isinstance(row, float) and row != row for row in numbers)
    hint = "; NaN is a number: give None where text is missing" if numbers and gaps else ""
    return TypeError(f"feature {name!r}: the column mixes text and numbers{hint}")


def _list_of_scalars(name: str, rows: list[Any]) -> Any:
    array = _numbers(name, rows)
    if array.dtype == object:
        for i, row in enumerate(rows):
            if type(row) is int and not -(1 << 63) <= row < 1 << 63:
                raise ValueError(f"feature {name!r}: row {i} holds {row}, which does not fit int64")
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


def _core_column(
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


# Columns of feature lists.


def _core_lists(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature],
    first_row: int,
    exact: Collection[str],
) -> tuple[list[ListColumn], dict[str, int]]:
    ready, rows = [], {}
    for name, feature in sorted(features.items()):
        normal, valid = _normal_and_valid(name, columns[name], feature, first_row)
        rows[name] = len(normal)
        steps = _of_steps(name, normal, feature)
        core = _core_steps(name, steps, feature, first_row, exact=name in exact)
        ready.append((name.encode(), core[0], steps.row_splits, core[1], core[2], valid))
    return ready, rows


def _of_steps(name: str, column: Any, feature: Feature) -> Ragged:
    """A `Ragged` of steps, whose values are a `Ragged` if the feature's are. ValueError where rows
    have more or fewer levels."""
    if not len(column):
        column = blank(feature, 0)
    elif isinstance(column, np.ndarray) and column.ndim > 1:
        column = _levels(column)
    if not isinstance(column, Ragged):
        raise ValueError(
            f"feature {name!r}: rows of single values, where the schema has a feature list of "
            f"shape {feature.shape}"
        )
    return Ragged(_of_values(name, column.values, feature), column.row_splits)


def _of_values(name: str, steps: Any, feature: Feature) -> Any:
    """The steps as a `Ragged`, or as rows of one shape, as the feature says."""
    ragged = isinstance(steps, Ragged)
    if ragged and not feature.nested and len(steps):
        even = evened(steps, feature)
        if even is not None:
            return even
    if ragged and isinstance(steps.values, Ragged):
        raise wrong_levels(name, feature, nested=True)
    if ragged == feature.nested:
        _check_empty_steps(name, steps, feature)
        return steps
    if not len(steps):
        return blank(feature, 0).values
    if isinstance(steps, np.ndarray) and steps.ndim == 2:
        return _levels(steps)
    raise wrong_levels(name, feature, nested=ragged)


def _check_empty_steps(name: str, steps: Any, feature: Feature) -> None:
    """ValueError for steps without a value, where the feature has some. There is no value that
    could misfit."""
    empty = isinstance(steps, np.ndarray) and len(steps) and not steps.size
    if empty and feature.width:
        raise ValueError(
            f"feature {name!r}: steps of shape {steps.shape[1:]}, where the schema has "
            f"{feature.row_shape}"
        )


def _levels(array: npt.NDArray[Any]) -> Ragged:
    """The same rows, which happen to have one length."""
    rows, length, *inner = array.shape
    splits = np.arange(rows + 1, dtype=np.int64) * length
    return Ragged(array.reshape(rows * length, *inner), splits)


def _core_steps(
    name: str, rows: Ragged, feature: Feature, first_row: int, *, exact: bool
) -> tuple[Any, Int64Array | None, int]:
    """(values, row_splits or None, width) of the steps, held to the feature."""
    splits, steps = rows.row_splits, rows.values
    flat = Ragged(steps.values, steps.row_splits[splits]) if feature.nested else rows
    values = fitted(name, flat, feature, first_row, exact=exact)
    each = Ragged(values, steps.row_splits) if feature.nested else values
    _, core, inner, width = _core_column(name, each)
    return core, inner, width
