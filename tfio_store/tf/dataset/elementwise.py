"""Runs a traced function of one record on a whole batch, where that is provably the same.

Only ops are known here that treat each element by itself and give the same bits for a batch as for
one: picking, renaming, casting, IEEE arithmetic, comparing, reshaping, one-hot, texts. A sum, an
exponential or a matrix product may round differently when there is more of it, so these are not.
Neither are ops with a state, nor shapes that only running shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_library


class NotElementwise(Exception):
    """The function must run on each record by itself. The text says why."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor [rows, *shape]: what the function has as a tensor of ``shape``."""

    tensor: tf.Tensor
    shape: tf.TensorShape

    @property
    def dtype(self) -> tf.DType:
        return self.tensor.dtype

    @property
    def dims(self) -> list[int]:
        if not self.shape.is_fully_defined():
            raise NotElementwise("a shape is not known before it runs")
        return list(self.shape)


_Value = Any
"""`Rows`, or a tensor that is the same for each record."""

_SAME = frozenset([
    "Identity", "Snapshot", "StopGradient", "PreventGradient", "ZerosLike", "OnesLike", "Bitcast",
    "Abs", "Neg", "Sign", "Square", "Floor", "Ceil", "Round", "Rint", "Relu", "Relu6",
    "LogicalNot", "Invert", "IsNan", "IsInf", "IsFinite",
    "StringToNumber", "StringLength", "StringLower", "StringUpper", "StringStrip", "AsString",
    "StringToHashBucketFast", "StringToHashBucketStrong", "StringToHashBucket",
    "StaticRegexReplace", "StaticRegexFullMatch",
])  # fmt: skip
_BROADCAST = frozenset([
    "Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "FloorMod", "Mod",
    "TruncateDiv", "TruncateMod", "Maximum", "Minimum", "SquaredDifference", "SelectV2",
    "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual",
    "LogicalAnd", "LogicalOr", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift",
])  # fmt: skip
_BITS_DIFFER = {
    **dict.fromkeys(
        ["Maximum", "Minimum", "Relu", "Relu6", "Sign"],
        frozenset([tf.float16, tf.float32, tf.float64, tf.bfloat16]),
    ),
    **dict.fromkeys(
        [
            "Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "FloorDiv", "TruncateDiv",
            "Square", "SquaredDifference", "Floor", "Ceil", "Round", "Rint", "FloorMod", "Mod",
        ],
        frozenset([tf.bfloat16]),
    ),
}  # fmt: skip
"""Of special values (zeros with a sign, NaN, denormals) these give other bits where the processor
takes several at a time, as it does in a batch."""
_RESHAPES = frozenset(["Reshape", "ExpandDims", "Squeeze"])
_OTHERS = frozenset(
    ["Cast", "DecodeRaw", "Transpose", "Pack", "ConcatV2", "OneHot", "StridedSlice", "Unpack"]
)
_CHEAP = (
    _SAME
    | _BROADCAST
    | _RESHAPES
    | _OTHERS
    | {"Const", "Placeholder", "SerializeSparse", "RaggedTensorToVariant", "NoOp", "Shape", "Size"}
)


def is_cheap(graph: Any) -> bool:
    """Whether a function has no op but those of this page, and some that take no time."""
    return all(op.type in _CHEAP or op.type == "ParseExampleV2" for op in graph.get_operations())


_FAIL = frozenset([
    "StringToNumber", "DecodeRaw",
    "Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod",
])  # fmt: skip


def can_fail(graph: Any) -> bool:
    """Whether a function has an op of this page that is an error for some values."""
    return any(op.type in _FAIL for op in graph.get_operations())


def has_effects(graph: Any) -> bool:
    """Whether a function has an op with a state, or with effects."""
    return any(op.op_def.is_stateful for op in graph.get_operations() if op.type != "Placeholder")


def static_value(tensor: tf.Tensor) -> Any:
    """The constant of a tensor, as an array. None if it has none."""
    found = tf.get_static_value(tensor)
    if found is None and tensor.op.type == "Reshape":
        values, shape = map(static_value, tensor.op.inputs)
        return None if values is None or shape is None else values.reshape(shape)
    if found is None and tensor.op.type == "Identity":
        return static_value(tensor.op.inputs[0])
    return found


