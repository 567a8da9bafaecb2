"""SequenceExamples parsed by TensorFlow's own op, behind the records or batches of any pipeline."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.tf.dataset.record_rows import cut_rows, flat_spec

__all__ = ["is_sequence", "parsed_sequences"]


def is_sequence(schema: Any) -> bool:
    """Whether records are SequenceExamples by what a user gave as ``schema=``."""
    return isinstance(schema, Schema) and schema.sequence


def parsed_sequences(
    records: tf.data.Dataset, schema: Schema, *, batched: bool, deterministic: bool | None
) -> tf.data.Dataset:
    """Dicts of the features of records, or of batches of records, in the order of the schema."""
    context, lists = schema.sequence_spec()
    context = flat_spec(context)

    def parse(strings: tf.Tensor) -> dict[str, Any]:
        if batched:
            found, steps, _ = tf.io.parse_sequence_example(strings, context, lists)
        else:
            found, steps = tf.io.parse_single_sequence_example(strings, context, lists)
        made = {name: _rows(name, steps[name], schema[name], batched) for name in lists}
        made |= cut_rows(found, schema, batched=batched)
        return {name: made[name] for name in schema}

    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=deterministic)


def _rows(name: str, steps: tf.RaggedTensor, feature: Feature, batched: bool) -> Any:
    """The steps as the feature has them. The parser gives each step as a row of its own."""
    if feature.nested:
        return steps
    rows = steps.values if batched else steps
    whole = tf.debugging.assert_equal(
        rows.row_lengths(),
        tf.constant(feature.width, tf.int64),
        f"feature {name}: each step holds {feature.width} values by the schema",
    )
    with tf.control_dependencies([whole] if whole is not None else []):
        values = tf.reshape(rows.values, [-1, *feature.row_shape])
        if not batched:
            return values
        splits = tf.identity(steps.row_splits)  # behind the check
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
