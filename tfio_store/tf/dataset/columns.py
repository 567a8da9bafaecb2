"""A feature spec as columns for `ops.read_examples`, and their tensors as features."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import parsing_ops

from tfio_store.example.feature import Feature

_KINDS = {tf.string: 1, tf.float32: 2, tf.int64: 3}
_FIXED, _PADDED, _RAGGED, _RAGGED32, _SPARSE, _STEPS, _ROWS = range(7)
_MOST_DIMS = 16
_ZEROS = {tf.string: b"", tf.float32: 0.0, tf.int64: 0}

_compose = getattr(parsing_ops, "_construct_tensors_for_composite_features", None)
"""How TensorFlow makes of parsed columns what takes several: `SparseFeature`, partitions."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as ext/tensorflow/ops/op_decode.h has them."""

    key: str
    dtype: tf.DType
    layout: int
    shape: tuple[int, ...] = ()
    fallback: Any = None
    """A flat array of the defaults for missing values."""

    @classmethod
    def sparse(cls, key: str, dtype: tf.DType) -> Column:
        return cls(key, dtype, _SPARSE)

    @classmethod
    def ragged(cls, key: str, dtype: tf.DType, splits: tf.DType) -> Column:
        return cls(key, dtype, _RAGGED if splits == tf.int64 else _RAGGED32)

    @classmethod
    def dense(cls, key: str, dtype: tf.DType, shape: tf.TensorShape, default: Any) -> Column | None:
        """As ParseExampleV2 has it: of a known shape, or with a first dimension that is padded. A
        ``default`` without values is none. None if the op does not parse it."""
        padded = shape.rank and shape[0] is None
        row = shape[1:] if padded else shape
        if not row.is_fully_defined() or len(row) > _MOST_DIMS:
            return None
        fallback = tuple(np.ravel(np.array(default, object)).tolist()) or None
        if padded:
            if fallback is None or len(fallback) != 1 or not row.num_elements():
                return None
            return cls(key, dtype, _PADDED, tuple(row), fallback)
        if fallback is not None and len(fallback) != row.num_elements():
            return None
        return cls(key, dtype, _FIXED, tuple(row), fallback)

    @property
    def outputs(self) -> str:
        """Which of ParseExampleV2's outputs it makes: "sparse", "dense" or "ragged"."""
        kinds = {_SPARSE: "sparse", _FIXED: "dense", _PADDED: "dense"}
        return kinds.get(self.layout, "ragged")

    def encoded(self) -> bytes:
        key = self.key.encode()
        head = struct.pack(
            "<BBBBI",
            _KINDS[self.dtype],
            self.layout,
            len(self.shape),
            self.fallback is not None,
            len(key),
        )
        dims = struct.pack(f"<{len(self.shape)}q", *self.shape)
        return head + dims + key + (b"" if self.fallback is None else self._values())

    def _values(self) -> bytes:
        if self.dtype == tf.string:
            return b"".join(struct.pack("<I", len(text)) + text for text in self.fallback)
        values = np.asarray(self.fallback, self.dtype.as_numpy_dtype)
        return values.astype(values.dtype.newbyteorder("<")).tobytes()

    def dtypes(self) -> list[tf.DType]:
        if self.layout == _SPARSE:
            return [tf.int64, self.dtype, tf.int64]
        if self.layout == _ROWS:
            return [self.dtype, tf.int64, tf.int64]
        if self.layout in (_RAGGED, _STEPS):
            return [self.dtype, tf.int64]
        return [self.dtype, tf.int32] if self.layout == _RAGGED32 else [self.dtype]

    def joined(self, tensors: list[tf.Tensor], rows: int | None) -> Any:
        """The op's outputs as one tensor of ``rows``, if that is known."""
        values = tensors[0]
        if self.layout == _SPARSE:
            for tensor, shape in zip(tensors, ([None, 2], [None], [2]), strict=True):
                tensor.set_shape(shape)
            return tf.SparseTensor(*tensors)
        if self.layout == _FIXED:
            values.set_shape([rows, *self.shape])
            return values
        if self.layout == _PADDED:
            values.set_shape([rows, None, *self.shape])
            return values
        values.set_shape([None, *self.shape])
        tensors[-1].set_shape([None if rows is None else rows + 1])
        for splits in tensors[1:]:
            splits.set_shape([None])
            values = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return values


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a feature spec takes, each key once."""

    columns: tuple[Column, ...]
    spec: Mapping[str, Any]

    @property
    def attributes(self) -> dict[str, Any]:
        """The op's attributes."""
        return attributes_of(self.columns)

    def features(self, tensors: Iterable[tf.Tensor], rows: int | None) -> dict[str, Any]:
        """Make the features of `tf.io.parse_example` from the op's outputs."""
        found = joined(self.columns, iter(tensors), rows)
        return _compose(self.spec, found) if _composite(self.spec) else found  # type: ignore[misc]


