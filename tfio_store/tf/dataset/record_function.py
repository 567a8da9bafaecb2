"""A user's function of records: it is traced once, and read.

If its argument goes into one `tf.io.parse_example` (or `parse_single_example`) whose spec is
constant, and nowhere else, the op that reads a batch parses it too. The rest of the function runs
on what was parsed: as it stands if it is a function of batches, and by
`tfio_store.tf.dataset.elementwise` if it is one of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import structured_function
from tensorflow.python.data.util import nest
from tensorflow.python.framework import op_def_library
from tensorflow.python.framework.func_graph import FuncGraph

from tfio_store.tf.dataset.columns import Column, attributes_of
from tfio_store.tf.dataset.elementwise import (
    NotElementwise,
    Rows,
    can_fail,
    has_effects,
    is_cheap,
    run_on_rows,
    static_value,
)

__all__ = ["NotElementwise", "RecordFunction", "Traced", "behind", "read_function"]


class Traced:
    """A function as `Dataset.map` traces it: once."""

    def __init__(self, function: Callable[..., Any], dataset: tf.data.Dataset) -> None:
        self._wrapped = structured_function.StructuredFunctionWrapper(
            function, "Dataset.map()", dataset=dataset
        )
        self.name: str = getattr(function, "__name__", type(function).__name__)

    @property
    def graph(self) -> Any:
        return self._wrapped.function.graph

    @property
    def element_spec(self) -> Any:
        return self._wrapped.output_structure

    def map(self, dataset: tf.data.Dataset, calls: Any, deterministic: bool | None) -> Any:
        """As ``dataset.map(function, calls, deterministic)``, without tracing it again."""
        function = self._wrapped.function
        types = [spec.dtype for spec in _flat_specs(self.element_spec)]
        shapes = [spec.shape for spec in _flat_specs(self.element_spec)]
        common = {"f": function, "output_types": types, "output_shapes": shapes}
        source = dataset._variant_tensor
        if calls is None:
            variant = tf.raw_ops.MapDataset(
                input_dataset=source,
                other_arguments=function.captured_inputs,
                preserve_cardinality=True,
                **common,
            )
        else:
            order = {None: "default", True: "true", False: "false"}[deterministic]
            variant = tf.raw_ops.ParallelMapDatasetV2(
                input_dataset=source,
                other_arguments=function.captured_inputs,
                num_parallel_calls=tf.cast(calls, tf.int64),
                deterministic=order,
                preserve_cardinality=True,
                **common,
            )
        return tf.data.experimental.from_variant(variant, self.element_spec)


def _flat_specs(spec: Any) -> list[tf.TensorSpec]:
    """The specs of the tensors that stand for an element between two datasets."""
    found: list[tf.TensorSpec] = []
    for each in nest.flatten(spec):
        found.extend(each._flat_tensor_specs)
    return found


@dataclass(frozen=True)
class RecordFunction:
    """The parsed features, and the function of them. It is a spec for
    `tfio_store.tf.dataset.features`."""

    parse: Any
    """The op ParseExampleV2 of the traced function."""
    columns: tuple[Column, ...]
    traced: tuple[Traced, ...]
    """The function; then others that are mapped over what it makes."""
    single: bool
    """It is a function of one record, not of a batch."""
    inline: bool = True
    """What is behind the parsing takes so little that it runs along with it."""
    known_rows: int | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """The op's attributes."""
        return attributes_of(self.columns)

    @property
    def element_spec(self) -> Any:
        return self.traced[-1].element_spec

    def features(self, tensors: Iterable[tf.Tensor], rows: int | None) -> Any:
        """The function of the op's outputs, or if not ``inline`` the inputs of `rest`."""
        left, parsed = iter(tensors), []
        for column in self.columns:
            parsed.append([next(left) for _ in column.dtypes()])
        found = self._in_order(parsed)
        for tensor, like in zip(found, self.parse.outputs, strict=True):
            shape = _batch_shape(tensor, like, rows) if self.single else like.shape
            tensor.set_shape(shape)
        return self.rest(*found) if self.inline else tuple(found)

    def parse_batch(self, strings: tf.Tensor) -> Any:
        """As `features`, of records, string [n], by TensorFlow's own parser."""
        names, sparse, dense, ragged, *defaults = map(_constant, self.parse.inputs[1:])
        attributes = {
            name: self.parse.get_attr(name)
            for name in ("num_sparse", "sparse_types", "ragged_value_types", "ragged_split_types",
                         "dense_shapes")
        }  # fmt: skip
        made = op_def_library.apply_op(
            "ParseExampleV2",
            serialized=strings,
            names=names,
            sparse_keys=sparse,
            dense_keys=dense,
            ragged_keys=ragged,
            dense_defaults=defaults,
            **attributes,
        )
        found = tf.nest.flatten(made)
        return self.rest(*found) if self.inline else tuple(found)

    def rest(self, *parsed: tf.Tensor) -> Any:
        """The function of the outputs of ParseExampleV2."""
        if self.single:
            return self._on_rows(list(parsed))
        return _imported(self.traced[0], self.parse, list(parsed))

    def then(self, traced: Traced) -> RecordFunction:
        """With another function of records behind. NotElementwise if that is not possible."""
        found = replace(self, traced=(*self.traced, traced))
        found.check()
        return found

    def check(self) -> None:
        """NotElementwise if it does not run on batches."""
        with FuncGraph("check").as_default():  # which captures tensors, as the ops' function will
            fake = [
                tf.compat.v1.placeholder(out.dtype, _batch_shape(out, out, None))
                for out in self.parse.outputs
            ]
            self._on_rows(fake)

    # --- outputs ------------------------------------------------------------------------------

    def _in_order(self, parsed: list[list[tf.Tensor]]) -> list[tf.Tensor]:
        """The op's outputs, by column, in the order of ParseExampleV2's."""
        kinds: dict[str, list[list[tf.Tensor]]] = {"sparse": [], "dense": [], "ragged": []}
        for column, part in zip(self.columns, parsed, strict=True):
            kinds[column.outputs].append(part)
        found = [part[k] for k in range(3) for part in kinds["sparse"]]
        found += [part[0] for part in kinds["dense"]]
        return found + [part[k] for k in range(2) for part in kinds["ragged"]]

    def _on_rows(self, parsed: list[tf.Tensor]) -> Any:
        count = self.parse.get_attr("num_sparse")
        sparse, dense = parsed[: 3 * count], parsed[3 * count :]
        given = {
            like.name: Rows(tensor, like.shape)
            for like, tensor in zip(self.parse.outputs[3 * count :], dense, strict=True)
        }

        def rows() -> tf.Tensor:
            if dense:
                return tf.shape(dense[0])[0]
            return tf.cast(sparse[2 * count][0], tf.int32)

        triples = {
            tuple(self.parse.outputs[k * count + i].name for k in range(3)): tf.SparseTensor(
                *(sparse[k * count + i] for k in range(3))
            )
            for i in range(count)
        }
        return self._in_turn(given, triples, rows)

    def _in_turn(self, given: dict[str, Rows], triples: dict[Any, Any], rows: Any) -> Any:
        flat: list[Any] = []
        for number, traced in enumerate(self.traced):
            graph = traced.graph
            specs = nest.flatten(traced.element_spec)
            if len(specs) != len(graph.outputs):
                raise NotElementwise("it makes something else than tensors")
            if number:
                arguments = graph.inputs[: len(flat)]
                if can_fail(self.traced[number - 1].graph) and _drops_one_of(arguments, graph):
                    raise NotElementwise("it drops what fails for some records")
                if not all(isinstance(each, Rows) for each in flat):
                    raise NotElementwise("it takes sparse tensors")
                given = {a.name: each for a, each in zip(arguments, flat, strict=True)}
            rows_of = run_on_rows(graph, given, rows)
            flat = [
                _output(spec, tensor, rows_of, triples)
                for spec, tensor in zip(specs, graph.outputs, strict=True)
            ]
        made = [each.tensor if isinstance(each, Rows) else each for each in flat]
        return nest.pack_sequence_as(self.element_spec, made)


