"""Which records of a sample have a value: `=`, `<`, contains, missing and others.

A record is found if one of the feature's values is as asked. `!=` finds those that have values,
and none of them is this one; `missing` those without a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.example.kinds import ClassLabel
from tfio_store.records.framing import RecordBatch
from tfio_store.show.columns import Column, decoded, name_of
from tfio_store.show.features import shown_name
from tfio_store.show.tally import is_pixels

__all__ = ["OPERATORS", "Wanted", "matches"]

Bools = npt.NDArray[np.bool_]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

OPERATORS = (*_COMPARE, "contains", "missing")

_DIGITS = 100
"""No number of more is read."""


class Wanted:
    """What is looked for. ``feature`` is what the schema says: the names of classes, and how bytes
    hold numbers. ValueError for an operator that there is not."""

    def __init__(self, op: str, value: str, feature: Feature | None = None) -> None:
        if op not in OPERATORS:
            raise ValueError(f"there is no operator {op!r}; there are {', '.join(OPERATORS)}")
        self._op = op
        self._text = value
        self._bytes = _as_bytes(value)
        self._number = _as_number(value)
        self._raw = _raw_dtype(feature)
        kind = None if feature is None else feature.kind
        if isinstance(kind, ClassLabel) and value in kind.names:
            self._number = kind.names.index(value)

    def found(self, columns: Iterable[Column], count: int) -> Bools:
        """Of each of ``count`` records, whether it is found. ``columns`` are of one feature, with
        values of different kinds. ValueError for a comparison of numbers with what is none."""
        there, fits = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for column in map(self._read, columns):
            there[column.rows[column.counts > 0]] = True
            if self._op != "missing" and len(column.values):
                splits = np.append(0, np.cumsum(column.counts))
                true = np.append(0, np.cumsum(self._flags(column)))[splits]
                fits[column.rows[np.diff(true) > 0]] = True
        if self._op == "missing":
            return ~there
        return there & ~fits if self._op == "!=" else fits

    def _read(self, column: Column) -> Column:
        """The numbers of a column of raw bytes."""
        if self._raw is None or column.dtype != "bytes":
            return column
        lengths = column.values[:, 1]
        if (lengths % self._raw.itemsize).any():
            return column  # not as the schema says: they stay bytes
        of_strings = np.append(0, np.cumsum(lengths // self._raw.itemsize))
        ends = of_strings[np.append(0, np.cumsum(column.counts))]
        values = np.frombuffer(b"".join(column.strings()), self._raw)
        return replace(column, dtype=str(self._raw), counts=np.diff(ends), values=values)

    def _flags(self, column: Column) -> Bools:
        """Of each value, whether it is as asked (for `!=`: whether it is this one)."""
        values, count = column.values, len(column.values)
        if column.dtype == "bytes":
            return np.fromiter(map(self._is_string, column.strings()), np.bool_, count)
        if self._op == "contains":
            return np.fromiter((self._text in str(v) for v in values.tolist()), np.bool_, count)
        if self._number is None:
            raise ValueError(f"{self._text!r} is no number, and the feature holds numbers")
        flags: Bools = _COMPARE[self._op](values, self._as_dtype(values))
        if self._number != self._number and self._op in ("=", "!="):
            flags = np.isnan(values)  # NaN is found by its name
        return flags

    def _as_dtype(self, numbers: npt.NDArray[Any]) -> Any:
        """0.1 is the float32 nearest to it."""
        if numbers.dtype != np.float32:
            return self._number
        with np.errstate(over="ignore"):
            return np.float32(self._number)

    def _is_string(self, value: bytes) -> bool:
        if self._op == "contains":
            return self._bytes in value
        return bool(_COMPARE[self._op](value, self._bytes))


def matches(
    held: Iterable[tuple[npt.NDArray[np.int64], RecordBatch]], name: str, wanted: Wanted
) -> tuple[list[int], int]:
    """The rows of the records that are found by their feature ``name``, as it is shown; and how
    many records were looked at. ``held`` are rows and their records."""
    found: list[int] = []
    looked = 0
    for rows, batch in held:
        columns = decoded(batch, lambda key: shown_name(name_of(key)) == name).columns
        found += rows[wanted.found(columns, len(batch))].tolist()
        looked += len(batch)
    return sorted(found), looked


def _raw_dtype(feature: Feature | None) -> np.dtype[Any] | None:
    if feature is None or not feature.raw or is_pixels(feature):
        return None
    try:
        dtype = np.dtype(feature.dtype)
    except TypeError:
        return None
    return dtype if dtype.kind in "iuf" else None


def _as_bytes(value: str) -> bytes:
    """Text as UTF-8; ``0x89504e47`` are bytes, as a report writes them."""
    try:
        return bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    except ValueError:
        return value.encode("utf-8", "surrogatepass")


def _as_number(value: str) -> float | int | None:
    if len(value) > _DIGITS:
        return None
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            continue
    return None
