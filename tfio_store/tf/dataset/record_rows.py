"""Ragged features of a schema whose rows have several values, cut record by record.

TensorFlow's parsers cut the values of a whole batch as if they were one list. If a record's values
make no whole rows, they move into other records, in silence. So the parsers give flat values here,
and each record is checked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema
from tfio_store.tf.dataset.inline_map import map_in_place

__all__ = ["cut_rows", "flat_spec", "with_rows"]


def flat_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a schema with flat values instead of rows. Row lengths are features too."""
    flat = dict(spec)
    for name, asked in spec.items():
        parts = asked.partitions if isinstance(asked, tf.io.RaggedFeature) else ()
        if not parts:
            continue
        flat[name] = tf.io.RaggedFeature(asked.dtype, row_splits_dtype=tf.int64)
        for key in [part.key for part in parts if hasattr(part, "key")]:
            flat[key] = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    return flat


def with_rows(found: tf.data.Dataset, schema: Any, *, batched: bool) -> tf.data.Dataset:
    """``found`` are dicts of the features of a `flat_spec`: the same with rows. Other specs than a
    `Schema` mean what they mean in TensorFlow."""
    if not isinstance(schema, Schema) or not any(map(_has_rows, schema.values())):
        return found
    return map_in_place(found, lambda features: cut_rows(features, schema, batched=batched))


def cut_rows(features: Mapping[str, Any], schema: Schema, *, batched: bool) -> dict[str, Any]:
    """The features of a `flat_spec` with rows, and without row lengths. What the spec does not have
    is passed over."""
    made = dict(features)
    for name, feature in schema.items():
        if name not in features or not _has_rows(feature):
            continue
        flat = _batch(features[name])
        if feature.nested:
            lengths = _batch(made.pop(name + ROW_LENGTHS))
            rows = _by_lengths(name, flat, lengths, batched)
        else:
            rows = _by_width(name, flat, feature, batched)
        made[name] = rows if batched else rows.values
    return made


def _has_rows(feature: Feature) -> bool:
    rows = feature.ragged and len(feature.shape) > 1
    return rows and not (feature.raw or feature.sequence)


def _batch(values: Any) -> tf.RaggedTensor:
    """Values of a batch as they are; those of one record as a batch of one."""
    if isinstance(values, tf.RaggedTensor):
        return values
    lengths = tf.reshape(tf.size(values, tf.int64), [1])
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)


def _by_width(name: str, flat: tf.RaggedTensor, feature: Feature, batched: bool) -> tf.RaggedTensor:
    counts = flat.row_lengths()
    reason = f"which are not rows of shape {feature.row_shape}"
    with tf.control_dependencies([_check(name, counts, counts % feature.width, reason, batched)]):
        values = tf.reshape(flat.values, [-1, *feature.row_shape])
        splits = flat.row_splits // feature.width
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _by_lengths(
    name: str, flat: tf.RaggedTensor, lengths: tf.RaggedTensor, batched: bool
) -> tf.RaggedTensor:
    counts, most = flat.row_lengths(), tf.size(flat.values, tf.int64)
    given = lengths.values
    # a length that fits nowhere counts as too many: then no sum overflows
    fitting = tf.where((given >= 0) & (given <= most), given, most + 1)
    inner = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(fitting)], 0)
    bounds = tf.gather(inner, lengths.row_splits)
    reason = "to which its row lengths do not add up"
    wrong = bounds[1:] - bounds[:-1] - counts
    with tf.control_dependencies([_check(name, counts, wrong, reason, batched)]):
        inner, outer = tf.identity(inner), tf.identity(lengths.row_splits)
    rows = tf.RaggedTensor.from_row_splits(flat.values, inner, validate=False)
    return tf.RaggedTensor.from_row_splits(rows, outer, validate=False)


def _check(name: str, counts: tf.Tensor, wrong: tf.Tensor, reason: str, batched: bool) -> Any:
    """An op that fails if ``wrong``, of the records, is not 0 somewhere."""
    first = tf.where(tf.not_equal(wrong, 0))[:1, 0]
    where = ["record ", tf.strings.as_string(first), " of the batch"] if batched else ["the record"]
    held = tf.strings.as_string(tf.gather(counts, first))
    text = tf.strings.join([f"feature {name}: ", *where, " holds ", held, f" values, {reason}"])
    return tf.debugging.Assert(tf.equal(tf.size(first), 0), [tf.strings.reduce_join(text)])
