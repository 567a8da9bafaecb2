"""Between the values that records hold and what they mean: the names of classes, and pixels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.feature import Feature
from tfio_store.example.kinds import ClassLabel, Image, decoded_image
from tfio_store.example.ragged import Nullable, Ragged, Text, row_of
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch

__all__ = ["Labels", "check_labels", "meant", "meant_schema", "named", "objects_of", "written"]

Labels = Literal["numbers", "names"]
"""How classes come."""

Array = npt.NDArray[Any]
Valid = npt.NDArray[np.bool_] | None


class _OddError(ValueError):
    """A value is not of its kind. It says which of all values it is."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def check_labels(labels: str) -> None:
    """ValueError unless it is one of `Labels`."""
    if labels not in ("numbers", "names"):
        raise ValueError(f"labels must be 'numbers' or 'names', got {labels!r}")


def written(name: str, column: Any, valid: Valid, feature: Feature, first_row: int) -> Any:
    """A normal column as records hold it: names of classes become their numbers. ValueError for a
    value that is not of the feature's kind, of a row that is not null; its rows begin at
    ``first_row``."""
    kind = feature.kind

    def change(values: Any, at: Callable[[int], bool]) -> Any:
        if isinstance(kind, ClassLabel):
            return _numbers(values, kind, at)
        _check_images(values, kind, at)
        return values

    try:
        return _changed(column, change, lambda i: valid is None or bool(valid[row_of(column, i)]))
    except _OddError as error:
        row = first_row + row_of(column, error.index)
        raise ValueError(f"feature {name!r}: row {row} {error}") from None


def _changed(column: Any, change: Callable[..., Any], at: Callable[[int], bool]) -> Any:
    """The column with its values changed. ``at`` says whether the value of an index counts."""
    if isinstance(column, Ragged):
        return Ragged(_changed(column.values, change, at), column.row_splits)
    return change(column, at)


def _numbers(values: Any, kind: ClassLabel, at: Callable[[int], bool]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        wrong = np.flatnonzero((values < 0) | (values >= len(kind.names)))
        for index in wrong.tolist():
            if at(index):
                raise _OddError(index, f"holds {values.flat[index]}, which counts none of {kind}")
        return values
    numbers = {label: number for number, label in enumerate(kind.names)}
    found = []
    for index, label in enumerate(_strings(values)):
        text = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
        number = numbers.get(text) if isinstance(text, str) else None
        if number is None and at(index):
            raise _OddError(index, f"holds {label!r}, which is none of {kind}")
        found.append(number or 0)
    return np.array(found, np.int64).reshape(np.shape(values) if _is_array(values) else -1)


def _strings(values: Any) -> Any:
    if isinstance(values, Text):
        return values.batch
    return values.ravel().tolist() if _is_array(values) else values


def _is_array(values: Any) -> bool:
    return isinstance(values, np.ndarray)


def _check_images(values: Any, kind: Any, at: Callable[[int], bool]) -> None:
    if _is_array(values) and values.dtype.kind not in "OS":
        raise _OddError(
            0, f"is an array of {values.dtype}, and no encoded image; encode_image makes one of it"
        )
    for index, data in enumerate(_strings(values)):
        if isinstance(data, bytes) and kind.takes(data):
            continue
        if at(index):
            what = f"the encoding {kind.encoding}" if kind.encoding else "an encoding that is known"
            shown = data[:8] if isinstance(data, (bytes, str)) else type(data).__name__
            raise _OddError(index, f"begins with {shown!r}, and is no image of {what}")


def named(features: Mapping[str, Feature], labels: str) -> set[str]:
    """The nullable classes that come as arrays of names. These hold None where numbers can't."""
    found = {name for name, feature in features.items() if feature.nullable and not feature.ragged}
    return {n for n in found if labels == "names" and isinstance(features[n].kind, ClassLabel)}


def meant(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature],
    labels: str,
    images: bool,
    masked: Collection[str] = (),
) -> dict[str, Any]:
    """Decoded columns: names for the numbers of classes, and pixels for images, as is asked for.
    None takes the place of the mask of ``masked`` ones. SchemaError for a value that is not of its
    kind."""
    result = dict(columns)
    for name, feature in features.items():
        shown = _shown(feature, labels, images)
        if shown is not None:
            column = _meant(name, columns[name], feature, shown)
            result[name] = _without_mask(column) if name in masked else column
    return result


def meant_schema(schema: Schema, labels: str) -> Schema:
    """The schema of the columns of `meant`."""
    features = {
        name: feature
        if _shown(feature, labels, False) is None
        else replace(feature, dtype="str", kind=None, default=None)
        for name, feature in schema.items()
    }
    return Schema(features, arrow=schema.arrow)


def _shown(feature: Feature, labels: str, images: bool) -> Callable[[Any], Any] | None:
    """The function that turns a value into its meaning, if that is asked for."""
    kind = feature.kind
    if isinstance(kind, ClassLabel) and labels == "names":
        return lambda number: _name(kind, number)
    return decoded_image if isinstance(kind, Image) and images else None


def _name(kind: ClassLabel, number: int) -> str:
    if not 0 <= number < len(kind.names):
        raise ValueError(f"holds {number}, which counts none of {kind}; ask for labels='numbers'")
    return kind.names[number]


def _meant(name: str, column: Any, feature: Feature, shown: Callable[[Any], Any]) -> Any:
    batch = column.values if isinstance(column, Nullable) else column
    if isinstance(batch, RecordBatch) and not feature.ragged:  # which is flat
        column = _of_batch(column, feature)
    try:
        return _each(column, shown)
    except _OddError as error:
        raise SchemaError(
            str(error), feature=name, record=row_of(column, error.index)
        ) from error.__cause__


def _without_mask(column: Any) -> Any:
    return column.values if isinstance(column, Nullable) else np.ma.getdata(column)


def _of_batch(column: Any, feature: Feature) -> Any:
    """A batch of byte strings as an array of objects, masked where they are null."""
    values = column.values if isinstance(column, Nullable) else column
    array = objects_of(list(values)).reshape(-1, *feature.row_shape)
    if not isinstance(column, Nullable):
        return array
    return np.ma.MaskedArray(array, ~column.valid.reshape(array.shape))


def _each(column: Any, shown: Callable[[Any], Any]) -> Any:
    """The column with each value changed, but for nulls."""
    if isinstance(column, Nullable):
        return Nullable(_each(column.values, shown), column.valid)
    if isinstance(column, Ragged):
        return Ragged(_each(column.values, shown), column.row_splits)
    if isinstance(column, RecordBatch):
        column = objects_of(list(column))
    mask = np.ma.getmaskarray(column)
    items = zip(np.asarray(column).ravel().tolist(), mask.ravel().tolist(), strict=True)
    made = [_one(i, item, masked, shown) for i, (item, masked) in enumerate(items)]
    array = objects_of(made).reshape(column.shape)
    return np.ma.MaskedArray(array, mask) if isinstance(column, np.ma.MaskedArray) else array


def _one(index: int, item: Any, masked: bool, shown: Callable[[Any], Any]) -> Any:
    if masked or item is None:
        return None
    try:
        return shown(item)
    except ValueError as error:
        raise _OddError(index, str(error)) from error


def objects_of(items: Sequence[Any]) -> Array:
    """An array of these objects, whatever they are."""
    array = np.empty(len(items), object)
    for i, item in enumerate(items):  # numpy would look into arrays of one shape
        array[i] = item
    return array