def run_on_rows(
    graph: Any, given: Mapping[str, Rows], rows: Callable[[], tf.Tensor]
) -> Callable[[tf.Tensor], Rows]:
    """The function that makes, in the default graph, `Rows` of any tensor of ``graph``.

    ``given`` are those of some of its tensors, by name. ``rows`` is their number, int32 [].
    Raises NotElementwise, as does what it answers.
    """
    if has_effects(graph):
        raise NotElementwise("it has an op with a state, or with effects")
    outside = {inner.name: outer for outer, inner in graph.captures}
    walk = _Walk(dict(given), outside, rows)
    return walk.rows_of


class _Walk:
    def __init__(
        self, known: dict[str, _Value], outside: dict[str, Any], rows: Callable[[], tf.Tensor]
    ) -> None:
        self._known = known
        self._outside = outside
        self._count = rows

    def rows_of(self, tensor: tf.Tensor) -> Rows:
        found = self._value(tensor)
        if isinstance(found, Rows):
            return found
        dims = tensor.shape
        if not dims.is_fully_defined():
            raise NotElementwise("a shape is not known before it runs")
        shape = tf.concat([[self._count()], tf.constant(list(dims), tf.int32, [len(dims)])], 0)
        return Rows(tf.broadcast_to(found, shape), dims)

    def _value(self, tensor: tf.Tensor) -> _Value:
        name = tensor.name
        if name not in self._known:
            self._known[name] = self._made(tensor)
        return self._known[name]

    def _made(self, tensor: tf.Tensor) -> _Value:
        op = tensor.op
        value = static_value(tensor)
        if value is not None:
            return tf.constant(value, tensor.dtype)
        if tensor.name in self._outside:
            outer = self._outside[tensor.name]
            if outer.dtype in (tf.resource, tf.variant):
                raise NotElementwise("it uses a resource")
            return tf.convert_to_tensor(outer)
        inputs = [self._value(each) for each in op.inputs]
        if not any(isinstance(each, Rows) for each in inputs):
            raise NotElementwise(f"{op.type} of what is not known before it runs")
        if tensor.dtype in (tf.resource, tf.variant):
            raise NotElementwise(f"{op.type} makes no plain tensor")
        return Rows(self._batched(op, inputs, tensor), tensor.shape)

    def _batched(self, op: Any, inputs: list[_Value], out: tf.Tensor) -> tf.Tensor:
        kind = op.type
        if inputs[0].dtype in _BITS_DIFFER.get(kind, ()):
            name = inputs[0].dtype.name
            raise NotElementwise(f"{kind} of {name} has other bits in a batch for special values")
        if kind in _SAME:
            return _again(op, [inputs[0].tensor], out)
        if kind == "Cast":
            if inputs[0].dtype.is_floating and not out.dtype.is_floating:
                raise NotElementwise("a cast of numbers that may not fit")
            if out.dtype == tf.bfloat16:
                raise NotElementwise("a cast to bfloat16 has other bits in a batch for NaN")
            return _again(op, [inputs[0].tensor], out)
        if kind == "DecodeRaw":
            inputs[0].dims  # noqa: B018  (fails if they are not known)
            return _again(op, [inputs[0].tensor], out)
        if kind in _RESHAPES:
            return self._reshaped(inputs, out)
        if kind in ("Equal", "NotEqual") and not op.get_attr("incompatible_shape_error"):
            _check_broadcast(inputs)
        if kind in _BROADCAST:
            return _again(op, _aligned(inputs), out)
        if kind in ("Pack", "ConcatV2", "Transpose", "OneHot", "StridedSlice", "Unpack"):
            return self._along(op, inputs, out)
        raise NotElementwise(f"{kind} is not known to treat each element by itself")

    def _reshaped(self, inputs: list[_Value], out: tf.Tensor) -> tf.Tensor:
        if not isinstance(inputs[0], Rows) or any(isinstance(x, Rows) for x in inputs[1:]):
            raise NotElementwise("a shape depends on the record")
        if not out.shape.is_fully_defined():
            raise NotElementwise("a shape is not known before it runs")
        dims = tf.constant([int(n) for n in out.shape], tf.int32, [len(out.shape)])
        return tf.reshape(inputs[0].tensor, tf.concat([[self._count()], dims], 0))

    def _along(self, op: Any, inputs: list[_Value], out: tf.Tensor) -> tf.Tensor:
        """Ops with an axis, which is one further on in a batch."""
        if not out.shape.is_fully_defined():
            raise NotElementwise("a shape is not known before it runs")
        rank = len(out.shape)
        if op.type == "Pack":
            axis = op.get_attr("axis")
            return tf.stack(self._all_rows(op, inputs), axis + 1 if axis >= 0 else axis)
        if op.type == "ConcatV2":
            axis = _number(op.inputs[-1])
            parts = self._all_rows(op, inputs[:-1])
            return tf.concat(parts, axis + 1 if axis >= 0 else axis)
        first = inputs[0]
        if isinstance(first, Rows):
            first.dims  # noqa: B018  (fails if they are not known)
        if not isinstance(first, Rows) or any(isinstance(x, Rows) for x in inputs[1:]):
            raise NotElementwise(f"{op.type} with arguments that depend on the record")
        if op.type == "Transpose":
            perm = static_value(op.inputs[1])
            if perm is None:
                raise NotElementwise("an order of axes that is not known before it runs")
            return tf.transpose(first.tensor, [0, *(int(k) % rank + 1 for k in perm)])
        if op.type == "OneHot":
            axis = op.get_attr("axis")
            return tf.raw_ops.OneHot(
                indices=first.tensor,
                depth=inputs[1],
                on_value=inputs[2],
                off_value=inputs[3],
                axis=axis + 1 if axis >= 0 else axis,
            )
        if op.type == "Unpack":
            axis = op.get_attr("axis")
            parts = tf.unstack(first.tensor, op.get_attr("num"), axis + 1 if axis >= 0 else axis)
            return parts[out.value_index]
        return _sliced(op, first, inputs)

    def _all_rows(self, op: Any, inputs: list[_Value]) -> list[tf.Tensor]:
        for each in inputs:
            if isinstance(each, Rows):
                each.dims  # noqa: B018  (fails if they are not known)
        return [
            each.tensor if isinstance(each, Rows) else self.rows_of(tensor).tensor
            for each, tensor in zip(inputs, op.inputs, strict=False)
        ]