def _drops_one_of(arguments: list[tf.Tensor], graph: Any) -> bool:
    return any(
        not argument.consumers() and not any(argument is out for out in graph.outputs)
        for argument in arguments
    )


def _output(spec: Any, tensor: tf.Tensor, rows_of: Any, triples: dict[Any, Any]) -> Any:
    if isinstance(spec, tf.SparseTensorSpec):
        parts = tuple(behind(each).name for each in behind(tensor).op.inputs)
        if parts not in triples:
            raise NotElementwise("it makes sparse tensors")
        return triples[parts]
    if not isinstance(spec, tf.TensorSpec):
        raise NotElementwise(f"it makes a {type(spec).__name__}")
    if not spec.shape.is_fully_defined():
        raise NotElementwise("a shape is not known before it runs")
    found = rows_of(tensor)
    if not found.shape.is_fully_defined():
        raise NotElementwise("a shape is not known before it runs")
    return found


def behind(tensor: Any) -> Any:
    """The tensor that Identity ops hand on."""
    while not hasattr(tensor, "numpy") and tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _batch_shape(tensor: tf.Tensor, like: tf.Tensor, rows: int | None) -> tf.TensorShape:
    """The shape that an output of ParseExampleV2 for one record has for several."""
    op, index = like.op, like.value_index
    count = op.get_attr("num_sparse")
    if index < count:
        return tf.TensorShape([None, 2])
    if index < 2 * count:
        return tf.TensorShape([None])
    if index < 3 * count:
        return tf.TensorShape([2])
    return tf.TensorShape([rows]).concatenate(like.shape)


