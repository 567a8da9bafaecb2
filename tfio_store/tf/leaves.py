"""Element specs as JSON, and how each leaf of an element is kept in an Example."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.example.feature import Feature
from tfio_store.records.framing import RecordBatch

# Element specs as JSON, and elements as flat lists of leaves.
#
# A spec is a nest (dicts, tuples, named tuples) of tensor, ragged and sparse specs. Nothing is
# pickled. The JSON describes the spec in words, and reading it makes nothing but specs.


def to_json(spec: Any) -> dict[str, Any]:
    """JSON-able. TypeError for what can't be saved (datasets, optionals, tensor arrays, ...)."""
    if isinstance(spec, tf.TensorSpec):
        return {"tensor": [spec.dtype.name, _dims(spec.shape)]}
    if isinstance(spec, tf.RaggedTensorSpec):
        return {
            "ragged": [spec.dtype.name, _dims(spec.shape)],
            "ragged_rank": spec.ragged_rank,
            "row_splits_dtype": spec.row_splits_dtype.name,
        }
    if isinstance(spec, tf.SparseTensorSpec):
        return {"sparse": [spec.dtype.name, _dims(spec.shape)]}
    if isinstance(spec, Mapping):
        kind = "ordered_dict" if isinstance(spec, OrderedDict) else "dict"
        return {kind: [[_key(key), to_json(value)] for key, value in spec.items()]}
    if isinstance(spec, tuple):
        items: list[Any] = [to_json(value) for value in spec]
        if hasattr(spec, "_fields"):
            return {
                "named_tuple": type(spec).__name__,
                "fields": list(spec._fields),
                "items": items,
            }
        return {"tuple": items}
    raise TypeError(
        f"elements with a {type(spec).__name__} can't be saved; dicts, tuples and named tuples of "
        "tensors, ragged and sparse tensors can"
    )


def _key(key: Any) -> str | int:
    if type(key) not in (str, int):
        raise TypeError(f"keys of an element's dicts must be str or int, got {key!r}")
    found: str | int = key
    return found


def _dims(shape: tf.TensorShape) -> list[int | None] | None:
    return None if shape.rank is None else shape.as_list()


