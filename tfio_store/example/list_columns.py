"""Turns columns of feature lists into the form that the codec writes.

The codec takes (key, values, steps, row_splits or None, width, valid or None). Row i has the steps
``steps[i]:steps[i + 1]``. Each step has values as a row of a plain column has (see `columns`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.columns import (
    CoreColumn,
    blanked,
    check_names,
    check_rows,
    core_column,
    core_columns,
    normal_column,
)
from tfio_store.example.feature import Feature
from tfio_store.example.fitting import evened, fitted, wrong_levels
from tfio_store.example.kinds import written
from tfio_store.example.ragged import Ragged, apart
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import BoolArray, Int64Array

__all__ = ["ListColumn", "core_table"]

ListColumn = tuple[bytes, Any, Int64Array, "Int64Array | None", int, "BoolArray | None"]


def core_table(
    columns: Mapping[str, Any],
    schema: Schema | None,
    first_row: int = 0,
    exact: Collection[str] = (),
    untyped: Collection[str] = (),
) -> tuple[list[CoreColumn], list[ListColumn], int]:
    """The columns of the context, those of the feature lists, both sorted by key, and the number of
    rows. See `core_columns`."""
    check_names(columns, schema)
    listed = {name: feature for name, feature in (schema or {}).items() if feature.sequence}
    plain = {name: column for name, column in columns.items() if name not in listed}
    context, rows = core_columns(plain, schema, first_row, exact, untyped)
    lists, more = _core_lists(columns, listed, first_row, exact)
    return context, lists, check_rows(rows | more)


def _core_lists(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature],
    first_row: int,
    exact: Collection[str],
) -> tuple[list[ListColumn], dict[str, int]]:
    ready, rows = [], {}
    for name, feature in sorted(features.items()):
        normal = normal_column(name, columns[name])
        rows[name] = len(normal)
        normal, valid = apart(normal)
        if feature.kind is not None:
            normal = written(name, normal, valid, feature, first_row)
        if valid is not None:
            normal = blanked(name, normal, valid, feature, first_row)
        steps = _of_steps(name, normal, feature)
        core = _core_steps(name, steps, feature, first_row, exact=name in exact)
        ready.append((name.encode(), core[0], steps.row_splits, core[1], core[2], valid))
    return ready, rows


def _of_steps(name: str, column: Any, feature: Feature) -> Ragged:
    """A `Ragged` of steps, whose values are a `Ragged` if the feature's are. ValueError where rows
    have more or fewer levels."""
    if not len(column):
        column = Ragged(_no_values(feature), np.zeros(1, np.int64))
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
        values = _no_values(feature)
        return Ragged(values, np.zeros(1, np.int64)) if feature.nested else values
    if isinstance(steps, np.ndarray) and steps.ndim == 2:
        return _levels(steps)
    raise wrong_levels(name, feature, nested=ragged)


def _no_values(feature: Feature) -> npt.NDArray[Any]:
    return np.empty((0, *feature.row_shape), feature.item_dtype())


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
    _, core, inner, width = core_column(name, each)
    return core, inner, width
