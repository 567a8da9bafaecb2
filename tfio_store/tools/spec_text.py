"""A schema as the text of a spec for ``tf.io.parse_example``. It needs no TensorFlow."""

from __future__ import annotations

import math

from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema

__all__ = ["spec_text"]

_TYPES = {"bytes": "tf.string", "float32": "tf.float32", "int64": "tf.int64"}


def spec_text(schema: Schema) -> str:
    """Python that makes what `Schema.feature_spec` makes. A nullable feature without a default, for
    which that has no form, becomes a ``VarLenFeature``. Feature lists get a spec of their own."""
    context = {name: feature for name, feature in schema.items() if not feature.sequence}
    lists = {name: feature for name, feature in schema.items() if feature.sequence}
    if not lists:
        return _dict("feature_spec", {name: _entry(name, f) for name, f in context.items()})
    return "\n".join(
        [
            _dict("context_features", {name: _entry(name, f) for name, f in context.items()}),
            _dict("sequence_features", {name: _step(f) for name, f in lists.items()}),
        ]
    )


def _dict(variable: str, entries: dict[str, str]) -> str:
    lines = [f"    {name!r}: {entry}," for name, entry in entries.items()]
    return "\n".join([f"{variable} = {{", *lines, "}"])


def _entry(name: str, feature: Feature) -> str:
    dtype = _TYPES[feature.wire]
    if feature.raw:
        if feature.nullable and feature.default is None and not feature.ragged:
            return "tf.io.VarLenFeature(tf.string)"
        return f"tf.io.FixedLenFeature([], tf.string{_raw_default(feature)})"
    if feature.nullable and feature.default is None and not feature.ragged:
        return f"tf.io.VarLenFeature({dtype})"
    if not feature.ragged:
        return f"tf.io.FixedLenFeature({list(feature.row_shape)}, {dtype}{_default(feature)})"
    if feature.nested:
        parts = f"tf.io.RaggedFeature.RowLengths({name + ROW_LENGTHS!r})"
    else:
        each = (f"tf.io.RaggedFeature.UniformRowLength({dim})" for dim in feature.row_shape)
        parts = ", ".join(each)
    return f"tf.io.RaggedFeature({dtype}, {name!r}, [{parts}], row_splits_dtype=tf.int64)"


def _step(feature: Feature) -> str:
    return f"tf.io.RaggedFeature({_TYPES[feature.wire]}, row_splits_dtype=tf.int64)"


def _default(feature: Feature) -> str:
    if feature.default is None:
        return ""
    value = feature.default
    for size in reversed(feature.row_shape if not isinstance(value, list) else ()):
        value = [value] * size
    return f", {_literal(value)}"


def _literal(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _raw_default(feature: Feature) -> str:
    if feature.ragged:
        return ", b''"
    if feature.default is None:
        return ""
    import numpy as np

    memory = np.full(feature.row_shape, feature.default).astype(feature.item_dtype()).tobytes()
    return f", {memory!r}"
