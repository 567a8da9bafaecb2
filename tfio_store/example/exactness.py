"""Integers that must not be rounded, where numpy takes floats for integers and floats together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["exact_array", "joined_exactly", "rounded"]

_EXACT = 2.0**53
"""float64 holds all integers up to this one."""


def rounded(values: npt.NDArray[Any], cast: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which integers are other numbers as floats."""
    wide, limits = cast.astype(np.float64), np.iinfo(values.dtype)
    # The largest integer may become a float that no integer of the dtype is.
    inside = (wide >= limits.min) & (wide < 2.0 ** int(limits.max).bit_length())
    return np.asarray(~inside | (np.where(inside, wide, 0).astype(values.dtype) != values))


def exact_array(rows: Sequence[Any]) -> npt.NDArray[Any]:
    """The rows as numpy has them, or as uint64. ValueError for an integer that would be rounded."""
    array = np.array(rows)
    wide = array.dtype.kind == "f" and array.dtype.itemsize >= 8
    if not wide or not (np.abs(array) >= _EXACT).any():
        return array
    given = np.array(rows, object).ravel()
    integers = [isinstance(value, (int, np.integer)) for value in given]
    if all(integers) and given.min() >= 0 and given.max() < 1 << 64:
        return np.array(rows, np.uint64)
    for i, (value, found) in enumerate(zip(given, array.ravel().tolist(), strict=True)):
        if integers[i] and int(value) != found:
            row = i * len(array) // array.size
            raise ValueError(f"row {row} holds {value}, which the float64 of other rows rounds")
    return array


def joined_exactly(rows: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays end to end. ValueError for an integer that would be rounded."""
    joined = np.concatenate(rows)
    for row in rows if joined.dtype.kind == "f" else ():
        odd = rounded(row, row.astype(joined.dtype)) if row.dtype.kind in "iu" else None
        if odd is not None and odd.any():
            raise ValueError(f"{row[odd][0]} is an integer that the float64 of other rows rounds")
    return joined
