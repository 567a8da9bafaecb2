"""Makes of a user's mapping one that a schema's readers decode to the same dtypes and shapes.

An Example's lists have no shape, and three dtypes. So arrays are held to the schema before they are
flattened, and features that are raw in the schema become their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, TypeAlias

import numpy as np

from tfio_store.errors import SchemaError
from tfio_store.example.columns import normal_column
from tfio_store.example.exactness import is_null, lost_in_float32, null_flags
from tfio_store.example.feature import ClassLabel, Feature
from tfio_store.example.fitting import fitted
from tfio_store.example.kinds import written
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.example.values import numpy_times, plain_string


class SequenceRecord(dict[str, Any]):
    """A mapping to encode as a SequenceExample. ``listed`` are its feature lists' names."""

    def __init__(self, features: Mapping[str, Any], listed: Collection[str]) -> None:
        super().__init__(features)
        self._listed = listed

    @property
    def context(self) -> dict[str, Any]:
        """The other features."""
        return {name: value for name, value in self.items() if name not in self._listed}

    @property
    def feature_lists(self) -> dict[str, Any]:
        """The feature lists that the record has. A null is none."""
        listed = {name: self[name] for name in self if name in self._listed}
        return {name: steps for name, steps in listed.items() if not is_null(steps)}


def fit_record(record: Mapping[str, Any], schema: Schema, number: int = 0) -> dict[str, Any]:
    """A mapping to encode: a `SequenceRecord` if the schema has feature lists. SchemaError, of
    record ``number``, if an array has another shape than the schema says, or a value of a raw
    feature another dtype."""
    listed = {name for name, feature in schema.items() if feature.sequence}
    fit = SequenceRecord(record, listed) if listed else dict(record)
    for name, value in record.items():
        feature = schema.get(name)
        if feature is None:
            continue
        nulls = null_flags(value)
        try:
            if is_null(value) or (nulls is not None and nulls.size and nulls.all()):
                _check_null(feature)
                continue
            if feature.sequence:
                fit[name] = _steps(value, feature)
                continue
            if feature.kind is None and isinstance(value, (bytes, bytearray, str)):
                continue
            if nulls is not None and nulls.any():
                continue  # the encoder refuses it
            if feature.kind is not None:
                value = _of_kind(value, feature)
            fit[name] = _raw(value, feature) if feature.raw else _checked(value, feature)
        except (TypeError, ValueError) as error:
            raise SchemaError(_reason(error), feature=name, record=number) from None
    return fit


def _check_null(feature: Feature) -> None:
    """ValueError if readers would take the null for an empty row. Of other features that are not
    nullable they say that it is missing."""
    if feature.ragged and not feature.nullable:
        raise ValueError(
            f"is null, where the schema has {feature.dtype} that is not nullable; give an empty "
            "list, or Feature(..., nullable=True)"
        )


def _steps(value: Any, feature: Feature) -> Any:
    """The value as a record holds it. ValueError unless it is a sequence of steps, each of the
    step's shape."""
    is_bytes = isinstance(plain_string(value), (bytes, str))
    ordered = isinstance(value, Iterable) and not isinstance(value, (Set, Mapping))
    if is_bytes or not ordered or not hasattr(value, "__len__"):
        got = f"a {type(value).__name__}"
        raise ValueError(f"holds {got}, where the schema has a sequence of steps")
    if isinstance(value, Ragged) and not feature.nested:
        raise ValueError(f"holds rows that vary in length, not steps of {feature.shape[1:]}")
    if feature.kind is not None:
        value = _of_kind(value, feature)
    of_one = feature.step()
    for step in value:
        _checked(step, of_one)
    return value


def _reason(error: Exception) -> str:
    """The end of an error: what is wrong. A column of one row names itself and the row too."""
    text = str(error)
    reason = text.removeprefix("feature '': ")
    if reason.startswith("row 0 "):
        return reason.removeprefix("row 0 ")
    return reason if reason == text else f"can't be written: {reason}"


def _of_kind(value: Any, feature: Feature) -> Any:
    """The value as records hold it: a class by its number, an image as bytes."""
    row = written("", normal_column("", [value]), None, feature, 0)[0]
    return row.tolist() if isinstance(row, np.ndarray) else row


def _raw(value: Any, feature: Feature) -> bytes:
    """The memory of an array, as `write_table` writes it."""
    if feature.nested:
        raise ValueError("has rows of rows of raw memory; write_table writes them")
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        raise TypeError(f"holds {array.dtype}, where the schema has raw {feature.dtype}")
    if not feature.ragged:
        column: Any = array[np.newaxis]
    elif array.ndim:
        column = Ragged(array, np.array([0, len(array)]))
    else:
        raise ValueError(f"has shape (), where the schema has {feature.shape}")
    _check_shape(array, feature)
    values = fitted("", column, feature, 0)
    return bytes(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())