def _number(tensor: tf.Tensor) -> int:
    value = static_value(tensor)
    if value is None:
        raise NotElementwise("an axis that is not known before it runs")
    return int(value)


def _sliced(op: Any, first: Rows, inputs: list[_Value]) -> tf.Tensor:
    begin, end, strides = inputs[1:]
    zero, one = tf.zeros([1], begin.dtype), tf.ones([1], begin.dtype)
    masks = {
        name: op.get_attr(name) << 1
        for name in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    }
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return tf.raw_ops.StridedSlice(
        input=first.tensor,
        begin=tf.concat([zero, begin], 0),
        end=tf.concat([zero, end], 0),
        strides=tf.concat([one, strides], 0),
        **masks,
    )


def _check_broadcast(inputs: list[_Value]) -> None:
    """Values of shapes that do not go together are unequal, as a whole. In a batch that is an
    error."""
    first, second = (each.shape for each in inputs)
    try:
        tf.broadcast_static_shape(first, second)
    except ValueError:
        raise NotElementwise("it compares values of shapes that do not go together") from None


def _aligned(inputs: list[_Value]) -> list[tf.Tensor]:
    """The inputs of an op that broadcasts, each with as many axes as the longest, behind that of
    the rows."""
    ranks = [len(x.dims) if isinstance(x, Rows) else x.shape.rank for x in inputs]
    most = max(ranks)
    found = []
    for each, rank in zip(inputs, ranks, strict=True):
        if isinstance(each, Rows):
            tensor = each.tensor
            for _ in range(most - rank):
                tensor = tf.expand_dims(tensor, 1)
            found.append(tensor)
        else:
            found.append(each)
    return found


def _again(op: Any, inputs: list[tf.Tensor], out: tf.Tensor) -> tf.Tensor:
    """The same op on other inputs."""
    definition = op.op_def
    inferred = {
        name
        for arg in definition.input_arg
        for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
        if name
    }
    attributes = {
        attr.name: op.get_attr(attr.name)
        for attr in definition.attr
        if attr.name not in inferred and not attr.name.startswith("_")
    }
    names = [arg.name for arg in definition.input_arg]
    given = dict(zip(names, inputs, strict=True))
    found = op_def_library.apply_op(op.type, **given, **attributes)
    return found[out.value_index] if isinstance(found, list | tuple) else found
