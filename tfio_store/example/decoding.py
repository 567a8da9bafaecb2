"""Makes arrays of the columns of a batch of Examples: plain, nullable, and feature lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.ragged import Nullable, Ragged
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.framing import RecordBatch

KINDS = {"bytes": 1, "float32": 2, "int64": 3}

Array = npt.NDArray[Any]


def keys_of(name: str, feature: Feature) -> list[bytes]:
    """The keys of a feature in a record: one, or two if it is ragged within the record."""
    key = name.encode()
    return [key, key + ROW_LENGTHS.encode()] if feature.nested else [key]


def decode_column(spans: Any, column: int, feature: Feature, buffer: Any, strings: str) -> Any:
    """Array, `RecordBatch` or `Ragged`, of a feature that is not nullable; ``column`` is the
    feature's first key in ``spans``."""
    if feature.raw and feature.nested:
        flat = _raw(spans, column, replace(feature, shape=(None,)))
        return _nested(spans, column, flat.values, flat.row_lengths)
    if feature.raw:
        return _raw(spans, column, feature)
    if feature.width == 0:
        strings = "object"  # a batch of no strings doesn't know its rows
    if not feature.ragged:
        return _fixed(spans, column, feature, buffer, strings)
    counts = spans.counts(column, KINDS[feature.wire])
    values = _values(spans, column, feature, buffer, strings, splits_of(counts))
    if feature.nested:
        return _nested(spans, column, values, counts)
    return _rows(spans, column, feature, values, counts)


def decode_fixed(spans: Any, placed: Mapping[str, tuple[int, Feature]]) -> dict[str, Array]:
    """The columns of numbers of a fixed shape that every record must have, all by one call that
    leaves the GIL to other threads. Nothing where one of them is unusual: each is then to be
    decoded by itself, which tells what is wrong. ``placed``: the first key in ``spans``."""
    some = {name: (at, feature) for name, (at, feature) in placed.items() if is_fixed(feature)}
    if not some:
        return {}
    forms = forms_of(feature for _, feature in some.values())
    found = spans.fixed([at for at, _ in some.values()], *forms)
    return {} if found is None else cast_fixed(spans, some, found)


def forms_of(features: Iterable[Feature]) -> tuple[list[int], list[int]]:
    """The widths of such features, and their kinds on the wire."""
    some = list(features)
    return [one.width for one in some], [KINDS[one.wire] for one in some]


def cast_fixed(
    spans: Any, placed: Mapping[str, tuple[int, Feature]], found: Iterable[Array]
) -> dict[str, Array]:
    """The columns of what was found, in their dtypes and shapes. Nothing where a value has no
    place in its dtype."""
    columns = {}
    for (name, (at, feature)), values in zip(placed.items(), found, strict=True):
        try:
            cast = _cast(values, feature, spans, at, None)
        except SchemaError:
            return {}
        columns[name] = cast.reshape(len(spans), *feature.shape) if feature.shape else cast
    return columns


def is_fixed(feature: Feature) -> bool:
    """Whether every record must have so many numbers of it."""
    varies = feature.ragged or feature.nullable or feature.raw or feature.width == 0
    return not varies and feature.default is None and feature.wire != "bytes"


def _fixed(
    spans: Any,
    column: int,
    feature: Feature,
    buffer: Any,
    strings: str,
    valid: BoolArray | None = None,
) -> Any:
    """A column of a fixed shape. Where records may be null, ``valid`` gets a flag for each; zeros
    or empty strings take the places of nulls."""
    values = _values(spans, column, feature, buffer, strings, None, valid)
    return values if isinstance(values, RecordBatch) else values.reshape(len(spans), *feature.shape)


def splits_of(counts: Int64Array) -> Int64Array:
    """int64 [n + 1]: where rows of so many values begin and end."""
    splits = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=splits[1:])
    return splits


def record_of(value: int, splits: Int64Array | None, width: int) -> int:
    """The record that a value is of, which is counted through all records."""
    if splits is None:
        return value // width
    return int(np.searchsorted(splits, value, "right")) - 1


def _name(spans: Any, column: int) -> str:
    return str(spans.keys[column].decode("utf-8", "replace"))


