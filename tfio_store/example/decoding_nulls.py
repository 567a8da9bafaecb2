"""Makes the column of a nullable feature: values, and which records have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.decoding import KINDS, decode_column, decode_present, filled
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.nullable import Nullable
from tfio_store.records.framing import RecordBatch

__all__ = [
    "Nulls",
    "check_nulls",
    "check_room",
    "decode_nullable",
    "masked",
    "most_room",
    "null_fill",
]

Nulls = Literal["mask", "nan", "default"]
"""How nulls come."""

_MOST_ROOM = 1 << 32
"""Bytes of nulls and defaults in the columns of one batch."""
_WIRE_BYTES = {"bytes": 16, "float32": 4, "int64": 8}
"""What a reader sets aside for each value; for a byte string, where it lies."""

BoolArray = npt.NDArray[np.bool_]


def check_nulls(nulls: str) -> None:
    """ValueError unless it is one of `Nulls`."""
    if nulls not in get_args(Nulls):
        raise ValueError(f"nulls must be 'mask', 'nan' or 'default', got {nulls!r}")


def decode_nullable(
    name: str, spans: Any, column: int, feature: Feature, buffer: Any, strings: str, nulls: str
) -> Any:
    """A `Nullable`. With other ``nulls`` than "mask" the array, `RecordBatch` or `Ragged` of a
    feature that is not nullable."""
    fill = null_fill(name, feature, strings, nulls)
    if feature.ragged or feature.width == 0:
        valid = spans.present(column)
        default = None if feature.ragged else 0  # of no values
        given = replace(feature, nullable=False, default=default)
        values = decode_column(spans, column, given, buffer, strings)
        if feature.nested:
            _check_row_lengths(name, values, valid)
    else:
        valid = np.empty(len(spans), bool)
        values = decode_present(spans, column, feature, buffer, strings, valid)
        if fill is not None and not valid.all():
            values[~valid] = fill
    if nulls != "mask":
        return values
    if isinstance(values, RecordBatch) and feature.width > 1:
        valid = np.repeat(valid, feature.width)
    return Nullable(values, valid)


def masked(columns: Mapping[str, Any], schema: Mapping[str, Feature]) -> dict[str, Any]:
    """The columns, with masked arrays in place of each `Nullable` that can be one."""
    return {
        name: _masked(column.values, column.valid, schema[name])
        if isinstance(column, Nullable) and _has_mask(column.values)
        else column
        for name, column in columns.items()
    }


def _has_mask(values: Any) -> bool:
    """Whether each row has a value to be masked."""
    return isinstance(values, np.ndarray) and math.prod(values.shape[1:]) > 0


def _check_row_lengths(name: str, values: Any, valid: BoolArray) -> None:
    """A record without the feature must have no row lengths of it."""
    wrong = np.flatnonzero((values.row_lengths > 0) & ~valid)
    if len(wrong):
        record = int(wrong[0])
        reason = f"holds {values.row_lengths[record]} row lengths, and the record has no {name!r}"
        raise SchemaError(reason, feature=name + ROW_LENGTHS, record=record)


def most_room(features: Iterable[Feature]) -> int:
    """The most bytes that the nulls and defaults of a record take in columns of fixed shapes."""
    return sum(_room(feature) for feature in features)


def check_room(spans: Any, columns: Mapping[str, tuple[int, Feature]]) -> None:
    """MemoryError for nulls and defaults that would take much room in all: shapes come from
    schemas, and schemas from files. ``columns`` are features, each with the place of its key."""
    if most_room(feature for _, feature in columns.values()) * len(spans) <= _MOST_ROOM:
        return
    room = 0
    for name, (column, feature) in columns.items():
        each = _room(feature)
        room += each * _absent(name, spans, column, feature) if each else 0
        if room > _MOST_ROOM:
            raise MemoryError(
                f"feature {name!r}: with it, nulls and defaults would take {room} bytes; decode "
                "fewer records at once"
            )


def _room(feature: Feature) -> int:
    """What a record without the feature takes."""
    if feature.ragged or feature.sequence or not (feature.nullable or feature.default is not None):
        return 0
    return feature.width * max(feature.item_dtype().itemsize, _WIRE_BYTES[feature.wire])


def _absent(name: str, spans: Any, column: int, feature: Feature) -> int:
    """How many records lack values. SchemaError for too few or too many of them."""
    counts = spans.counts(column, KINDS[feature.wire])
    wanted = 1 if feature.raw else feature.width
    wrong = np.flatnonzero((counts != 0) & (counts != wanted))
    if len(wrong):
        record = int(wrong[0])
        reason = f"holds {counts[record]} values, where {wanted} are wanted"
        raise SchemaError(reason, feature=name, record=record)
    return int((counts == 0).sum())


def _masked(values: npt.NDArray[Any], valid: BoolArray, feature: Feature) -> Any:
    mask = np.empty(values.shape, bool)
    mask.T[...] = ~valid
    scalar = np.ndim(feature.default) == 0 and feature.default is not None
    return np.ma.MaskedArray(values, mask, fill_value=feature.default if scalar else None)


def null_fill(name: str, feature: Feature, strings: str, nulls: str) -> Any:
    """What stands in the place of nulls. ValueError if ``nulls`` asks for what is not there."""
    if strings == "batch" and feature.wire == "bytes" and not (feature.raw or feature.ragged):
        if nulls == "mask":
            return None
        raise ValueError(
            f"feature {name!r}: a RecordBatch has no place for the nulls; ask for nulls='mask', or "
            "for strings='object'"
        )
    if nulls == "nan":
        return _nan(name, feature, strings)
    if feature.default is not None:
        return filled(feature).reshape(feature.row_shape)
    if nulls == "default" and not feature.ragged:
        raise ValueError(
            f"feature {name!r} is nullable and has no default for nulls='default'; "
            "Schema.with_defaults gives it one"
        )
    return np.array(None) if feature.item_dtype().hasobject else None


def _nan(name: str, feature: Feature, strings: str) -> Any:
    dtype = feature.item_dtype()
    if dtype.hasobject and not feature.ragged:
        return np.array(None)
    kind = "f" if dtype.name == "bfloat16" else dtype.kind
    if kind not in "fcmM" or feature.ragged:
        what = "a ragged feature" if feature.ragged else feature.dtype
        raise ValueError(
            f"feature {name!r}: {what} has no NaN to stand for a null; ask for nulls='mask', or "
            "for nulls='default' with a default"
        )
    return np.array("NaT" if kind in "mM" else np.nan, dtype)
