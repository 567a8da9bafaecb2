"""Holds the columns of a table to the features of a schema, before anything of them is written.

What a schema says and a column does not is an error that names the column, the row and both types.
Otherwise a dataset would be committed that cannot be read as its own schema says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import lost_in_float32, number_kind, rounded
from tfio_store.example.feature import Feature
from tfio_store.example.ragged import Ragged, Text, row_of
from tfio_store.records.framing import RecordBatch

_TEXT = ("bytes", "str")
_CONTINUES = 0xC0, 0x80
"""A byte that continues a UTF-8 character, under this mask, is this."""


def blank(feature: Feature, rows: int) -> Any:
    """A column of the feature's kind, of rows that are all null."""
    values: Any = np.empty((0, *feature.row_shape), feature.item_dtype())
    if feature.nested:
        values = Ragged(values, np.zeros(1, np.int64))
    if feature.ragged:
        return Ragged(values, np.zeros(rows + 1, np.int64))
    text = "" if feature.dtype == "str" else b""
    nothing = text if feature.dtype in _TEXT else np.zeros((), feature.item_dtype())
    return np.full((rows, *feature.row_shape), nothing, feature.item_dtype())


def levelled(name: str, column: Any, feature: Feature) -> Any:
    """The column, whose ragged levels must be those of a nested feature, or of one that is not."""
    if 0 in feature.shape and not feature.ragged:  # lists without values have no shape
        without = evened(column, feature) if isinstance(column, Ragged) else None
        if without is not None:
            return without
    nested = isinstance(column, Ragged) and isinstance(column.values, Ragged)
    if nested == feature.nested:
        return column
    even = evened(column.values, feature) if nested and feature.ragged else None
    if even is not None:
        return Ragged(even, column.row_splits)
    if feature.nested and _is_empty(column.values if isinstance(column, Ragged) else column):
        none = Ragged(np.empty(0, feature.item_dtype()), np.zeros(1, np.int64))
        return Ragged(none, np.zeros(len(column) + 1, np.int64))
    raise wrong_levels(name, feature, nested=nested)


def evened(rows: Any, feature: Feature) -> npt.NDArray[Any] | None:
    """Rows of lists as an array, if each has the feature's shape of a row. They come with ragged
    levels where other rows are empty or of another number. None if one has another shape."""
    return _evened(rows, feature.row_shape, feature)


def _evened(rows: Any, shape: tuple[int, ...], feature: Feature) -> npt.NDArray[Any] | None:
    if not isinstance(rows, Ragged):
        if not len(rows) and getattr(rows, "dtype", np.dtype(object)).kind == "O":
            return np.empty((0, *shape), feature.item_dtype())
        return rows if isinstance(rows, np.ndarray) and rows.shape[1:] == shape else None
    if not shape or (rows.row_lengths != shape[0]).any():
        return None
    values = _evened(rows.values, shape[1:], feature)
    return None if values is None else values.reshape(len(rows), *shape)


def wrong_levels(name: str, feature: Feature, *, nested: bool) -> ValueError:
    """The error of a column that is or is not nested, where the feature has it the other way."""
    levels = "at least two ragged levels" if nested else "at most one ragged level"
    return ValueError(
        f"feature {name!r}: rows of {levels}, where the schema has the shape {feature.shape}"
    )


def _is_empty(values: Any) -> bool:
    """Whether there is no value, and no shape but that rows are empty."""
    if not isinstance(values, np.ndarray):
        return not len(values)
    return not values.size and values.ndim < 3


def fitted(name: str, column: Any, feature: Feature, first_row: int, *, exact: bool = False) -> Any:
    """The column's values as the feature has them; its rows begin at ``first_row`` of the table.
    ``exact``: the feature was not chosen by the user, and so it must neither round nor recode.

    TypeError where the column is of another kind; ValueError where rows have another shape, or a
    value would change.
    """
    ragged = isinstance(column, Ragged)
    values = column.values if ragged else column
    dims = values.ndim if isinstance(values, np.ndarray) else 1
    flat = not ragged and dims < 2
    if (feature.ragged or flat) and _is_empty(values):  # nothing that could misfit
        rows = values.shape if dims > 1 else (0, *feature.row_shape)
        return np.empty(rows, feature.item_dtype())
    _check_shape(name, column, feature)

    def where(index: int) -> str:
        """``index`` counts values, of all rows."""
        return f"feature {name!r}: row {first_row + row_of(column, index)}"

    if exact and feature.dtype in _TEXT:
        _check_one_kind(values, feature, where)
    if isinstance(values, Text):
        if feature.dtype not in _TEXT:
            raise _wrong_kind(where(0), "str", feature)
        return values.batch
    if isinstance(values, (list, RecordBatch)):
        return _strings(values, feature, where)
    if feature.dtype in _TEXT:
        return _string_array(values, feature, where)
    return _numbers(values, feature, where, exact)


