"""Features that a record holds as raw memory, decoded to their dtype and shape.

Writers keep so what an Example has no list for: float64, uint64, datetimes, arrays of bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema

__all__ = ["with_raw_features"]


def with_raw_features(found: tf.data.Dataset, schema: Any, *, batched: bool) -> tf.data.Dataset:
    """``found`` are dicts of parsed features: the same, with the schema's raw ones decoded."""
    raw = {
        name: feature
        for name, feature in (schema.items() if isinstance(schema, Schema) else ())
        if feature.raw and _dtypes(feature) is not None
    }
    if not raw:
        return found

    def decode(features: dict[str, Any]) -> dict[str, Any]:
        decoded = {name: _decoded(features[name], raw[name], batched) for name in raw}
        return {**features, **decoded}

    return found.map(decode)  # in turn: it copies memory, and so has no state to save


def _decoded(strings: tf.Tensor, feature: Feature, batched: bool) -> Any:
    given, wanted = _dtypes(feature) or (tf.string, tf.string)
    shape = tf.constant(feature.row_shape, tf.int64)
    if not feature.ragged:
        flat = tf.io.decode_raw(strings, given)
        values = tf.reshape(flat, tf.concat([tf.shape(strings, tf.int64), shape], 0))
        values.set_shape([*strings.shape, *feature.row_shape])
        return _as(values, wanted)
    # One string of all rows: decode_raw takes strings of one length only.
    flat = tf.io.decode_raw(tf.strings.reduce_join(strings), given)
    values = tf.reshape(flat, tf.concat([tf.constant([-1], tf.int64), shape], 0))
    values.set_shape([None, *feature.row_shape])
    values = _as(values, wanted)
    if not batched:
        return values
    row = max(1, feature.width * feature.item_dtype().itemsize)
    lengths = tf.strings.length(strings)
    whole = tf.debugging.assert_equal(
        lengths % row, 0, f"a row of a raw {feature.dtype} feature has {row} bytes"
    )
    with tf.control_dependencies([whole] if whole is not None else []):
        return tf.RaggedTensor.from_row_lengths(values, tf.cast(lengths // row, tf.int64))


def _as(values: tf.Tensor, wanted: tf.DType) -> tf.Tensor:
    return values if values.dtype == wanted else tf.bitcast(values, wanted)


def _dtypes(feature: Feature) -> tuple[tf.DType, tf.DType] | None:
    """What `tf.io.decode_raw` makes of the memory, and what that stands for. None where TensorFlow
    has no such dtype: the feature stays a string."""
    dtype = feature.item_dtype()
    if dtype.kind in "mM":
        return tf.int64, tf.int64
    try:
        wanted = tf.as_dtype(dtype)
    except TypeError:
        return None
    if wanted in _DECODABLE:
        return wanted, wanted
    integers = {1: tf.uint8, 2: tf.uint16, 4: tf.int32, 8: tf.int64}
    given = integers.get(np.dtype(dtype).itemsize) if dtype.kind not in "OSU" else None
    return None if given is None else (given, wanted)


_DECODABLE = (
    tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
    tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128,
)  # fmt: skip
