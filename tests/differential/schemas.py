"""``schema=`` against `tf.io.parse_example` and `tf.io.parse_single_example`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from tests.differential.draw import Draw, hold, same
from tests.differential.sources import World, make_source
from tests.differential.tfdata import data_options

Spec = dict[str, Any]


def check_schema(draw: Draw, world: World) -> None:
    """The same tensors as TensorFlow makes of the same records."""
    spec = make_spec(draw)
    count = draw.one("examples", 0, 1, 5, 20)
    records = [make_example(draw, spec) for _ in range(count)]
    with make_source(draw, world, records=records) as made:
        options = data_options(draw, made)
        dataset = tfs.TFRecordDataset(made.source, **options, schema=spec)
        size = options.get("batch_size")
        shape = [len(made.records)]
        plain = tf.data.Dataset.from_tensor_slices(tf.constant(made.records, tf.string, shape))
        if size is None:
            wanted = plain.map(lambda record: tf.io.parse_single_example(record, spec))
        else:
            drop = options["drop_remainder"]
            wanted = plain.batch(size, drop).map(lambda batch: tf.io.parse_example(batch, spec))
        same(str(dataset.element_spec), str(wanted.element_spec), "element_spec")
        compare(list(dataset), list(wanted))


def compare(found: list[Any], wanted: list[Any]) -> None:
    same(len(found), len(wanted), "number of elements")
    for i, (got, right) in enumerate(zip(found, wanted, strict=True)):
        same(sorted(got), sorted(right), f"keys of element {i}")
        for key in right:
            parts = (tf.nest.flatten(value, expand_composites=True)
                     for value in (got[key], right[key]))  # fmt: skip
            for a, b in zip(*parts, strict=True):
                hold(equal(a.numpy(), b.numpy()), f"{key!r} of element {i} is {a}, not {b}")


def equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() if a.dtype.kind in "fi" else bool((a == b).all())


def make_spec(draw: Draw) -> Spec:
    """One to four features of any kind."""
    names = draw.random.sample(
        ["x", "label", "a/b", "ünï", "long " * 8, ""], draw.number("n", 1, 4)
    )
    if "" in names and draw.random.random() < 0.8:
        names.remove("")
    return {name: make_feature(draw, name) for name in names or ["x"]}


def make_feature(draw: Draw, name: str) -> Any:
    dtype = draw.one(f"{name} dtype", tf.int64, tf.float32, tf.string)
    default = {tf.int64: -1, tf.float32: 0.5, tf.string: b"none"}[dtype]
    match draw.one(f"{name} kind", "fixed", "default", "vector", "sequence", "var", "ragged"):
        case "fixed":
            return tf.io.FixedLenFeature([], dtype)
        case "default":
            return tf.io.FixedLenFeature([], dtype, default)
        case "vector":
            return tf.io.FixedLenFeature([draw.random.choice((1, 2, 3))], dtype)
        case "sequence":
            return tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)
        case "var":
            return tf.io.VarLenFeature(dtype)
    return tf.io.RaggedFeature(dtype)


def make_example(draw: Draw, spec: Spec) -> bytes:
    """A record that suits the spec, with a feature more here and there."""
    example = tf.train.Example()
    for name, feature in spec.items():
        fixed = isinstance(feature, tf.io.FixedLenFeature)
        count = draw.random.randint(0, 4)
        if fixed:
            count = int(np.prod(feature.shape, dtype=int))
            if feature.default_value is not None and draw.random.random() < 0.5:
                continue
        elif draw.random.random() < 0.3:
            continue
        put(draw, example.features.feature[name], feature.dtype, count)
    if draw.random.random() < 0.2:
        put(draw, example.features.feature["nobody asks"], tf.int64, 2)
    data: bytes = example.SerializeToString()
    return data


def put(draw: Draw, feature: Any, dtype: Any, count: int) -> None:
    rng = draw.random
    for _ in range(count):
        if dtype == tf.int64:
            feature.int64_list.value.append(rng.choice((0, -1, 2**63 - 1, rng.getrandbits(20))))
        elif dtype == tf.float32:
            feature.float_list.value.append(rng.choice((0.0, -1.5, float("inf"), rng.random())))
        else:
            feature.bytes_list.value.append(rng.randbytes(rng.choice((0, 1, 20))))
