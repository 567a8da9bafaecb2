"""`Feature` to and from what ``tf.io.parse_example`` takes.

Its callers have TensorFlow. No other module below `tfio_store.tf` imports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.example.feature import ROW_LENGTHS, Feature

_TO_TF = {"bytes": tf.string, "float32": tf.float32, "int64": tf.int64}
_FROM_TF = {dtype: name for name, dtype in _TO_TF.items()}


def to_spec(name: str, feature: Feature) -> Any:
    """Make the feature of a spec."""
    dtype, ragged = _TO_TF[feature.wire], tf.io.RaggedFeature
    if feature.nullable and feature.default is None and not feature.ragged:
        raise ValueError(
            f"feature {name!r} is nullable, and tensors have no nulls; give it a default, as "
            f"schema.with_defaults({{{name!r}: ...}}) does"
        )
    if feature.raw and feature.nested:
        raise ValueError(
            f"feature {name!r}: TensorFlow has no form for rows of rows of raw {feature.dtype}; "
            "select the other features"
        )
    if feature.raw:
        default = None
        if feature.ragged:
            default = b""
        elif feature.default is not None:
            item = feature.item_dtype()
            default = np.full(feature.row_shape, feature.default).astype(item).tobytes()
        return tf.io.FixedLenFeature([], tf.string, default)
    if not feature.ragged:
        default = feature.default
        if default is not None:
            values = _array(default)
            values = values.astype(np.int64) if values.dtype.kind in "mM" else values
            default = np.broadcast_to(values, feature.row_shape).tolist()
        return tf.io.FixedLenFeature(list(feature.row_shape), dtype, default)
    if feature.nested:
        parts = [ragged.RowLengths(name + ROW_LENGTHS)]
        return ragged(dtype, name, parts, row_splits_dtype=tf.int64)
    parts = [ragged.UniformRowLength(dim) for dim in feature.row_shape]
    return ragged(dtype, name, parts, row_splits_dtype=tf.int64)


def list_spec(feature: Feature) -> Any:
    """Make the feature of a spec of feature lists. It gives each step as a row of values."""
    return tf.io.RaggedFeature(_TO_TF[feature.wire], row_splits_dtype=tf.int64)


def from_spec(name: str, spec: Any) -> Feature:
    """Make a `Feature` of a feature of a spec. ValueError for a kind that has none."""
    if isinstance(spec, tf.io.RaggedFeature):
        return Feature(_dtype(name, spec.dtype), _ragged_shape(name, spec))
    if isinstance(spec, tf.io.VarLenFeature):
        return Feature(_dtype(name, spec.dtype), (None,))
    if not isinstance(spec, (tf.io.FixedLenFeature, tf.io.FixedLenSequenceFeature)):
        raise ValueError(f"feature {name!r}: a {type(spec).__name__} has no schema")
    shape = tuple(tf.TensorShape(spec.shape).as_list())
    if isinstance(spec, tf.io.FixedLenSequenceFeature):
        return Feature(_dtype(name, spec.dtype), (None, *shape))
    return Feature(_dtype(name, spec.dtype), shape, _default(spec.default_value))


def _default(value: Any) -> Any:
    if value is None:
        return None
    value = _array(value)
    return (
        np.vectorize(_bytes, otypes=[object])(value).tolist()
        if value.dtype.kind in "USO"
        else value.tolist()
    )


def _array(default: Any) -> Any:
    """Strings as objects: numpy's own lose zeros at their ends."""
    array = np.asarray(default)
    return np.array(default, object) if array.dtype.kind in "US" else array


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _dtype(name: str, dtype: Any) -> str:
    try:
        return _FROM_TF[tf.as_dtype(dtype)]
    except KeyError:
        raise ValueError(f"feature {name!r}: dtype {dtype} is not of an Example") from None


def _ragged_shape(name: str, spec: Any) -> tuple[int | None, ...]:
    parts, kinds = spec.partitions, tf.io.RaggedFeature
    if spec.value_key not in (None, name):
        raise ValueError(f"feature {name!r}: values under another name ({spec.value_key!r})")
    if all(isinstance(part, kinds.UniformRowLength) for part in parts):
        return (None, *(int(part.length) for part in parts))
    if list(parts) == [kinds.RowLengths(name + ROW_LENGTHS)]:
        return (None, None)
    raise ValueError(f"feature {name!r}: partitions {parts} have no schema")