def _constant(tensor: tf.Tensor) -> tf.Tensor:
    return tf.constant(static_value(tensor), tensor.dtype)


def _imported(traced: Traced, parse: Any, parsed: list[tf.Tensor]) -> Any:
    """The traced function behind ``parse``, in the default graph."""
    graph = traced.graph
    here = tf.compat.v1.get_default_graph()
    given = {like.name: tensor for like, tensor in zip(parse.outputs, parsed, strict=True)}
    for outer, inner in graph.captures:
        given[inner.name] = here.capture(outer) if hasattr(here, "capture") else outer
    definition = graph.as_graph_def()
    outputs, specs, parts = graph.outputs, nest.flatten(traced.element_spec), []
    for spec, tensor in zip(specs, outputs, strict=True):
        parts.append(_parts(spec, tensor))
    wanted = [tensor.name for _, tensors in parts for tensor in tensors]
    effects = [op.name for op in graph.control_outputs]
    # a tensor that comes from outside is no node of the definition
    inside = [name for name in wanted if name not in given]
    found = tf.graph_util.import_graph_def(
        definition, input_map=given, return_elements=[*inside, *effects], name="rest"
    )
    made = dict(zip(inside, found, strict=False))
    with tf.control_dependencies(found[len(inside) :]):
        named = {name: tf.identity(made.get(name, given.get(name))) for name in set(wanted)}
        values = [make([named[tensor.name] for tensor in tensors]) for make, tensors in parts]
    return nest.pack_sequence_as(traced.element_spec, values)


def _parts(spec: Any, tensor: tf.Tensor) -> tuple[Any, list[tf.Tensor]]:
    """The tensors of which an output consists, and what makes it of them. Between datasets a sparse
    or ragged tensor is one variant."""
    op = behind(tensor).op
    if isinstance(spec, tf.SparseTensorSpec) and op.type == "SerializeSparse":
        return lambda parts: tf.SparseTensor(*parts), list(op.inputs)
    if isinstance(spec, tf.RaggedTensorSpec) and op.type == "RaggedTensorToVariant":
        return _ragged, list(op.inputs)
    return lambda parts: spec._from_compatible_tensor_list(parts), [tensor]


