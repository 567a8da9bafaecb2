"""What is parsed of SequenceExamples: features of the context, and feature lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.tf.dataset.columns import (
    Column,
    Columns,
    attributes_of,
    columns_of,
    joined,
    steps_column,
)
from tfio_store.tf.dataset.record_rows import cut_rows, flat_spec

__all__ = ["SequenceColumns", "SequenceSpec", "sequence_columns"]


@dataclass(frozen=True, slots=True)
class SequenceSpec:
    """The specs of `tf.io.parse_sequence_example` for a schema with feature lists."""

    schema: Schema
    context: Mapping[str, Any]
    """With flat values instead of rows, as `flat_spec` makes it."""
    lists: Mapping[str, Any]

    @classmethod
    def of(cls, schema: Schema) -> SequenceSpec:
        """ValueError for a feature that tensors can't hold."""
        context, lists = schema.sequence_spec()
        return cls(schema, flat_spec(context), lists)

    def parse(self, strings: tf.Tensor, *, batched: bool) -> dict[str, Any]:
        """The features of a batch of records, or of one, by TensorFlow's own ops."""
        if batched:
            found, steps, _ = tf.io.parse_sequence_example(strings, self.context, self.lists)
        else:
            found, steps = tf.io.parse_single_sequence_example(strings, self.context, self.lists)
        rows = {name: _rows(name, steps[name], self.schema[name], batched) for name in self.lists}
        return self.together(found, rows, batched=batched)

    def together(
        self, context: Mapping[str, Any], lists: Mapping[str, Any], *, batched: bool
    ) -> dict[str, Any]:
        """All features in the order of the schema. ``context`` is as its spec says."""
        made = {**lists, **cut_rows(context, self.schema, batched=batched)}
        return {name: made[name] for name in self.schema}


@dataclass(frozen=True, slots=True)
class SequenceColumns:
    """The columns that a `SequenceSpec` takes."""

    spec: SequenceSpec
    context: Columns | None
    """None if no feature of the context is asked for."""
    lists: tuple[Column, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        """The op's attributes."""
        context = () if self.context is None else self.context.columns
        return attributes_of((*context, *self.lists))

    def features(self, tensors: Iterable[tf.Tensor], rows: int | None) -> dict[str, Any]:
        """Make what `SequenceSpec.parse` makes from the op's outputs."""
        left = iter(tensors)
        context = {} if self.context is None else self.context.features(left, rows)
        return self.spec.together(context, joined(self.lists, left, rows), batched=True)


def sequence_columns(spec: SequenceSpec) -> SequenceColumns | None:
    """None if the op does not parse it, or TensorFlow refuses it."""
    context = columns_of(spec.context) if spec.context else None
    lists = [steps_column(name, f.dtype, spec.schema[name]) for name, f in spec.lists.items()]
    found = tuple(column for column in lists if column is not None)
    if len(found) < len(lists) or (spec.context and context is None):
        return None
    return SequenceColumns(spec, context, found)


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
