"""Element specs as JSON, and elements as flat lists of leaves.

A spec is a nest (dicts, tuples, named tuples) of tensor, ragged and sparse specs. Nothing is
pickled. The JSON describes the spec in words, and reading it makes nothing but specs.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

__all__ = ["from_json", "leaves", "pack", "to_json"]


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
