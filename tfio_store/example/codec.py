"""tf.train.Example without TensorFlow: mappings and tables to records, records to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example.columns import core_columns
from tfio_store.example.decoding import KINDS, decode_column, keys_of
from tfio_store.example.feature import Feature
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.compiled import load
from tfio_store.records.framing import RecordBatch

if TYPE_CHECKING:
    from tfio_store.example import _example
else:
    _example = load("example", "tfio_store.example._example", "tfio_store.example.pure")

__all__ = [
    "Examples",
    "Ragged",
    "decode_examples",
    "decode_sequence_examples",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "infer_features",
]

Records = RecordBatch | Iterable[bytes]
SchemaLike = Schema | Mapping[str, Feature | str | tuple[str, tuple[int | None, ...]]]
Strings = Literal["object", "batch"]

_FEATURES, _FEATURE_LISTS = 1, 2


def encode_example(features: Mapping[str, Any]) -> bytes:
    """One serialized ``tf.train.Example``.

    A value is bytes, str (as UTF-8), bool, int, float, a flat or nested list of one of these, a
    numpy array or scalar, or anything that numpy makes an array of (a tensor, a Series). Arrays of
    any shape are flattened in C order; the shape is the schema's to know. Integers and bools become
    int64, floating numbers float32 (float64 is rounded to it, as ``tf.train.FloatList`` does),
    strings bytes. A `Ragged` becomes its values and a second feature, NAME/row_lengths. An empty
    list becomes a feature without values, which reads as absent.

    Features are written in the order of their names, so equal mappings give equal bytes.

    Raises TypeError or ValueError, naming the feature, for None, numbers that do not fit int64,
    lists that mix kinds or rows of differing lengths, and dtypes that a record can't hold.
    """
    return _example.encode_example(features)


def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]]
) -> bytes:
    """One serialized ``tf.train.SequenceExample``.

    ``context`` is as for `encode_example`; each of ``feature_lists`` is a sequence of steps, whose
    values may be what an Example's may: ``{"frames": [[0.5, 1.0], [2.0]], "words": ["a", "b"]}``.
    """
    return _example.encode_sequence_example(context, feature_lists)


def encode_examples(columns: Mapping[str, Any], *, schema: SchemaLike | None = None) -> RecordBatch:
    """A table as Examples, one per row, with no Python per row.

    A column is an array whose first dimension is the rows, a list of bytes, str or numbers, a
    `RecordBatch` of byte strings, a `Ragged` (or the pair (values, row_splits)), or a pyarrow
    array. Dtypes go as in `encode_example`; with a ``schema``, as it says: cast to the feature's
    dtype, or written raw. Every row has every feature.

    Raises TypeError or ValueError, naming the column, for what doesn't fit; nulls don't.
    """
    wanted = None if schema is None else _schema(schema)
    ready, rows = core_columns(columns, wanted)
    buffer, offsets = _example.encode_columns(ready, rows)
    return RecordBatch(buffer, offsets[:-1], np.diff(offsets))


class Examples(dict[str, Any]):
    """Decoded columns: feature name to array, `Ragged` or `RecordBatch`; and their schema."""

    def __init__(self, columns: Mapping[str, Any], schema: Schema) -> None:
        super().__init__(columns)
        self.schema = schema

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``; fixed shapes become fixed-size lists, ragged ones lists. Needs
        pyarrow."""
        from tfio_store.example.arrow import to_arrow

        return to_arrow(self, self.schema)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``; what is not one value per row becomes an object per row."""
        import pandas

        flat = (list(c) if getattr(c, "ndim", 2) > 1 else c for c in self.values())
        return pandas.DataFrame(dict(zip(self, flat, strict=True)))


def decode_examples(
    records: Records, schema: SchemaLike, *, strings: Strings = "object"
) -> Examples:
    """Columns of a batch of serialized Examples, straight from the wire.

    For n records, a feature of a fixed shape is an array ``[n, *shape]``, one whose shape begins
    with None a `Ragged` of n rows, with values ``[total, *shape[1:]]``. Features that the schema
    does not name are stepped over undecoded.

    Byte strings come as ``strings`` says. "object", the default, is what ``Tensor.numpy()`` gives
    and what every library takes: an object array of bytes (of str for dtype "str"). numpy's own
    fixed-width "S" would drop trailing zeros and pad to the longest. Making an object per value is
    most of the time that decoding small records takes, so "batch" makes none: a `RecordBatch` over
    the records' own memory, whose ``offsets``, ``lengths``, ``view(i)`` and ``to_arrow()`` reach
    every value without a copy. It is flat: a feature of shape (k,) has n * k entries.

    Raises SchemaError, naming record and feature, where a feature is absent and has no default, or
    holds values of another kind or number than the schema says; CorruptRecordError where a record
    is not an Example (unknown fields are not an error; lengths that lie are).
    """
    batch, schema = _batch(records), _schema(schema)
    return _decode_map(batch, schema, _FEATURES, strings)


def decode_sequence_examples(
    records: Records,
    context: SchemaLike,
    feature_lists: SchemaLike,
    *,
    strings: Strings = "object",
) -> tuple[Examples, Examples]:
    """(context, feature lists) of a batch of serialized SequenceExamples.

    ``context`` is decoded as in `decode_examples`. The shapes in ``feature_lists`` are those of one
    step, and each comes as a `Ragged`: row i has the steps of record i, and where steps vary in
    shape themselves the values are a `Ragged` again. An absent feature list has no steps.
    """
    batch, wanted = _batch(records), _schema(feature_lists)
    contexts = _decode_map(batch, _schema(context), _FEATURES, strings)
    spans = _locate(batch, [name.encode() for name in wanted], _FEATURE_LISTS)
    lists = {}
    for i, (name, feature) in enumerate(wanted.items()):
        if feature.nested:
            raise ValueError(f"feature {name!r}: a step has at most one variable dimension")
        splits, steps = spans.steps(i)
        try:
            values = decode_column(steps, 0, feature, batch.buffer, strings)
        except SchemaError as error:
            record = int(np.searchsorted(splits, error.record, "right")) - 1
            reason = f"{error.reason} (step {error.record - splits[record]})"
            raise SchemaError(reason, feature=name, record=record) from None
        lists[name] = Ragged(values, splits)
    return contexts, Examples(lists, wanted)


def infer_features(record: bytes) -> dict[str, tuple[str | None, int]]:
    """What one serialized Example holds: name to (wire dtype, or None if it is empty; number of
    values)."""
    names = {number: name for name, number in KINDS.items()}
    try:
        found = [(key.decode(), kind, count) for key, kind, count in _example.describe(record)]
    except UnicodeDecodeError as error:
        reason = f"not a tf.train.Example: a feature's name is not UTF-8: {error}"
        raise CorruptRecordError(reason, path="<buffer>", offset=0) from None
    return {name: (names.get(kind), count) for name, kind, count in found}


def _decode_map(batch: RecordBatch, schema: Schema, map_field: int, strings: Strings) -> Examples:
    if strings not in ("object", "batch"):
        raise ValueError(f"strings must be 'object' or 'batch', got {strings!r}")
    keys = {name: keys_of(name, feature) for name, feature in schema.items()}
    spans = _locate(batch, [key for group in keys.values() for key in group], map_field)
    columns, at = {}, 0
    for name, feature in schema.items():
        columns[name] = decode_column(spans, at, feature, batch.buffer, strings)
        at += len(keys[name])
    return Examples(columns, schema)


def _locate(batch: RecordBatch, keys: list[bytes], map_field: int) -> Any:
    return _example.Spans.locate(batch.buffer, batch.offsets, batch.lengths, keys, map_field)


def _batch(records: Records) -> RecordBatch:
    if isinstance(records, RecordBatch):
        return records
    if isinstance(records, (bytes, bytearray, memoryview, str)):
        raise TypeError("records must be a RecordBatch or a list of bytes, not one record")
    return RecordBatch.from_records(records)


def _schema(schema: SchemaLike) -> Schema:
    return schema if isinstance(schema, Schema) else Schema(schema)
