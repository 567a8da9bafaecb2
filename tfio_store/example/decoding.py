"""Makes the array that a schema describes of one column of a batch of Examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.ragged import Ragged
from tfio_store.records.framing import RecordBatch

__all__ = ["KINDS", "decode_column", "decode_present", "filled", "keys_of"]

KINDS = {"bytes": 1, "float32": 2, "int64": 3}

Array = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


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
        strings = "object"  # a batch of no strings can't tell its rows
    if not feature.ragged:
        values = _values(spans, column, feature, buffer, strings, None)
        if isinstance(values, RecordBatch):
            return values
        return values.reshape(len(spans), *feature.shape)
    counts = spans.counts(column, KINDS[feature.wire])
    values = _values(spans, column, feature, buffer, strings, _splits(counts))
    if feature.nested:
        return _nested(spans, column, values, counts)
    return _rows(spans, column, feature, values, counts)


def decode_present(
    spans: Any, column: int, feature: Feature, buffer: Any, strings: str, valid: BoolArray
) -> Any:
    """As `decode_column` for a fixed shape, where records may be null. ``valid`` gets a flag for
    each record; zeros or empty strings take the places of nulls."""
    if feature.raw:
        return _raw_present(spans, column, feature, valid)
    values = _values(spans, column, feature, buffer, strings, None, valid)
    return values if isinstance(values, RecordBatch) else values.reshape(len(spans), *feature.shape)


def _splits(counts: Int64Array) -> Int64Array:
    splits = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=splits[1:])
    return splits


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
    return Ragged(values, _splits(counts) // width)


def _nested(spans: Any, column: int, values: Any, counts: Int64Array) -> Ragged:
    rows = spans.counts(column + 1, KINDS["int64"])
    outer = _splits(rows)
    lengths = spans.int64s(column + 1, splits=outer)
    totals = np.concatenate([[0], np.cumsum(np.clip(lengths, 0, 2**40))])
    wrong = np.flatnonzero((totals[outer[1:]] - totals[outer[:-1]]) != counts)
    if len(wrong) or (len(lengths) and lengths.min() < 0):
        record = (
            int(wrong[0])
            if len(wrong)
            else int(np.searchsorted(outer, lengths.argmin(), "right") - 1)
        )
        reason = f"holds row lengths that do not add up to the {counts[record]} values"
        raise SchemaError(reason, feature=_name(spans, column + 1), record=record)
    return Ragged(Ragged(values, _splits(lengths)), outer)


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
    if feature.default is not None and valid is None:
        fallback = np.ascontiguousarray(filled(feature), dtype=feature.wire)
    values = read(column, splits=splits, width=feature.width, fallback=fallback, valid=valid)
    return _cast(values, feature, spans, column, splits)


def filled(feature: Feature) -> Array:
    """The default in the feature's dtype, as many times as there are values, flat."""
    default = np.array(feature.default, dtype=feature.item_dtype())
    values = np.broadcast_to(default, feature.row_shape).ravel()
    if feature.dtype == "str":
        return np.array([v.decode() if isinstance(v, bytes) else v for v in values], object)
    if feature.dtype == "bytes":
        return np.array([v.encode() if isinstance(v, str) else v for v in values], object)
    return values


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
            at = int(wrong[0])
            record = (
                at // feature.width if splits is None else np.searchsorted(splits, at, "right") - 1
            )
            raise SchemaError(reason, feature=_name(spans, column), record=int(record))
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
    if feature.default is not None and valid is None:
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
            record = i // width if splits is None else int(np.searchsorted(splits, i, "right")) - 1
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
    elif feature.default is not None:
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
