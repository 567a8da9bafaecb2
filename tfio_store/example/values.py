"""The values that a feature may have.

A feature holds int64, float32 or bytes, and nothing else. `plain` turns a user's value into one of
these three. It loses only what float32 always loses: digits, not the number's size. If a value
can't be turned, the error names the feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import float32s, is_null, null_flags, number_kind, rounded
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.ragged import Ragged


def check_keys(mapping: Any) -> None:
    """TypeError unless ``mapping`` is a mapping whose keys are str."""
    if not isinstance(mapping, Mapping):
        raise TypeError(f"features must be a mapping of names to values, not {_kind(mapping)}")
    for key in mapping:
        if type(key) is not str:
            raise TypeError(f"feature names must be str, not {_kind(key)} ({key!r})")


def expand(mapping: Any) -> dict[str, Any]:
    """Return a dict in which each `Ragged` is two features: its values, and the lengths of its
    rows."""
    check_keys(mapping)
    result: dict[str, Any] = {}
    for name, value in mapping.items():
        result[name] = value.values if isinstance(value, Ragged) else value
        if not isinstance(value, Ragged):
            continue
        if name + ROW_LENGTHS in mapping:
            raise ValueError(f"feature {name + ROW_LENGTHS!r}: the Ragged {name!r} needs that name")
        result[name + ROW_LENGTHS] = value.row_lengths
    return result


def is_string(kind: type) -> bool:
    """Whether values of the type are one byte string or text each. A memoryview's format decides
    it, see `plain_string`."""
    return issubclass(kind, (str, bytes, bytearray, memoryview))


def plain_string(value: Any) -> Any:
    """Python's own bytes or str, if the value is one byte string or text of another type, such as
    ``np.str_``. Else the value itself."""
    if isinstance(value, (bytes, bytearray)) or (
        isinstance(value, memoryview) and value.format in ("B", "b", "c")
    ):
        return bytes(value)
    return str.__str__(value) if isinstance(value, str) else value  # numpy's own drops NULs


def numpy_times(value: Any) -> Any:
    """NumPy's time in place of one of Python's or pandas', also in lists of lists. One with a zone
    is its instant in UTC. Anything else is the value itself."""
    if isinstance(value, (list, tuple)):
        return [numpy_times(item) for item in value]
    if not isinstance(value, (date, timedelta)) or is_null(value):
        return value
    if hasattr(value, "as_unit"):  # pandas' own, whose unit is as fine as its text
        value = value.as_unit("ns")
    if isinstance(value, timedelta):
        return getattr(value, "to_timedelta64", lambda: np.timedelta64(value, "us"))()
    if not isinstance(value, datetime):
        return np.datetime64(value, "D")
    if value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    return getattr(value, "to_datetime64", lambda: np.datetime64(value, "us"))()


def plain(name: str, value: Any) -> Any:
    """An int64 or float32 array in C order, a list of bytes and str, () for an empty list, or None
    for a null."""
    if is_null(value):
        return None
    if is_string(type(value)):
        value = plain_string(value)
    if isinstance(value, (bytes, str)):
        return [value]
    if isinstance(value, (bool, int, float)):
        return plain_array(name, np.array(_checked(name, value)))
    nulls = null_flags(value)
    if nulls is not None and nulls.any():
        if nulls.all():
            return None
        raise _partly_null(name, f"{int(nulls.sum())} of {nulls.size} values are null")
    if isinstance(value, (np.ndarray, np.generic, memoryview)):
        return _plain_array(name, np.asarray(value))
    if isinstance(value, (list, tuple)):
        return _plain_list(name, value)
    if hasattr(value, "__array__"):
        return _plain_array(name, np.asarray(value))
    if hasattr(value, "as_py"):
        return plain(name, value.as_py())
    if isinstance(value, (date, timedelta)):
        return _plain_array(name, np.asarray(numpy_times(value)))
    raise TypeError(
        f"feature {name!r}: {_kind(value)} can't be encoded (a feature is bytes, str, bool, int, "
        "float, a date or time, or a list or array of these)"
    )


def _plain_array(name: str, array: npt.NDArray[Any]) -> Any:
    """`plain_array`. NaT is a null."""
    if array.dtype.kind in "mM" and (missing := np.isnat(array)).any():
        if missing.all():
            return None
        raise _partly_null(name, f"{int(missing.sum())} of {array.size} values are NaT")
    return plain_array(name, array)


def refuse_null_step(name: str) -> NoReturn:
    """A feature list has a place for each step, and none for a null."""
    raise TypeError(f"feature {name!r}: a step is null; give a value in its place")


def _partly_null(name: str, what: str) -> ValueError:
    return ValueError(f"feature {name!r}: {what}; a feature is null as a whole, or not at all")


def _checked(name: str, value: bool | int | float) -> bool | int | float:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"feature {name!r}: {value} does not fit int64")
    return value


def plain_array(name: str, array: npt.NDArray[Any]) -> Any:
    """`plain` of an array; more dimensions are flattened in C order."""
    if array.dtype.kind == "O" and not array.size:
        return ()
    if array.dtype.kind in "SUTO":
        return flat_strings(name, array)
    kind = number_kind(array.dtype)
    if kind in "biu":
        # As an int: numpy 1 compares with it as floats, which round.
        if array.dtype == np.uint64 and array.size and int(array.max()) > 2**63 - 1:
            raise ValueError(
                f"feature {name!r}: {array.max()} does not fit int64; Feature('uint64', raw=True) "
                "in schema= keeps it as memory, as a table's exact=True does"
            )
        return np.ascontiguousarray(array, dtype=np.int64)
    if kind == "f":
        return float32s(name, array)
    if kind in "mM" and array.dtype.name not in ("datetime64", "timedelta64"):
        return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(np.int64)
    raise TypeError(f"feature {name!r}: {no_feature(array.dtype)}")


def no_feature(dtype: np.dtype[Any]) -> TypeError:
    """The error of a dtype that neither of the three kinds holds."""
    hints = {
        "c": "give the real and the imaginary part as two features; Feature(..., raw=True) in "
        "schema= keeps it as memory, as a table's exact=True does",
        "M": "give it a unit, such as .astype('M8[ms]')",
        "m": "give it a unit, such as .astype('m8[ms]')",
    }
    hint = hints.get(dtype.kind, "a feature holds int64, float32 or bytes")
    return TypeError(f"dtype {dtype} can't be encoded; {hint}")


def flat_strings(name: str, array: npt.NDArray[Any]) -> list[bytes | str]:
    """Items of a string array; of an object array too, if all are bytes or str, as
    ``tf.Tensor.numpy()`` gives them."""
    items: list[bytes | str] = array.ravel().tolist()
    if array.dtype.kind in "SU":
        return items
    if not set(map(type, items)) <= {bytes, str}:
        items = [plain_string(item) for item in items]
    for item in items:
        if type(item) is not bytes and type(item) is not str:
            raise TypeError(
                f"feature {name!r}: an array of dtype {array.dtype} may hold only bytes and str, "
                f"not {_kind(item)}"
            )
    return items


def _plain_list(name: str, items: list[Any] | tuple[Any, ...]) -> Any:
    if not items:
        return ()
    if any(isinstance(item, (date, timedelta)) for item in items):
        items = numpy_times(items)
    if any(isinstance(item, (np.datetime64, np.timedelta64)) for item in items):
        return _plain_array(name, _times(name, items))
    parts = [plain(name, item) for item in items]
    if any(part is None for part in parts):
        raise _partly_null(name, "a list holds a null")
    shapes = {shape_of(item) for item in items}
    if len(shapes) > 1:
        raise ValueError(
            f"feature {name!r}: rows of differing lengths; wrap them in Ragged.from_rows(...), "
            "which keeps their lengths, or give one flat list"
        )
    kinds = sorted({_kind_of(part) for part in parts})
    if kinds == ["float32", "int64"] and not _has_bools(items):
        return np.concatenate([_as_floats(name, part.ravel()) for part in parts])
    if len(kinds) > 1:
        raise TypeError(f"feature {name!r}: the list mixes {' and '.join(kinds)} values")
    if kinds == ["tuple"]:
        return ()
    if kinds == ["bytes"]:
        return [item for part in parts for item in part]
    return np.concatenate([part.ravel() for part in parts])


def _has_bools(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return any(map(_has_bools, item))
    return bool(np.asarray(item).dtype == np.bool_)


def _as_floats(name: str, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """ValueError for an integer that would be another number."""
    floats = numbers.astype(np.float32)
    odd = rounded(numbers, floats) if numbers.dtype.kind == "i" else np.False_
    if odd.any():
        raise ValueError(
            f"feature {name!r}: the list holds floats and the integer {numbers[odd][0]}, which no "
            f"float32 is; schema={{{name!r}: 'float64'}} keeps both"
        )
    return floats


def _times(name: str, items: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
    """An array of times, which have one unit."""
    if len({getattr(item, "dtype", np.dtype(object)).kind for item in items}) > 1:
        raise TypeError(f"feature {name!r}: the list mixes times and other values")
    return np.array(items)


def _kind_of(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return str(part.dtype.name)
    return "bytes" if isinstance(part, list) else "tuple"


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape that a feature's value has before it is flattened."""
    if isinstance(value, (list, tuple)):
        return (len(value), *(shape_of(value[0]) if len(value) else ()))
    return tuple(getattr(plain_string(value), "shape", ()))


def unit_of(value: Any) -> str | None:
    """The dtype of times; None of other values."""
    if isinstance(value, (date, timedelta)):
        value = numpy_times(value)
    if isinstance(value, (list, tuple)) and value:
        if isinstance(value[0], (date, timedelta)):
            value = numpy_times(value)
        if not isinstance(value[0], (np.datetime64, np.timedelta64)):
            return unit_of(value[0])
        value = np.array(value)
    dtype = getattr(value, "dtype", None)
    return dtype.name if isinstance(dtype, np.dtype) and dtype.kind in "mM" else None


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__qualname__