def attributes_of(columns: Iterable[Column]) -> dict[str, Any]:
    """The op's attributes for these columns."""
    columns = list(columns)
    dtypes = [dtype for column in columns for dtype in column.dtypes()]
    return {"columns": b"".join(column.encoded() for column in columns), "Tout": dtypes}


def joined(
    columns: Iterable[Column], tensors: Iterator[tf.Tensor], rows: int | None
) -> dict[str, Any]:
    """Take the outputs of the columns from ``tensors``, and make one tensor of each column's."""
    return {
        column.key: column.joined([next(tensors) for _ in column.dtypes()], rows)
        for column in columns
    }


def steps_column(name: str, dtype: tf.DType, feature: Feature) -> Column | None:
    """The column of a feature list. None if its steps have too many dimensions."""
    if len(feature.row_shape) > _MOST_DIMS:
        return None
    return Column(name, dtype, _ROWS if feature.nested else _STEPS, feature.row_shape)


def columns_of(spec: Mapping[str, Any]) -> Columns | None:
    """None if the op does not parse it, or TensorFlow refuses it."""
    found: dict[str, Column] = {}
    if not all(isinstance(name, str) for name in spec):
        return None
    for name, feature in sorted(spec.items(), key=_rank):
        for column in _columns(name, feature):
            if column is None or found.setdefault(column.key, column) != column:
                return None
    if not found or (_composite(spec) and _compose is None):
        return None
    return Columns(tuple(found.values()), spec)


def _rank(named: tuple[str, Any]) -> tuple[int, str]:
    """Where `tf.io.parse_example` has a feature: sparse ones first, and ragged ones last."""
    name, feature = named
    if isinstance(feature, tf.io.VarLenFeature | tf.io.SparseFeature):
        return 0, name
    return 1 + isinstance(feature, tf.io.RaggedFeature), name


def _composite(spec: Mapping[str, Any]) -> bool:
    return any(
        isinstance(feature, tf.io.SparseFeature)
        or (
            isinstance(feature, tf.io.RaggedFeature)
            and (feature.partitions or feature.value_key not in (None, name))
        )
        for name, feature in spec.items()
    )


def _columns(name: str, feature: Any) -> list[Column | None]:
    if getattr(feature, "dtype", None) not in _KINDS:
        return [None]
    if isinstance(feature, tf.io.FixedLenFeature):
        return [_fixed(name, feature)]
    if isinstance(feature, tf.io.FixedLenSequenceFeature):
        return [_padded(name, feature)]
    if isinstance(feature, tf.io.VarLenFeature):
        return [Column.sparse(name, feature.dtype)]
    if isinstance(feature, tf.io.SparseFeature):
        keys = feature.index_key
        keys = [keys] if isinstance(keys, str) else keys
        indices = [Column.sparse(key, tf.int64) for key in keys]
        return [*indices, Column.sparse(feature.value_key, feature.dtype)]
    if isinstance(feature, tf.io.RaggedFeature):
        return _ragged(name, feature)
    return [None]


def _ragged(name: str, feature: Any) -> list[Column | None]:
    splits = feature.row_splits_dtype
    keys = [part.key for part in feature.partitions if hasattr(part, "key")]
    value_key = name if feature.value_key is None else feature.value_key
    return [
        Column.ragged(value_key, feature.dtype, splits),
        *[Column.ragged(key, tf.int64, splits) for key in keys],
    ]


def _fixed(name: str, feature: Any) -> Column | None:
    shape, fallback = tf.TensorShape(feature.shape), _flat(feature.default_value, feature.dtype)
    if not shape.is_fully_defined() or (fallback == () and shape.num_elements()):
        return None
    return Column.dense(name, feature.dtype, shape, fallback or ())


def _padded(name: str, feature: Any) -> Column | None:
    if not feature.allow_missing:
        return None
    default = feature.default_value
    fallback = _flat(_ZEROS[feature.dtype] if default is None else default, feature.dtype)
    shape = tf.TensorShape([None]).concatenate(feature.shape)
    return Column.dense(name, feature.dtype, shape, fallback)


def _flat(value: Any, dtype: tf.DType) -> tuple[Any, ...] | None:
    """A default's values in a row. None if only a graph knows them."""
    if value is None:
        return None
    try:
        with tf.init_scope():
            values = tf.convert_to_tensor(value, dtype).numpy()
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return ()
    return tuple(np.ravel(np.array(values, object)).tolist())
