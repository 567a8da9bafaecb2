"""Which records of a sample have a value: `=`, `<`, contains, missing and others.

A record is found if one of the feature's values is as asked. `!=` finds those that have values,
and none of them is this one; `missing` those without a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.errors import TFIOStoreError
from tfio_store.example import decode_examples
from tfio_store.example.feature import Feature
from tfio_store.records.framing import RecordBatch
from tfio_store.show.server.content import Content, Values

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

_TRIED = 20
"""Records at most that are asked what kind a feature is."""


class Wanted:
    """What is looked for. ValueError for an operator that there is not."""

    def __init__(self, op: str, value: str) -> None:
        if op not in OPERATORS:
            raise ValueError(f"there is no operator {op!r}; there are {', '.join(OPERATORS)}")
        self._op = op
        self._text = value
        self._bytes = _as_bytes(value)
        self._number = _as_number(value)

    def rows(self, values: Values, splits: npt.NDArray[np.int64]) -> Bools:
        """Of each record, which has the values ``splits[i]:splits[i + 1]``, whether it is found.
        ValueError for a comparison of numbers with what is none."""
        counts = np.diff(splits)
        if self._op == "missing":
            return np.equal(counts, 0)
        true = np.append(0, np.cumsum(self._flags(values)))[splits]
        found: Bools = np.diff(true) > 0
        if self._op == "!=":
            found = ~found & (counts > 0)
        return found

    def _flags(self, values: Values) -> Bools:
        """Of each value, whether it is as asked (for `!=`: whether it is this one)."""
        if values.numbers is None:
            views = map(values.view, range(len(values)))
            return np.fromiter(map(self._is_string, views), np.bool_, len(values))
        if self._op == "contains":
            texts = map(str, values.numbers.tolist())
            return np.fromiter((self._text in t for t in texts), np.bool_, len(values))
        if self._number is None:
            raise ValueError(f"{self._text!r} is no number, and the feature holds numbers")
        flags: Bools = _COMPARE[self._op](values.numbers, self._as_dtype(values.numbers))
        if self._number != self._number and self._op in ("=", "!="):
            flags = np.isnan(values.numbers)  # NaN is found by its name
        return flags

    def _as_dtype(self, numbers: npt.NDArray[Any]) -> Any:
        """0.1 is the float32 nearest to it."""
        if numbers.dtype != np.float32:
            return self._number
        with np.errstate(over="ignore"):
            return np.float32(self._number)

    def _is_string(self, value: memoryview) -> bool:
        if self._op == "contains":
            return self._bytes in bytes(value)
        if self._op in ("=", "!=") and len(value) != len(self._bytes):
            return False
        return bool(_COMPARE[self._op](bytes(value), self._bytes))


def matches(
    held: Iterable[tuple[npt.NDArray[np.int64], RecordBatch]], name: str, wanted: Wanted
) -> tuple[list[int], int]:
    """The rows of the records that are found by their feature ``name``, and how many records were
    looked at. ``held`` are rows and their records."""
    found: list[int] = []
    looked = 0
    for rows, batch in held:
        found += rows[_flags(batch, name, wanted)].tolist()
        looked += len(batch)
    return sorted(found), looked


def _flags(batch: RecordBatch, name: str, wanted: Wanted) -> Bools:
    """All at once if they are Examples that hold one kind, as they mostly are."""
    dtype = _dtype(batch, name)
    if dtype is not None and len(batch) > 1:
        try:
            return _decoded(batch, name, dtype, wanted)
        except TFIOStoreError:
            pass  # one by one, records of all kinds are read
    each = (_values_of(record, name) for record in batch)
    flags = (wanted.rows(values, np.array([0, len(values)]))[0] for values in each)
    return np.fromiter(flags, np.bool_, len(batch))


def _dtype(batch: RecordBatch, name: str) -> str | None:
    """Of the feature in one of the first records that has it."""
    for record in batch[:_TRIED]:
        for held in Content(record).features:
            if held.name == name and not held.is_list and held.dtype is not None:
                return held.dtype
    return None


def _decoded(batch: RecordBatch, name: str, dtype: str, wanted: Wanted) -> Bools:
    feature = Feature(dtype, (None,), nullable=True)
    column = decode_examples(batch, {name: feature}, strings="batch", nulls="default")[name]
    return wanted.rows(Values(column.values), column.row_splits)


def _values_of(record: bytes, name: str) -> Values:
    content = Content(record)
    for i, held in enumerate(content.features):
        if held.name == name:
            return content.values([i])[0]
    return Values(np.zeros(0))


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