def _rows(spans: Any, column: int, feature: Feature, values: Any, counts: Int64Array) -> Ragged:
    uneven = np.flatnonzero(counts % feature.width)
    if len(uneven):
        record = int(uneven[0])
        reason = f"holds {counts[record]} values, which are not rows of shape {feature.row_shape}"
        raise SchemaError(reason, feature=_name(spans, column), record=record)
    if feature.row_shape and not isinstance(values, RecordBatch):
        values = values.reshape(-1, *feature.row_shape)
    width = 1 if isinstance(values, RecordBatch) else feature.width
    return Ragged(values, splits_of(counts) // width)


def _nested(spans: Any, column: int, values: Any, counts: Int64Array) -> Ragged:
    rows = spans.counts(column + 1, KINDS["int64"])
    outer = splits_of(rows)
    lengths = spans.int64s(column + 1, splits=outer)
    totals = np.concatenate([[0], np.cumsum(np.clip(lengths, 0, 2**40))])
    wrong = np.flatnonzero((totals[outer[1:]] - totals[outer[:-1]]) != counts)
    if len(wrong) or (len(lengths) and lengths.min() < 0):
        record = int(wrong[0]) if len(wrong) else record_of(int(lengths.argmin()), outer, width=1)
        reason = f"holds row lengths that do not add up to the {counts[record]} values"
        raise SchemaError(reason, feature=_name(spans, column + 1), record=record)
    return Ragged(Ragged(values, splits_of(lengths)), outer)


def _values(
    spans: Any,
    column: int,
    feature: Feature,
    buffer: Any,
    strings: str,
    splits: Int64Array | None,
    valid: BoolArray | None = None,
) -> Any:
    """The flat values of a column in the feature's dtype. Nulls come with ``valid`` alone, and then
    they are no defaults."""
    if feature.wire == "bytes":
        return _strings(spans, column, feature, buffer, strings, splits, valid)
    read = spans.floats if feature.wire == "float32" else spans.int64s
    fallback = None
    if feature.default is not None and valid is None and len(spans):
        fallback = np.ascontiguousarray(filled(feature), dtype=feature.wire)
    values = read(column, splits=splits, width=feature.width, fallback=fallback, valid=valid)
    return _cast(values, feature, spans, column, splits)


def filled(feature: Feature) -> Array:
    """The default in the feature's dtype, as many times as there are values, flat. That of a scalar
    is a view, which takes no memory: shapes come from files, and all records may have values."""
    default = np.array(feature.default, dtype=feature.item_dtype())
    if feature.dtype == "str":
        default = _each(default, lambda v: v.decode() if isinstance(v, bytes) else v)
    if feature.dtype == "bytes":
        default = _each(default, lambda v: v.encode() if isinstance(v, str) else v)
    if default.ndim == 0:
        return np.broadcast_to(default, (feature.width,))
    return np.broadcast_to(default, feature.row_shape).ravel()


def _each(values: Array, change: Callable[[Any], Any]) -> Array:
    found = np.empty(values.size, object)
    found[:] = [change(value) for value in values.ravel()]
    return found.reshape(values.shape)


def _cast(
    values: Array, feature: Feature, spans: Any, column: int, splits: Int64Array | None
) -> Array:
    dtype = feature.item_dtype()
    if values.dtype == dtype:
        return values
    if dtype.kind in "mM":
        return values.view(dtype)
    if feature.wire == "int64":
        low, high = (
            (0, 1) if feature.dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        )
        high = min(high, np.iinfo(np.int64).max)
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            reason = f"holds {values[wrong[0]]}, which does not fit {feature.dtype}"
            record = record_of(int(wrong[0]), splits, feature.width)
            raise SchemaError(reason, feature=_name(spans, column), record=record)
    return values.astype(dtype)


def _strings(
    spans: Any,
    column: int,
    feature: Feature,
    buffer: Any,
    strings: str,
    splits: Int64Array | None,
    valid: BoolArray | None,
) -> Any:
    width = feature.width
    fallback = None
    if feature.default is not None and valid is None and len(spans):
        fallback = [v.encode() if isinstance(v, str) else v for v in filled(feature).tolist()]
    if strings == "batch" and fallback is None:
        return RecordBatch(buffer, *spans.spans(column, splits=splits, width=width, valid=valid))
    if strings == "batch":
        data, offsets = spans.joined(column, splits=splits, width=width, fallback=fallback)
        return RecordBatch(data, offsets[:-1], np.diff(offsets))
    values = spans.objects(column, splits=splits, width=width, fallback=fallback, valid=valid)
    return values if feature.dtype == "bytes" else _texts(values, spans, column, splits, width)


def _texts(values: Array, spans: Any, column: int, splits: Int64Array | None, width: int) -> Array:
    for i, value in enumerate(values):
        try:
            values[i] = value.decode()
        except UnicodeDecodeError as error:
            record = record_of(i, splits, width)
            reason = f"is not UTF-8: {error}; decode it as dtype 'bytes'"
            raise SchemaError(reason, feature=_name(spans, column), record=record) from None
    return values


def _raw(spans: Any, column: int, feature: Feature) -> Any:
    """Memory of arrays: one byte string per record, of a known size or of whole rows."""
    dtype = feature.item_dtype()
    row = feature.width * dtype.itemsize
    fallback = None
    if feature.ragged:
        fallback = [b""]
    elif feature.default is not None and len(spans):
        fallback = [filled(feature).tobytes()]
    data, offsets = spans.joined(column, fallback=fallback)
    sizes = np.diff(offsets)
    _check_sizes(spans, column, sizes, sizes % row if feature.ragged else sizes != row, row)
    values = data.view(dtype)
    if feature.ragged:
        return Ragged(values.reshape(-1, *feature.row_shape), offsets // row)
    return values.reshape(len(sizes), *feature.shape)


def _raw_present(spans: Any, column: int, feature: Feature, valid: BoolArray) -> Any:
    dtype, shape = feature.item_dtype(), feature.row_shape
    row = feature.width * dtype.itemsize
    data, offsets = spans.joined(column, valid=valid)
    sizes = np.diff(offsets)
    _check_sizes(spans, column, sizes, valid & (sizes != row), row)
    values = data.view(dtype).reshape(-1, *shape)
    if len(values) == len(valid):
        return values
    out = np.zeros((len(valid), *shape), dtype)
    out[valid] = values
    return out


def _check_sizes(spans: Any, column: int, sizes: Int64Array, wrong: Array, row: int) -> None:
    records = np.flatnonzero(wrong)
    if len(records):
        reason = f"holds {sizes[records[0]]} bytes, where {row} for each row are wanted"
        raise SchemaError(reason, feature=_name(spans, column), record=int(records[0]))


# Makes the column of a nullable feature: values, and which records have them.


Nulls = Literal["mask", "nan", "default"]
"""How nulls come."""

MOST_ROOM = 1 << 32
"""Bytes of nulls and defaults in the columns of one batch."""
_WIRE_BYTES = {"bytes": 16, "float32": 4, "int64": 8}
"""Bytes that a reader sets aside for each value; for a byte string, for its place."""


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
        if feature.raw:
            values = _raw_present(spans, column, feature, valid)
        else:
            values = _fixed(spans, column, feature, buffer, strings, valid)
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
    if most_room(feature for _, feature in columns.values()) * len(spans) <= MOST_ROOM:
        return
    room = 0
    for name, (column, feature) in columns.items():
        each = _room(feature)
        room += each * _absent(name, spans, column, feature) if each else 0
        if room > MOST_ROOM:
            raise MemoryError(
                f"feature {name!r}: with it, nulls and defaults would take {room} bytes; decode "
                "fewer records at once"
            )


def _room(feature: Feature) -> int:
    """The values of a record without the feature."""
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
    """The values in place of nulls. ValueError if ``nulls`` asks for what is not there."""
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


# Makes columns of the feature lists of a batch of SequenceExamples.


def check_apart(context: Mapping[str, Feature], steps: Mapping[str, Feature]) -> None:
    """ValueError unless ``steps`` are features of single steps, and ``context`` has no feature
    list."""
    for name in [name for name, feature in (*context.items(), *steps.items()) if feature.sequence]:
        raise ValueError(
            f"feature {name!r}: sequence=True is for the one schema of decode_examples; here "
            "feature_lists= says what a step holds"
        )
    for name, feature in steps.items():
        if feature.nested:
            raise ValueError(f"feature {name!r}: a step has at most one variable dimension")
        if feature.nullable:
            raise ValueError(f"feature {name!r}: a step of a feature list is never null")


def decode_feature_list(
    spans: Any, column: int, feature: Feature, buffer: Any, strings: str, nulls: str
) -> Any:
    """A `Ragged` of a row of steps for each record. A `Nullable` of one, if the feature is nullable
    and ``nulls`` is "mask"."""
    name = spans.keys[column].decode()
    if feature.nullable:
        null_fill(name, feature, strings, nulls)
    rows = decode_steps(spans, column, feature.step(), buffer, strings)
    if feature.nullable and nulls == "mask":
        return Nullable(rows, spans.present(column))
    return rows


def decode_steps(spans: Any, column: int, step: Feature, buffer: Any, strings: str) -> Ragged:
    """A `Ragged` of steps that hold ``step``. SchemaError, of record and step, where they do
    not."""
    splits, steps = spans.steps(column)
    try:
        values = decode_column(steps, 0, step, buffer, strings)
    except SchemaError as error:
        record = record_of(error.record, splits, step.width)
        reason = f"{error.reason} (step {error.record - splits[record]})"
        raise SchemaError(reason, feature=error.feature, record=record) from None
    width = step.width if isinstance(values, RecordBatch) else 1  # a batch is flat
    return Ragged(values, splits * width)
