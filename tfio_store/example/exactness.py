"""Numbers that must not change, and what stands for a null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tfio_store.records.arrays import BoolArray

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


def number_kind(dtype: np.dtype[Any]) -> str:
    """numpy's letter of a kind; that of what they stand for, where types are of ml_dtypes."""
    if dtype.kind != "V":
        return str(dtype.kind)
    return {"b": "f", "f": "f", "i": "i", "u": "u"}.get(dtype.name[:1], "V")


def float32s(name: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The numbers as float32 in C order, rounded. ValueError for one beyond its range."""
    try:
        with np.errstate(over="raise", under="raise"):
            return np.ascontiguousarray(array, dtype=np.float32)
    except FloatingPointError:  # of the smallest numbers float32 keeps fewer digits
        lost = lost_in_float32(array)
    if lost.any():
        refuse_float(name, array[lost].flat[0])
    with np.errstate(under="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def lost_in_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which finite numbers float32 would have as infinite or zero."""
    with np.errstate(over="ignore", under="ignore"):
        cast = array.astype(np.float32)
    return np.asarray((np.isfinite(array) & ~np.isfinite(cast)) | ((cast == 0) & (array != 0)))


def refuse_float(name: str, value: Any) -> NoReturn:
    """ValueError for a number beyond the range of float32."""
    raise ValueError(
        f"feature {name!r}: {value!s} does not fit float32, which holds 0 and what is between "
        f"1.4e-45 and 3.4e38; schema={{{name!r}: 'float64'}} keeps it exactly"
    )


# The nulls in the values and arrays that users have.


_NULLS = ("NoneType", "NAType", "NaTType", "MaskedConstant")


def is_null(value: Any) -> bool:
    """Whether a value is None, pandas' NA or NaT, or numpy's masked."""
    return type(value).__name__ in _NULLS


def null_kinds(kinds: set[type]) -> bool:
    """Whether a null has one of these types."""
    return any(kind.__name__ in _NULLS for kind in kinds)


def has_nulls_of_its_own(kind: type) -> bool:
    """Whether a type is an array whose nulls numpy would drop, or make NaN: of masks, of pandas, of
    pyarrow, or a `Nullable`."""
    return issubclass(kind, np.ma.MaskedArray) or any(
        hasattr(kind, word) for word in ("null_count", "isna", "valid")
    )


def null_flags(array: Any) -> BoolArray | None:
    """Which items of an array are null; None for what has no nulls of its own."""
    if not has_nulls_of_its_own(type(array)):
        return None
    if isinstance(array, np.ma.MaskedArray):
        # One item of records has several flags. No feature can hold it, masked or not.
        return None if array.dtype.names else np.ma.getmaskarray(array)
    if hasattr(array, "valid"):
        return ~np.asarray(array.valid)
    if hasattr(array, "null_count"):
        return np.asarray(array.is_null(), bool)
    if isinstance(array.dtype, np.dtype) and array.dtype.kind not in "OmM":
        return np.zeros(len(array), bool)  # its NaNs are numbers
    return np.asarray(array.isna(), bool)