def _ragged(parts: list[tf.Tensor]) -> tf.RaggedTensor:
    *splits, values = parts
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)


# --- reading a function ---------------------------------------------------------------------------


def read_function(traced: Traced, *, single: bool) -> RecordFunction:
    """The features that the function parses. NotElementwise, with the reason, if the op can't do
    that."""
    graph = traced.graph
    record, *others = graph.inputs[: len(graph.inputs) - len(graph.captures)]
    if others:
        raise NotElementwise("it takes more than a record")
    uses = [op for tensor in _same_as(record) for op in tensor.consumers()]
    uses = [op for op in uses if op.type != "Identity"]
    if len(uses) != 1 or uses[0].type != "ParseExampleV2":
        kinds = sorted({op.type for op in uses})
        into = f": it goes into {', '.join(kinds)}" if kinds else ""
        raise NotElementwise("the function does not hand the record to just one parse_example or "
                             f"parse_single_example{into}")  # fmt: skip
    if any(tensor is out for tensor in _same_as(record) for out in graph.outputs):
        raise NotElementwise("it hands out the record, too")
    parse = uses[0]
    found = RecordFunction(parse, _columns(parse), (traced,), single)
    if single:
        if any(column.outputs == "ragged" for column in found.columns):
            raise NotElementwise("records have ragged features")
        shapes = [tf.TensorShape(shape) for shape in parse.get_attr("dense_shapes")]
        if not all(shape.is_fully_defined() for shape in shapes):
            # a batch pads it, and what the function does to it would meet the padding
            raise NotElementwise("a feature has a length of its own in each record")
        found.check()
        return found
    specs = nest.flatten(traced.element_spec)
    known = (tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec)
    if len(specs) != len(graph.outputs) or not all(isinstance(spec, known) for spec in specs):
        raise NotElementwise("it makes something else than tensors")
    return replace(found, inline=is_cheap(graph) and not has_effects(graph))


def _same_as(tensor: tf.Tensor) -> list[tf.Tensor]:
    found = [tensor]
    for each in found:
        found += [op.outputs[0] for op in each.consumers() if op.type == "Identity"]
    return found


def _columns(parse: Any) -> tuple[Column, ...]:
    """The columns of a ParseExampleV2, as the op has them."""
    values = [static_value(tensor) for tensor in parse.inputs[1:]]
    if any(value is None for value in values):
        raise NotElementwise("its spec is not known before it runs")
    names, sparse, dense, ragged, *defaults = values
    if np.size(names):
        raise NotElementwise("it gives names to records")
    keys = [*sparse.tolist(), *dense.tolist(), *ragged.tolist()]
    if not keys or len(set(keys)) < len(keys):
        raise NotElementwise("it parses a feature twice, or none")
    types = parse.get_attr("sparse_types")
    found: list[Column | None] = [
        Column.sparse(_text(key), dtype) for key, dtype in zip(sparse, types, strict=True)
    ]
    shapes = [tf.TensorShape(shape) for shape in parse.get_attr("dense_shapes")]
    types = parse.get_attr("Tdense")
    for key, dtype, shape, default in zip(dense, types, shapes, defaults, strict=True):
        found.append(Column.dense(_text(key), dtype, shape, default))
    splits = parse.get_attr("ragged_split_types")
    for key, dtype, kind in zip(ragged, parse.get_attr("ragged_value_types"), splits, strict=True):
        found.append(Column.ragged(_text(key), dtype, kind))
    if any(column is None for column in found):
        raise NotElementwise("it has a feature that only TensorFlow parses")
    return tuple(column for column in found if column is not None)


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise NotElementwise("a feature's name is no text") from None