def _check_shape(name: str, column: Any, feature: Feature) -> None:
    ragged = isinstance(column, Ragged)
    values = column.values if ragged else column
    items = values.shape[1:] if isinstance(values, np.ndarray) else ()
    got = (*((None,) if ragged else ()), *items)
    wanted = (None,) if feature.nested else feature.shape  # a nested one comes here as its values
    if got != wanted and not (feature.ragged and got[1:] == wanted[1:]):
        raise ValueError(
            f"feature {name!r}: rows of shape {got}, where the schema has {feature.shape}"
        )


def _strings(values: Any, feature: Feature, where: Callable[[int], str]) -> Any:
    if feature.dtype not in _TEXT:
        got = type(values[0]).__name__ if len(values) else "bytes"
        raise _wrong_kind(where(0), got, feature)
    if feature.dtype == "str":
        _check_text(values, where)
    return values


def _string_array(values: npt.NDArray[Any], feature: Feature, where: Callable[[int], str]) -> Any:
    if values.dtype.kind not in "SUTO":
        raise _wrong_kind(where(0), values.dtype.name, feature)
    if feature.dtype == "str" and values.dtype.kind in "SO":
        _check_text(values.ravel().tolist(), where)
    return values


def _check_text(values: Any, where: Callable[[int], str]) -> None:
    """Bytes that are to be read as text must be UTF-8."""
    if isinstance(values, RecordBatch):
        if _all_text(values):
            return
    elif not any(issubclass(kind, bytes) for kind in set(map(type, values))):
        return
    for index, value in enumerate(values):
        if isinstance(value, str):
            continue
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where(index)} is not UTF-8 ({error}), where the schema has str; give the column "
                "the dtype bytes"
            ) from None


def _all_text(batch: RecordBatch) -> bool:
    """Whether one look at the whole buffer shows that every record is UTF-8."""
    try:
        str(batch.buffer, "utf-8")
    except UnicodeDecodeError:
        return False
    bounds = np.append(batch.offsets, batch.offsets + batch.lengths)
    data = np.frombuffer(batch.buffer, np.uint8)
    mask, continues = _CONTINUES
    return not (data[bounds[bounds < len(data)]] & mask == continues).any()


def _check_one_kind(values: Any, feature: Feature, where: Callable[[int], str]) -> None:
    """Text must not become bytes, nor bytes text: rows would come back as what they were not."""
    wanted, other = (str, bytes) if feature.dtype == "str" else (bytes, str)
    if isinstance(values, (Text, RecordBatch)):
        odd = 0 if isinstance(values, Text) == (wanted is bytes) else None
    elif isinstance(values, np.ndarray) and values.dtype.kind != "O":
        odd = 0 if values.dtype.kind in ("UT" if wanted is bytes else "S") else None
    else:
        rows = values if isinstance(values, list) else values.ravel().tolist()
        odd = next((i for i, row in enumerate(rows) if isinstance(row, other)), None)
    if odd is not None:
        raise _wrong_kind(where(odd), other.__name__, feature)


def _numbers(
    values: npt.NDArray[Any], feature: Feature, where: Callable[[int], str], exact: bool
) -> Any:
    """Cast the values. Floats may be rounded; nothing else may change."""
    dtype = feature.item_dtype()
    too_wide = feature.wire == "float32" and dtype.itemsize > 4  # the record holds float32
    if values.dtype == dtype and not too_wide:
        return values
    if not _castable(values.dtype, dtype):
        raise _wrong_kind(where(0), _kind_of(values), feature)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cast = values.astype(dtype)
        changed = _changed(values, cast.astype(np.float32) if too_wide else cast, exact)
    if changed.any():
        index = int(np.argmax(changed.ravel()))
        raise ValueError(
            f"{where(index)} holds {values.ravel()[index]} of dtype {values.dtype}, which does not "
            f"fit {feature.dtype}, as the schema has it"
            + "; choose a type that holds all rows by schema="
            * exact
        )
    return cast


def _changed(values: npt.NDArray[Any], cast: npt.NDArray[Any], exact: bool) -> Any:
    """Which of the values are no longer what they were: bools. Floats may be rounded, if not
    ``exact``."""
    floats = number_kind(cast.dtype) in "fc"
    if floats and values.dtype.kind in "iu":
        return rounded(values, cast)
    if floats and not exact:
        narrow = cast.dtype == np.float32
        return lost_in_float32(values) if narrow else np.isfinite(values) & ~np.isfinite(cast)
    back = cast.astype(values.dtype)
    changed = (back != values) & ~((back != back) & (values != values))  # NaT stays NaT
    if number_kind(values.dtype) in "iu":
        changed |= (values < 0) != (cast < 0)  # -1 goes to uint64 and back unharmed
    return changed


def _castable(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    numbers = "biuf"
    if number_kind(given) in numbers and number_kind(wanted) in numbers:
        return True
    return number_kind(given) == number_kind(wanted) and given.kind in "cmM"


def _kind_of(values: npt.NDArray[Any]) -> str:
    if values.dtype.kind in "SUO" and values.size:
        return type(values.ravel()[:1].tolist()[0]).__name__
    return str(values.dtype)


def _wrong_kind(where: str, got: str, feature: Feature) -> TypeError:
    return TypeError(f"{where} is {got}, where the schema has {feature.dtype}")
