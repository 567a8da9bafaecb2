"""Pipelines as people write them: random chains of steps, over both readers, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from tests.differential.draw import Draw, hold, same
from tests.differential.pipelines import THEIRS, codec_of
from tests.differential.sources import World, make_source

SPEC = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "weight": tf.io.FixedLenFeature([], tf.float32, 0.5),
    "vector": tf.io.FixedLenFeature([3], tf.float32),
    "pixels": tf.io.FixedLenFeature([], tf.string),
    "some": tf.io.VarLenFeature(tf.int64),
}


def make_examples(draw: Draw) -> list[bytes]:
    rng = np.random.default_rng(draw.seed)
    found = []
    for i in range(draw.one("examples", 0, 1, 40, 300)):
        features: dict[str, Any] = {
            "label": i,
            "vector": rng.random(3).astype(np.float32),
            "pixels": rng.bytes(600),
            "some": rng.integers(0, 9, rng.integers(0, 4)),
        }
        if i % 3:
            features["weight"] = np.float32(i / 3)
        found.append(bytes(tfs.encode_example(features)))
    return found


def random_function(draw: Draw) -> Any:
    """A function of one record: a few things people do with features."""
    wishes = ["cast", "scale", "pixels", "one_hot", "slice", "stack", "where", "exp", "sparse"]
    chosen = draw.tell("function", draw.random.sample(wishes, draw.random.randint(1, 4)))

    def function(record: Any) -> Any:
        found = tf.io.parse_single_example(record, SPEC)
        label, vector, weight = found["label"], found["vector"], found["weight"]
        made = {
            "cast": lambda: tf.cast(label, tf.float32) / 7.0,
            "scale": lambda: vector * tf.constant([1.0, 2.0, 3.0]) - weight,
            "pixels": lambda: tf.cast(
                tf.reshape(tf.io.decode_raw(found["pixels"], tf.uint8), [10, 60]), "int32"
            ),
            "one_hot": lambda: tf.one_hot(label % 5, 5),
            "slice": lambda: vector[1:][::-1],
            "stack": lambda: tf.transpose(tf.stack([vector, vector + 1.0])),
            "where": lambda: tf.where(weight > 3.0, vector, tf.zeros([3])),
            "exp": lambda: tf.exp(vector),
            "sparse": lambda: found["some"],
        }
        return {name: made[name]() for name in chosen}

    return function


def whole(records: Any) -> Any:
    found = tf.io.parse_example(records, SPEC)
    return found["label"], tf.reduce_sum(found["vector"], 1), found["some"]


def has_sparse(dataset: Any) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return any(isinstance(spec, tf.SparseTensorSpec) for spec in specs)


def random_chain(draw: Draw) -> Any:
    """Steps in an order that means something."""
    size, few = draw.number("batch", 1, 60), draw.number("few", 0, 50)
    drop, calls = draw.chance("drop", 0.3), draw.one("calls", None, 2)
    before = draw.one("before", "", "", "take", "skip", "repeat", "cache", "prefetch", "options")
    function = random_function(draw)
    mapped = draw.one("mapped", "single", "single", "single", "whole", "no")
    again = draw.chance("map again", 0.2)
    steps = {
        "": lambda d: d,
        "take": lambda d: d.take(few),
        "skip": lambda d: d.skip(few),
        "repeat": lambda d: d.repeat(2),
        "cache": lambda d: d.cache(),
        "prefetch": lambda d: d.prefetch(2),
        "options": lambda d: d.with_options(tf.data.Options()),
    }
    late = draw.one("late", "", "", "take", "repeat", "prefetch", "skip")
    padding = draw.chance("padded batch", 0.3)

    def chain(dataset: Any) -> Any:
        dataset = steps[before](dataset)
        if mapped == "single":
            dataset = dataset.map(function, calls)
            if again:
                dataset = dataset.map(lambda found: (found, 1))
        dataset = steps[late](dataset) if mapped != "whole" else dataset
        if padding and not has_sparse(dataset):
            dataset = dataset.padded_batch(size, drop_remainder=drop)
        else:
            dataset = dataset.batch(size, drop)
        return dataset.map(whole, calls) if mapped == "whole" else dataset

    return chain


def random_reading(draw: Draw) -> Any:
    """What takes the reader and the names of the files to records, in an order that is defined."""
    way = draw.one("read", "names", "at once", "interleave", "flat_map", "symbolic", "parts")
    cycle, block = draw.number("cycle", 1, 4), draw.number("block", 1, 3)
    calls = draw.one("parallel interleave", None, 1, 2)

    def reading(read: Any, listed: Any, urls: list[str]) -> Any:
        if way == "names":
            return read(urls)
        if way == "at once":
            return read(urls, num_parallel_reads=cycle)
        if way == "flat_map":
            return listed(urls).flat_map(read)
        if way == "parts":

            def part(given: Any) -> Any:
                return read(given["name"]).skip(given["skip"])

            rows = {"name": urls, "skip": np.arange(len(urls)) % 3}
            parts = tf.data.Dataset.from_tensor_slices(rows)
            return parts.interleave(part, cycle, block, calls and min(calls, cycle))
        names = tf.data.Dataset.from_tensor_slices(urls) if way == "symbolic" else listed(urls)
        # TensorFlow takes no more calls than files at once
        return names.interleave(read, cycle, block, calls and min(calls, cycle))

    return reading


def flat(element: Any) -> list[Any]:
    found: list[Any] = []
    for part in tf.nest.flatten(element, expand_composites=True):
        array = part.numpy()
        found.append((array.tobytes(), array.shape) if isinstance(array, np.ndarray) and
                     array.dtype != object else repr(array))  # fmt: skip
    return found


def check_chains(draw: Draw, world: World) -> None:
    """The class swapped, and unchanged code under `accelerate`: TensorFlow's elements and type."""
    records = make_examples(draw)
    with make_source(draw, world, local=True, records=records, codecs=THEIRS,
                     names_of_files=True) as made:  # fmt: skip
        if len(made.codecs) > 1:
            return
        codec, urls = codec_of(made), [file.url for file in made.files]
        if not urls:
            return
        chain, reading = random_chain(draw), random_reading(draw)
        mixed = draw.chance("shuffled", 0.2)

        def native(names: Any, **more: Any) -> Any:
            return tf.data.TFRecordDataset(names, codec, **more)

        def slices(names: list[str]) -> Any:
            return tf.data.Dataset.from_tensor_slices(names)

        def listed(names: list[str]) -> Any:
            # it sorts, and takes patterns
            plain = names == sorted(set(names)) and not any(set("[]*?") & set(n) for n in names)
            return tfs.list_files(names, shuffle=False) if plain else slices(names)

        def whole_chain(read: Any, names: Any) -> Any:
            found = reading(read, names, urls)
            if mixed:
                found = found.shuffle(30).batch(20).map(lambda r: tf.io.parse_example(r, SPEC))
            return found if mixed else chain(found)

        theirs = whole_chain(native, slices)
        if draw.chance("accelerated", 0.4):
            with tfs.accelerate():
                ours = whole_chain(native, slices)
        else:
            ours = whole_chain(tfs.TFRecordDataset, listed)
        hold(ours.element_spec == theirs.element_spec, f"{ours.element_spec}")
        got, wanted = list(ours), list(theirs)
        if mixed:
            found = [sorted(x for e in d for x in e["label"].numpy()) for d in (got, wanted)]
            same(found[0], found[1], "records")
            same([len(e["label"]) for e in got], [len(e["label"]) for e in wanted], "sizes")
            return
        same([flat(e) for e in got], [flat(e) for e in wanted], "elements")
