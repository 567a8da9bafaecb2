"""The features that ``schema=`` asks for: what parses them, ragged rows of several values, raw
memory, and SequenceExamples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema
from tfio_store.tf.dataset.columns import (
    Column,
    Columns,
    attributes_of,
    columns_of,
    joined,
    steps_column,
)
from tfio_store.tf.dataset.record_function import RecordFunction

Spec: TypeAlias = "Mapping[str, Any] | SequenceSpec | RecordFunction"
_TENSORFLOWS = (
    tf.io.FixedLenFeature,
    tf.io.FixedLenSequenceFeature,
    tf.io.VarLenFeature,
    tf.io.RaggedFeature,
    tf.io.SparseFeature,
)
_PARSED = (tf.float32, tf.int64, tf.string)
"""What TensorFlow parses an Example's values to."""


def schema_or_spec(schema: Any) -> Any:
    """A mapping of TensorFlow's features as it is, and any other as the `Schema` that it stands
    for. TypeError and ValueError as `Schema.of`, and TypeError for a dtype that is not parsed."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, dict) and any(isinstance(f, _TENSORFLOWS) for f in schema.values()):
        _check_dtypes(schema)
        return schema
    return Schema.of(schema) if schema else schema


def _check_dtypes(spec: Mapping[str, Any]) -> None:
    for name, feature in spec.items():
        if isinstance(feature, _TENSORFLOWS) and tf.as_dtype(feature.dtype) not in _PARSED:
            raise TypeError(
                f"schema=: {name!r} is a {type(feature).__name__} of {feature.dtype!r}, and an "
                "Example holds tf.float32, tf.int64 or tf.string: take one of these, and cast it"
            )


def spec_of(schema: Any) -> Spec | None:
    """The features of ``schema=``, a feature spec or a `Schema`. By None, records stay as they
    are."""
    if schema is None or isinstance(schema, dict):
        return schema
    return SequenceSpec.of(schema) if schema.sequence else flat_spec(schema.feature_spec())


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


# Ragged features of a schema whose rows have several values, cut record by record.
#
# TensorFlow's parsers cut the values of a whole batch as if they were one list. If a record's
# values make no whole rows, they move into other records, in silence. So the parsers give flat
# values here, and each record is checked by itself.


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


def has_rows(schema: Any) -> bool:
    """Whether `cut_rows` has something to do. Other specs than a `Schema` mean what they mean in
    TensorFlow."""
    return isinstance(schema, Schema) and any(map(_has_rows, schema.values()))


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


# Features that a record holds as raw memory, decoded to their dtype and shape.
#
# Writers keep so what an Example has no list for: float64, uint64, datetimes, arrays of bytes.


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
    """The output of `tf.io.decode_raw` for the memory, and its meaning. None where TensorFlow
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


# The parsed parts of SequenceExamples: features of the context, and feature lists.


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