def from_json(value: Any) -> Any:
    """The spec that `to_json` described. ValueError for anything else."""
    try:
        (kind,) = _MAKE.keys() & value.keys()
        return _MAKE[kind](value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not an element spec: {error}") from None


def _tensor(value: Any) -> Any:
    dtype, dims = value["tensor"]
    return tf.TensorSpec(dims, tf.as_dtype(dtype))


def _ragged(value: Any) -> Any:
    dtype, dims = value["ragged"]
    splits = tf.as_dtype(value["row_splits_dtype"])
    return tf.RaggedTensorSpec(dims, tf.as_dtype(dtype), int(value["ragged_rank"]), splits)


def _sparse(value: Any) -> Any:
    dtype, dims = value["sparse"]
    return tf.SparseTensorSpec(dims, tf.as_dtype(dtype))


def _named_tuple(value: Any) -> Any:
    make: Any = namedtuple  # whose fields a type checker can't know
    kind = make(str(value["named_tuple"]), [str(field) for field in value["fields"]])
    return kind(*map(from_json, value["items"]))


_MAKE: dict[str, Callable[[Any], Any]] = {
    "tensor": _tensor,
    "ragged": _ragged,
    "sparse": _sparse,
    "dict": lambda value: {_key(key): from_json(item) for key, item in value["dict"]},
    "ordered_dict": lambda value: OrderedDict(
        (_key(key), from_json(item)) for key, item in value["ordered_dict"]
    ),
    "tuple": lambda value: tuple(map(from_json, value["tuple"])),
    "named_tuple": _named_tuple,
}


def leaves(nest: Any, spec: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(name, leaf) of every leaf of ``nest``, which has the structure of ``spec``. Names are the
    path of keys, fields and positions, joined by "/"; a lone tensor is called "value"."""
    for key, inner in _children(spec):
        name = f"{path}/{key}" if path else str(key)
        yield from leaves(_child(nest, key, spec), inner, name)
    if not isinstance(spec, (Mapping, tuple)):
        yield path or "value", nest


def pack(spec: Any, parts: Iterator[Any]) -> Any:
    """The nest of ``spec``'s structure whose leaves are the next of ``parts``."""
    if isinstance(spec, Mapping):
        kind: Any = OrderedDict if isinstance(spec, OrderedDict) else dict
        return kind((key, pack(inner, parts)) for key, inner in spec.items())
    if isinstance(spec, tuple):
        packed = [pack(inner, parts) for inner in spec]
        return type(spec)(*packed) if hasattr(spec, "_fields") else tuple(packed)
    return next(parts)


def _children(spec: Any) -> list[tuple[Any, Any]]:
    if isinstance(spec, Mapping):
        return list(spec.items())
    if isinstance(spec, tuple):
        return list(zip(getattr(spec, "_fields", range(len(spec))), spec, strict=True))
    return []


def _child(nest: Any, key: Any, spec: Any) -> Any:
    return getattr(nest, key) if hasattr(spec, "_fields") else nest[key]


# How one leaf of an element, a tensor of any dtype and shape, is kept in an Example.
#
# `Stored` is a plain tensor. Its life: in the graph, `flatten` makes an element's tensor
# one-dimensional; a batch of those is a column (`column`), which is encoded; on the way back
# `parsed` gives a batch as ``tf.io.parse_example`` sees it, and `restore` the tensor of one
# element, or `restore_batch` of a batch where every element has the same shape. Ragged and sparse
# tensors are several plain ones (`parts_of`).


SHAPE = "/shape"
"""The ending of the name of a feature that holds a shape which the schema can't have."""

_INTEGERS = (tf.int16, tf.int32, tf.int64, tf.uint16, tf.uint32)
_HALF_BYTES = {"int4": tf.int8, "uint4": tf.uint8}
"""Types that no op reinterprets travel as the next larger type, which holds every value."""


@dataclass(frozen=True)
class Stored:
    """A plain tensor: float32, integers and strings as lists, anything else as raw memory."""

    name: str
    dtype: tf.DType
    shape: tf.TensorShape

    @property
    def fixed(self) -> bool:
        return bool(self.shape.is_fully_defined())

    @property
    def empty(self) -> bool:
        """Whether the shape has no elements: there is nothing to store."""
        return self.fixed and self.shape.num_elements() == 0

    @property
    def rows(self) -> bool:
        """Whether only the first dimension is open. Then the number of values decides it."""
        if self.fixed or self.shape.rank is None or not self.shape[1:].is_fully_defined():
            return False
        return bool(self.shape[1:].num_elements() != 0)

    @property
    def raw(self) -> bool:
        """Whether it is kept as memory. Lists would round some types, and slow down tensors of
        bytes."""
        if self.dtype in (tf.bool, tf.int8, tf.uint8):
            return bool(self.shape.rank != 0)
        return bool(self.dtype not in (tf.float32, tf.string, *_INTEGERS))

    def features(self) -> dict[str, Feature]:
        """For the schema."""
        if self.empty:
            return {}
        dtype = "bytes" if self.dtype == tf.string else _memory_dtype(self.dtype)
        if self.fixed or self.rows:
            return {self.name: Feature(dtype, tuple(self.shape.as_list()), raw=self.raw)}
        rank = (self.shape.rank,)
        return {
            self.name: Feature(dtype, (None,), raw=self.raw),
            self.name + SHAPE: Feature("int64", rank),
        }

    # ---- on the way out ----

    def flatten(self, tensor: Any) -> dict[str, Any]:
        """One element as [n] tensors: n is fixed where the shape is."""
        if self.empty:
            return {}
        flat = _to_memory(tensor) if self.raw else tensor
        itemsize = _memory_size(self.dtype) if self.raw else 1
        size = self.shape.num_elements() * itemsize if self.fixed else -1
        if not self.raw and (flat.dtype.is_integer or flat.dtype == tf.bool):
            flat = tf.cast(flat, tf.int64)
        result = {self.name: tf.reshape(flat, [size])}
        if not (self.fixed or self.rows):
            result[self.name + SHAPE] = tf.ensure_shape(
                tf.shape(tensor, tf.int64), [self.shape.rank]
            )
        return result

    def column(self, name: str, batch: Any) -> Any:
        """A batch of what `flatten` gave, for `encode_examples`."""
        ragged = isinstance(batch, tf.RaggedTensor)
        values = (batch.values if ragged else batch).numpy()
        splits = batch.row_splits.numpy() if ragged else None
        if not (self.raw and name == self.name):
            return values if splits is None else (values, splits)
        if splits is None:
            splits = np.arange(len(values) + 1, dtype=np.int64) * values.shape[1]
        return RecordBatch(values.reshape(-1), splits[:-1], np.diff(splits))

    # ---- on the way back ----

    def restore_batch(self, parsed: dict[str, Any]) -> Any:
        """[B, *shape]; only where the shape is fixed."""
        if self.empty:
            raise ValueError("what is not stored has no batch")
        flat = parsed[self.name]
        if self.raw:
            flat = self._reinterpret(tf.io.decode_raw(flat, tf.uint8))
        return self._typed(tf.reshape(flat, [-1, *self.shape]))

    def restore(self, parsed: dict[str, Any]) -> Any:
        """The tensor of one element."""
        if self.empty:
            return (
                tf.zeros(self.shape, self.dtype)
                if self.dtype != tf.string
                else tf.fill(self.shape, "")
            )
        flat = parsed[self.name]
        if self.raw:
            flat = self._reinterpret(tf.io.decode_raw(flat, tf.uint8))
        if self.fixed or self.rows:
            shape = [-1 if dim is None else dim for dim in self.shape]
        else:
            shape = parsed[self.name + SHAPE]
        return tf.ensure_shape(self._typed(tf.reshape(flat, shape)), self.shape)

    def _typed(self, tensor: Any) -> Any:
        return tensor if tensor.dtype == self.dtype else tf.cast(tensor, self.dtype)

    def _reinterpret(self, memory: Any) -> Any:
        """[..., n * itemsize] bytes to [..., n]."""
        if self.dtype == tf.bool or self.dtype.name in _HALF_BYTES:
            kind = _HALF_BYTES.get(self.dtype.name, tf.uint8)
            return memory if kind == tf.uint8 else tf.bitcast(memory, kind)
        if self.dtype.size == 1:
            return tf.bitcast(memory, self.dtype)
        shape = tf.concat([tf.shape(memory)[:-1], [-1, self.dtype.size]], 0)
        return tf.bitcast(tf.reshape(memory, shape), self.dtype)


def _to_memory(tensor: Any) -> Any:
    """uint8, with the bytes of each item in a new last dimension."""
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.uint8)
    if tensor.dtype.name in _HALF_BYTES:
        tensor = tf.cast(tensor, _HALF_BYTES[tensor.dtype.name])
    return tf.bitcast(tensor, tf.uint8)


def _memory_dtype(dtype: tf.DType) -> str:
    """The numpy dtype of a raw tensor's memory."""
    if dtype.is_quantized:
        name: str = dtype.name[1:]
        return name
    return str(_HALF_BYTES.get(dtype.name, dtype).name)


def _memory_size(dtype: tf.DType) -> int:
    return 1 if dtype.name in _HALF_BYTES else int(dtype.size)


@dataclass(frozen=True)
class Leaf:
    """A leaf of an element: the plain tensors that it is made of."""

    parts: tuple[Stored, ...]
    split: Callable[[Any], list[Any]]
    """The leaf's value to its parts'."""
    join: Callable[[list[Any]], Any]

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def fixed(self) -> bool:
        """Whether batches of it are restored as a whole. (TensorFlow can't unbatch half bytes.)"""
        part = self.parts[0]
        whole = len(self.parts) == 1 and part.fixed and not part.empty
        return whole and part.dtype.name not in _HALF_BYTES

    def restore(self, parsed: dict[str, Any]) -> Any:
        """The value in one element; ``parsed`` has it already where it is `fixed`."""
        if self.fixed:
            return parsed[self.name]
        return self.join([part.restore(parsed) for part in self.parts])


def leaf_of(name: str, spec: Any) -> Leaf:
    """TypeError for dtypes that have no values of their own (resource, variant), or that TensorFlow
    has no ops for (float8 and smaller)."""
    if not _savable(spec.dtype):
        raise TypeError(f"element {name!r}: tensors of dtype {spec.dtype.name} can't be saved")
    if isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank:
        return _ragged_leaf(name, spec)
    if isinstance(spec, tf.SparseTensorSpec):
        return _sparse_leaf(name, spec)
    return Leaf((Stored(name, spec.dtype, spec.shape),), lambda x: [x], lambda parts: parts[0])


def _savable(dtype: tf.DType) -> bool:
    if dtype in (tf.bool, tf.string, *_INTEGERS) or dtype.is_quantized:
        return True
    if dtype.is_integer:
        return dtype.size == 8 or dtype.name in ("int8", "uint8", *_HALF_BYTES)
    return bool(dtype.is_complex or (dtype.is_floating and dtype.size > 1))


def _ragged_leaf(name: str, spec: Any) -> Leaf:
    rank = spec.ragged_rank
    shape = spec.shape if spec.shape.rank is not None else tf.TensorShape([None] * (rank + 1))
    inner = spec.shape[rank + 1 :] if spec.shape.rank is not None else tf.TensorShape(None)
    flat = Stored(name, spec.dtype, tf.TensorShape([None]).concatenate(inner))
    rows = None if shape[0] is None else shape[0] + 1
    splits = [
        Stored(f"{name}/row_splits_{i}", tf.int64, tf.TensorShape([rows if i == 0 else None]))
        for i in range(rank)
    ]

    def join(parts: list[Any]) -> Any:
        values = parts[0]
        for i in reversed(range(rank)):
            row_splits = tf.cast(parts[1 + i], spec.row_splits_dtype)
            if shape[i + 1] is None:
                values = tf.RaggedTensor.from_row_splits(values, row_splits)
            else:
                length = tf.constant(shape[i + 1], spec.row_splits_dtype)
                nrows = tf.shape(row_splits, spec.row_splits_dtype)[0] - 1
                values = tf.RaggedTensor.from_uniform_row_length(values, length, nrows)
        return values

    def split(value: Any) -> list[Any]:
        return [value.flat_values, *value.nested_row_splits]

    return Leaf((flat, *splits), split, join)


def _sparse_leaf(name: str, spec: Any) -> Leaf:
    rank = spec.shape.rank
    parts = (
        Stored(name, spec.dtype, tf.TensorShape([None])),
        Stored(f"{name}/indices", tf.int64, tf.TensorShape([None, rank])),
        Stored(f"{name}/dense_shape", tf.int64, tf.TensorShape([rank])),
    )

    def join(parts: list[Any]) -> Any:
        values, indices, dense_shape = parts
        if rank:  # say again what is known of the shape
            known = zip(spec.shape, tf.unstack(dense_shape), strict=True)
            dense_shape = tf.stack(
                [size if dim is None else tf.constant(dim, tf.int64) for dim, size in known]
            )
        return tf.SparseTensor(indices, values, dense_shape)

    return Leaf(parts, lambda value: [value.values, value.indices, value.dense_shape], join)
