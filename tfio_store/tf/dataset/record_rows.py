"""Maps in place, ragged rows of several values, and SequenceExamples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import map_op

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

__all__ = [
    "MAPS_CAN_END",
    "STAYS_IN_PLACE",
    "SequenceColumns",
    "SequenceSpec",
    "flat_spec",
    "map_in_parallel",
    "map_in_place",
    "map_that_waits",
    "map_traced_in_parallel",
    "sequence_columns",
    "with_rows",
]


# `Dataset.map` for functions of one op that takes microseconds.
#
# A map hands each call to a thread, and that thread hands each op of the function to another.
# Waking them takes longer than reading a batch of short records. TensorFlow has switches against
# both, but hardly documents them. Where they are missing, maps work as usual.


def _switches(name: str) -> Collection[str]:
    kind = getattr(map_op, name, None)
    return () if kind is None else inspect.signature(kind.__init__).parameters.keys()


def _switched(name: str, **switches: bool) -> Callable[..., tf.data.Dataset] | None:
    """The dataset class of that name, with the switches on that it has."""
    kind = getattr(map_op, name, None)
    if kind is None:
        return None
    known = _switches(name)
    found = {switch: value for switch, value in switches.items() if switch in known}

    def build(dataset: tf.data.Dataset, function: Callable[..., Any], **given: Any) -> Any:
        plain = tf.autograph.experimental.do_not_convert(function)
        return kind(dataset, plain, **given, **found)

    return build


_COMMON = {"use_inter_op_parallelism": False, "preserve_cardinality": True}
_parallel = _switched("_ParallelMapDataset", **_COMMON)
_ending = _switched("_ParallelMapDataset", **{**_COMMON, "preserve_cardinality": False})
_in_place = _switched("_MapDataset", force_synchronous=True, **_COMMON)

STAYS_IN_PLACE = "force_synchronous" in _switches("_MapDataset")
"""Whether a map in place stays one. Otherwise TensorFlow may make it one of several calls at once,
in the threads that all share."""

MAPS_CAN_END = "preserve_cardinality" in _switches("_ParallelMapDataset")
"""Whether a map can be one whose function ends it, by OUT_OF_RANGE."""


def map_in_parallel(
    dataset: tf.data.Dataset,
    function: Callable[..., Any],
    calls: int,
    *,
    deterministic: bool | None,
    ends: bool = False,
) -> tf.data.Dataset:
    """As ``dataset.map(function, calls)``; each call stays in the thread that got it. With
    ``ends``, which needs `MAPS_CAN_END`, OUT_OF_RANGE ends it, and it keeps its input."""
    build = (_ending if ends else _parallel) or tf.data.Dataset.map
    return build(dataset, function, num_parallel_calls=calls, deterministic=deterministic)


def map_traced_in_parallel(
    dataset: tf.data.Dataset,
    step: Any,
    given: Sequence[tf.Tensor],
    spec: Any,
    calls: int,
    *,
    deterministic: bool | None,
) -> tf.data.Dataset:
    """As `map_in_parallel`, of a function that was traced before, and takes what is ``given`` as
    well."""
    specs = tf.nest.flatten(spec)
    variant = tf.raw_ops.ParallelMapDatasetV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        other_arguments=list(given),
        num_parallel_calls=tf.constant(calls, tf.int64),
        f=step,
        output_types=[each.dtype for each in specs],
        output_shapes=[each.shape for each in specs],
        use_inter_op_parallelism=False,
        deterministic={None: "default", True: "true", False: "false"}[deterministic],
        preserve_cardinality=True,
    )
    return tf.data.experimental.from_variant(variant, spec)


def map_in_place(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As ``dataset.map(function)``, in the thread of whoever asks for the element."""
    return (_in_place or tf.data.Dataset.map)(dataset, function)


def map_that_waits(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As `map_in_place`, for a function that waits. Where maps do not stay in place, it holds one
    of the threads that all share, and no more of them."""
    if STAYS_IN_PLACE:
        return map_in_place(dataset, function)
    return map_in_parallel(dataset, function, 1, deterministic=True)


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
