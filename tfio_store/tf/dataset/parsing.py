"""What parses records: the op that reads them, by columns, or TensorFlow's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from tfio_store.example.schema import Schema
from tfio_store.tf.dataset import ops
from tfio_store.tf.dataset.columns import Columns, columns_of
from tfio_store.tf.dataset.record_function import RecordFunction
from tfio_store.tf.dataset.record_rows import flat_spec
from tfio_store.tf.dataset.sequences import SequenceColumns, SequenceSpec, sequence_columns

__all__ = [
    "FusedColumns",
    "Spec",
    "fused_columns",
    "only_fixed",
    "parse_batch",
    "parse_record",
    "schema_or_spec",
    "spec_of",
]

Spec: TypeAlias = "Mapping[str, Any] | SequenceSpec | RecordFunction"
FusedColumns: TypeAlias = "Columns | SequenceColumns | RecordFunction"


_TENSORFLOWS = (
    tf.io.FixedLenFeature,
    tf.io.FixedLenSequenceFeature,
    tf.io.VarLenFeature,
    tf.io.RaggedFeature,
    tf.io.SparseFeature,
)


def schema_or_spec(schema: Any) -> Any:
    """A mapping of TensorFlow's features as it is, and any other as the `Schema` that it stands
    for. TypeError and ValueError as `Schema.of`."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, dict) and any(isinstance(f, _TENSORFLOWS) for f in schema.values()):
        return schema
    return Schema.of(schema) if schema else schema


def spec_of(schema: Any) -> Spec | None:
    """What is parsed by ``schema=``, a feature spec or a `Schema`. Of None, records stay as they
    are."""
    if schema is None or isinstance(schema, dict):
        return schema
    return SequenceSpec.of(schema) if schema.sequence else flat_spec(schema.feature_spec())


def fused_columns(spec: Spec) -> FusedColumns | None:
    """What the op parses; None where TensorFlow must."""
    if ops.bridge() != "native":
        return None
    if isinstance(spec, RecordFunction):
        return spec
    return sequence_columns(spec) if isinstance(spec, SequenceSpec) else columns_of(spec)


def only_fixed(spec: Spec) -> bool:
    """Whether no feature of a record has a shape that depends on the record's neighbours."""
    if isinstance(spec, SequenceSpec | RecordFunction):
        return False
    return all(isinstance(feature, tf.io.FixedLenFeature) for feature in spec.values())


def parse_batch(strings: tf.Tensor, spec: Spec) -> Any:
    """The features of records, string [n], by TensorFlow's own ops."""
    if isinstance(spec, RecordFunction):
        return spec.parse_batch(strings)
    if isinstance(spec, SequenceSpec):
        return spec.parse(strings, batched=True)
    return tf.io.parse_example(strings, spec)


def parse_record(string: tf.Tensor, spec: Spec) -> dict[str, Any]:
    """The features of one record, string []."""
    assert not isinstance(spec, RecordFunction)  # which stands for batches
    if isinstance(spec, SequenceSpec):
        return spec.parse(string, batched=False)
    return tf.io.parse_single_example(string, spec)  # type: ignore[no-any-return]