def _checked(value: Any, feature: Feature) -> Any:
    """The value, if it is no array of another shape, and float32 holds its floats."""
    if isinstance(value, np.ndarray) and value.ndim > 1:
        _check_shape(value, feature)
    if feature.wire == "float32" and _has_integers(value):
        value = _as_floats(value)
    floats = isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
    if floats and feature.wire == "float32":
        lost = lost_in_float32(np.asarray(value))
        if lost.any():
            raise ValueError(f"holds {np.asarray(value)[lost].flat[0]}, which float32 can't hold")
    if feature.item_dtype().kind in "mM":
        return _times(value, feature)
    return value


def _has_integers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_integers, value))
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("i", "u") if kind else type(value) is int


def _as_floats(value: Any) -> Any:
    """The same numbers, where the schema has floats. ValueError if float32 would round one."""
    numbers = np.asarray(value, object)
    floats = numbers.astype(np.float64)
    integers = np.array([_has_integers(number) for number in numbers.flat], bool)
    whole = floats.ravel()[integers]
    exact = numbers.ravel()[integers] == whole.astype(np.float32).astype(object)
    if not exact.all():
        odd = numbers.ravel()[integers][~exact.astype(bool)][0]
        raise ValueError(f"holds the integer {odd}, which no float32 is; a float is rounded")
    return floats if floats.ndim else float(floats)


def _times(value: Any, feature: Feature) -> Any:
    """The numbers of the feature's unit. TypeError for what is no time."""
    array = np.asarray(numpy_times(value))
    if array.dtype.kind not in "mM":
        raise TypeError(f"holds {array.dtype}, where the schema has {feature.dtype}")
    given = Feature(feature.dtype, (None,))
    flat = array.ravel()
    return fitted("", Ragged(flat, np.array([0, flat.size])), given, 0).view(np.int64).tolist()


def _check_shape(array: Any, feature: Feature) -> None:
    wanted = feature.shape
    fits = len(wanted) == array.ndim and all(
        dim in (None, size) for dim, size in zip(wanted, array.shape, strict=True)
    )
    if not fits or feature.nested:
        raise ValueError(f"has shape {array.shape}, where the schema has {wanted}")


# Records that need no fitting, as nearly all of a stream are. To see it takes a thirtieth of the
# time of fitting one and of decoding it.


_Test: TypeAlias = Callable[[Any], bool]

_INTEGERS = frozenset({int, *(np.dtype(letter).type for letter in "bhilqBHILQ")})
_FLOATS = frozenset({float, np.float32, np.float64})
_OF_NUMBERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_OF_ARRAYS = _OF_NUMBERS - {"uint64"} | {"float32"}


class FittingRecords:
    """The mappings that hold just a schema's features, as what their readers give. It knows plain
    values of the usual types. What is not in here may fit all the same."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        tests = {name: _test_of(feature) for name, feature in schema.items()}
        self._tests = {name: test for name, test in tests.items() if test is not None}
        self._known = len(self._tests) == len(tests)

    def __reduce__(self) -> tuple[Any, ...]:
        return FittingRecords, (self._schema,)  # functions made here do not pickle

    def __contains__(self, record: object) -> bool:
        if not self._known or type(record) is not dict or record.keys() != self._tests.keys():
            return False
        return all(test(record[name]) for name, test in self._tests.items())


def _test_of(feature: Feature) -> _Test | None:
    """Whether a value is one that readers of the feature get back. None if that takes a closer
    look."""
    labels = feature.kind if isinstance(feature.kind, ClassLabel) else None
    if feature.raw or feature.sequence or feature.nested or (feature.kind and not labels):
        return None
    item = _item_test(feature.dtype, labels)
    if item is None or feature.shape == ():
        return item
    shape, arrays = feature.shape, feature.dtype in _OF_ARRAYS and not labels

    def listed(value: Any) -> bool:
        if type(value) is list and len(shape) == 1:
            return len(value) > 0 and shape[0] in (None, len(value)) and all(map(item, value))
        if not arrays or type(value) is not np.ndarray or value.dtype.name != feature.dtype:
            return False
        fits = len(shape) == value.ndim and value.size > 0
        return fits and all(map(_is_dim, shape, value.shape))

    return listed


def _is_dim(dim: int | None, size: int) -> bool:
    return dim is None or dim == size


def _item_test(dtype: str, labels: ClassLabel | None) -> _Test | None:
    if dtype in ("bytes", "str"):
        wanted = bytes if dtype == "bytes" else str
        return lambda value: type(value) is wanted
    if dtype == "float32":  # within these bounds, and at 0, it keeps its digits
        return lambda value: (
            type(value) in _FLOATS and (1.2e-38 <= abs(value) <= 3.4e38 or value == 0)
        )
    if dtype not in _OF_NUMBERS:
        return None
    bounds = np.iinfo(dtype)
    least, most = (0, len(labels.names) - 1) if labels else (int(bounds.min), int(bounds.max))
    most = min(most, 2**63 - 1)
    return lambda value: type(value) in _INTEGERS and least <= value <= most
