"""Reads what stands between the brackets of a `RecordSource`: numpy's meanings, Python's errors."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["is_number", "record_numbers"]

_KINDS = "a record's number, a slice, a list or array of numbers, or a mask"


def is_number(index: Any) -> bool:
    """Whether this is one number (also as a 0-d array). TypeError if it is neither one nor
    several."""
    if isinstance(index, bool | np.bool_) or _is_mask(index, 0):
        raise TypeError(f"a source takes {_KINDS}, not one bool")
    if getattr(index, "ndim", 0) == 0:
        if hasattr(index, "__index__"):
            return True
        if not isinstance(index, Iterable) or isinstance(index, np.ndarray):
            raise TypeError(f"a source takes {_KINDS}, not {type(index).__name__}")
    if isinstance(index, str | bytes | bytearray | memoryview | Mapping):
        raise TypeError(f"a source takes {_KINDS}, not {type(index).__name__}")
    return False


def _is_mask(index: Any, ndim: int) -> bool:
    return getattr(index, "ndim", None) == ndim and str(index.dtype).endswith("bool")


def record_numbers(indices: Iterable[Any], size: int) -> npt.NDArray[np.int64]:
    """int64 [n]: the numbers from 0 to ``size`` - 1 that ``indices`` mean. A mask of ``size`` bools
    means the records where it is true; negative numbers count from the end.

    IndexError for a number that is none of ``size`` records, or a mask of another length.
    """
    values: Any = indices if hasattr(indices, "ndim") else list(indices)
    array = np.asarray(values, None if len(values) else np.int64)
    if array.ndim != 1:
        raise IndexError(f"a source has one dimension, and the indices have {array.ndim}")
    if array.dtype.kind == "b":
        if len(array) != size:
            raise IndexError(f"a mask of {len(array)} for a source of {size} records")
        return np.flatnonzero(array).astype(np.int64)
    if array.dtype.kind not in "iu":
        return _one_by_one(values, size)
    wrong = (array < -size) | (array >= size)
    if wrong.any():
        raise IndexError(f"record {array[wrong][0]} of a source of {size} records")
    numbers = array.astype(np.int64)
    return np.where(numbers < 0, numbers + size, numbers)


def _one_by_one(values: Iterable[Any], size: int) -> npt.NDArray[np.int64]:
    """The same for objects, or numbers that no array holds. TypeError for what is no integer."""
    numbers = []
    for value in values:
        if isinstance(value, bool | np.bool_):
            raise TypeError("indices mix bools and other things; a mask holds bools only")
        number = operator.index(value)
        if not -size <= number < size:
            raise IndexError(f"record {number} of a source of {size} records")
        numbers.append(number + size if number < 0 else number)
    return np.array(numbers, np.int64)
