"""What stands for a null in the values and arrays that users have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["has_nulls_of_its_own", "is_null", "null_flags", "null_kinds"]

BoolArray = npt.NDArray[np.bool_]

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
