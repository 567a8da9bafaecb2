"""The schema of what is written: learned of mappings, or read off columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.exactness import number_kind, rounded
from tfio_store.example.feature import EXACT, ROW_LENGTHS, Feature
from tfio_store.example.ragged import Nullable, Ragged, Text, apart
from tfio_store.example.schema import Schema
from tfio_store.example.values import no_feature
from tfio_store.records.framing import RecordBatch

Shape = tuple[int | None, ...]
State = dict[str, Any]
"""``records`` and ``others`` (those that were no mappings), and of each column: the kind, how many
records have it, the fewest and the most values, whether one was a scalar and one a list, the shapes
of arrays, how many were `Ragged`, and the dtype of times."""

_KINDS = ("unknown", "bytes", "float32", "int64")
_FLOAT, _INT64 = 2, 3


def common_shape(shapes: Sequence[Shape]) -> list[Shape]:
    """The one shape of all: the first dimension is None where it varies, and (None,) is of values
    without a shape."""
    common = shapes[0]
    for shape in shapes[1:]:
        if shape != common:
            alike = len(shape) == len(common) and shape[1:] == common[1:]
            common = (None, *common[1:]) if alike else (None,)
    return [common]


def raise_two_kinds(name: str, kind: int, record: int, known: int, first: int) -> NoReturn:
    """SchemaError for a feature that holds values of another kind than in an earlier record."""
    numbers = {_KINDS[kind], _KINDS[known]} == {"int64", "float32"}
    choice = f"schema={{{name!r}: {'float32'!r}}}" if numbers else f"schema={{{name!r}: ...}}"
    reason = (
        f"holds {_KINDS[kind]} values, and {_KINDS[known]} in record {first}; write one kind, or "
        f"choose it by {choice}" + (", which takes whole numbers too" if numbers else "")
    )
    raise SchemaError(reason, feature=name, record=record)


def as_floats(mapping: Mapping[str, Any], firsts: Mapping[str, int], record: int) -> dict[str, Any]:
    """``mapping`` with floats in place of whole numbers, in features that an earlier record has as
    floats: ``firsts`` says which record. SchemaError for a number that no float32 is."""
    made = dict(mapping)
    for name, first in firsts.items():
        numbers = _whole_numbers(mapping[name])
        if numbers is None:
            raise_two_kinds(name, _INT64, record, _FLOAT, first)
        floats = numbers.astype(np.float32)
        odd = rounded(numbers, floats)
        if odd.any():
            reason = (
                f"holds the integer {numbers[odd].flat[0]}, which no float32 is, and floats in "
                f"record {first}; choose by schema={{{name!r}: 'float64'}}, which holds both, or "
                "write a float, which is rounded"
            )
            raise SchemaError(reason, feature=name, record=record)
        made[name] = floats if floats.ndim else float(floats)
    return made


def _whole_numbers(value: Any) -> npt.NDArray[Any] | None:
    """The integers of an int, of lists of these, or of NumPy's; None for what is something else,
    such as a bool, a duration or a `Ragged`."""
    plain = type(value) in (int, list, tuple, np.ndarray) or isinstance(value, np.integer)
    array = np.asarray(value) if plain else np.array(None)
    return array if array.dtype.kind in "iu" else None


def raise_two_units(name: str, unit: str, record: int, known: str) -> NoReturn:
    """SchemaError for times of another unit than those of earlier records."""
    reason = f"holds {unit}, and earlier records {known}; choose one by schema={{{name!r}: ...}}"
    raise SchemaError(reason, feature=name, record=record)


def learned_schema(state: State) -> Schema | None:
    """The schema of all records; None if some were no mappings, or there is none."""
    if state["others"] or not state["records"]:
        return None
    columns, total = state["columns"], state["records"]
    nested = {name for name, column in columns.items() if column[7] and column[7] == column[1]}
    found = {
        name: _feature(columns[name], total, nested=name in nested)
        for name in columns
        if name.removesuffix(ROW_LENGTHS) not in nested or not name.endswith(ROW_LENGTHS)
    }
    return Schema(found)


def checked_state(document: Any) -> State | None:
    """The state that came with a message. ValueError, TypeError or KeyError if it is none."""
    if document is None:
        return None
    state = {word: int(document[word]) for word in ("records", "others")}
    columns = {str(name): list(column) for name, column in document["columns"].items()}
    for column in columns.values():
        kind, records, least, most, scalar, listed, shapes, nested, units = column
        numbers = [kind, records, least, most, scalar, listed, nested]
        if not all(type(n) is int and n >= 0 for n in numbers) or kind > 3:
            raise ValueError("it describes no columns")
        Feature("int64", tuple(shapes[0]) if shapes else ())
        for unit in units:
            Feature(unit)
    return {**state, "columns": columns}


def _feature(column: Sequence[Any], total: int, *, nested: bool) -> Feature:
    kind, records, least, most, scalar, listed, shapes, _, units = column
    shape: Shape = ()
    if nested:
        shape = (None, None)
    elif shapes and not (scalar or listed):
        shape = tuple(shapes[0])
    elif shapes or listed:
        shape = (least,) if least == most and least and not shapes else (None,)
    if 0 in shape[1:] or shape == (0,):
        shape = (None,)
    if not kind and records:
        shape = (None,)
    dtype = units[0] if units else _KINDS[kind]
    return Feature(dtype, shape, nullable=records < total)


def joined_states(learned: Iterable[tuple[str, State]]) -> State | None:
    """The columns that all tasks have learned. Each task has a name for errors. SchemaError where a
    feature has two kinds."""
    joined: State | None = None
    firsts: dict[str, str] = {}
    for task, state in learned:
        if joined is None:
            joined = {"records": 0, "others": 0, "columns": {}}
        joined["records"] += state["records"]
        joined["others"] += state["others"]
        for name, column in state["columns"].items():
            known = joined["columns"].get(name)
            first = firsts.get(name, task)
            both = list(column) if known is None else _both(name, known, column, first, task)
            joined["columns"][name] = both
            if column[0]:
                firsts.setdefault(name, task)
    return joined


def _both(name: str, known: Sequence[Any], new: Sequence[Any], first: str, task: str) -> list[Any]:
    kinds = {column[0] for column in (known, new)} - {0}
    units = list(dict.fromkeys([*known[8], *new[8]]))  # those of ``first`` come first
    if len(kinds) > 1 or len(units) > 1:
        what = units if len(kinds) < 2 else [_KINDS[known[0]], _KINDS[new[0]]]
        reason = f"holds {what[1]} in what {task} wrote, and {what[0]} in what {first} wrote"
        raise SchemaError(f"{reason}; schema= can give it one type", feature=name, record=0)
    shapes = [tuple(shape) for shape in (*known[6], *new[6])]
    counted = [column for column in (known, new) if column[1]]
    return [
        max(known[0], new[0]),
        known[1] + new[1],
        min((column[2] for column in counted), default=0),
        max(known[3], new[3]),
        int(known[4] or new[4]),
        int(known[5] or new[5]),
        [list(shape) for shape in common_shape(shapes)] if shapes else [],
        known[7] + new[7],
        units,
    ]


# The schema of the columns of a table.


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
