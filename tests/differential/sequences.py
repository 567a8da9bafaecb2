"""Pipelines with seeds in every place: the class swapped, and unchanged code under `accelerate`,
give TensorFlow's elements one for one, in each of several iterations."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from tests.differential.chains import SPEC, flat, has_sparse, make_examples, whole
from tests.differential.draw import Draw, hold, same
from tests.differential.pipelines import THEIRS, codec_of
from tests.differential.sources import World, make_source

Step = Callable[[Any], Any]

MOST_ELEMENTS = 400
GLOBAL = "global seed"


def seed_of(draw: Draw, name: str) -> int | None:
    """None only where a global seed stands for it."""
    kinds = (0, 1, 7, 12345, 2**31 - 1, *([None] * 2 if draw.told[GLOBAL] is not None else []))
    found: int | None = draw.one(f"seed of {name}", *kinds)
    return found


def shuffle(draw: Draw, name: str, count: int) -> Step:
    buffers = (1, 2, 10, max(1, count - 1), max(1, count), count + 1, 10_000)
    buffer, seed = draw.one(f"buffer of {name}", *buffers), seed_of(draw, name)
    again = draw.one(f"again of {name}", None, True, False)
    return lambda d: d.shuffle(buffer, seed=seed, reshuffle_each_iteration=again)


def function(draw: Draw, name: str) -> Callable[[Any], Any]:
    kind = draw.one(name, "parse", "arithmetic", "random", "stateless", "table", "python", "text")
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.range(50, dtype=tf.int64), tf.range(50)), -1
    )
    variable = tf.Variable(3, dtype=tf.int64)

    def mapped(record: Any) -> Any:
        found = tf.io.parse_single_example(record, SPEC)
        label, vector = found["label"], found["vector"]
        if kind == "arithmetic":
            return {"label": label, "more": [vector * 2.0 - found["weight"], vector[::-1]]}
        if kind == "random":
            return label, tf.random.uniform([2], seed=draw.seed % 1000)
        if kind == "stateless":
            return label, tf.random.stateless_uniform([2], tf.stack([label, 3]))
        if kind == "table":
            return table.lookup(label) + tf.cast(variable, tf.int32), label
        if kind == "python":
            return label, tf.py_function(lambda x: x * 3, [label], tf.int64)
        if kind == "text":
            if label % 2 == 0:  # autograph
                label = label + 1
            return tf.strings.as_string(label)
        return {"label": label, "some": found["some"]}

    return mapped


def options(draw: Draw) -> Any:
    made = tf.data.Options()
    if draw.chance("deterministic", 0.5):
        made.deterministic = True
    made.experimental_optimization.apply_default_optimizations = draw.chance("optimized", 0.8)
    return made


def before_batch(draw: Draw, index: int, count: int) -> Step:
    """A step over records."""
    name = f"step {index}"
    few, given = draw.number(f"few of {name}", 0, 60), options(draw)
    kinds: dict[str, Step] = {
        "shuffle": shuffle(draw, name, count),
        "take": lambda d: d.take(few * 5),
        "skip": lambda d: d.skip(few),
        "shard": lambda d: tf.data.Dataset.shard(d, 2, few % 2),
        "repeat": lambda d: d.repeat(2),
        "cache": lambda d: d.cache(),
        "prefetch": lambda d: d.prefetch(few % 4),
        "options": lambda d: d.with_options(given),
        "ignore_errors": lambda d: d.ignore_errors(),
        "windows": lambda d: d.window(max(1, few)).flat_map(lambda part: part.batch(max(1, few)))
        .unbatch(),
        "unbatched": lambda d: d.batch(max(1, few)).unbatch(),
        "filter": lambda d: d.filter(lambda r: tf.strings.length(r) % 3 != 1),
    }  # fmt: skip
    weights = [6 if kind == "shuffle" else 1 for kind in kinds]
    chosen = draw.tell(name, draw.random.choices(list(kinds), weights)[0])
    return kinds[chosen]


def batched(draw: Draw, *, mapped: bool) -> Step:
    size, drop = draw.one("batch", 1, 7, 16, 20, 32, 50), draw.chance("drop", 0.3)
    way = draw.one("batched by", "batch", "batch", "batch", "padded", "ragged", "grouped")

    def step(dataset: Any) -> Any:
        ranks = [getattr(each, "shape", None) for each in tf.nest.flatten(dataset.element_spec)]
        known = all(shape is not None and shape.rank is not None for shape in ranks)
        if way == "padded" and known and not has_sparse(dataset):
            return dataset.padded_batch(size, drop_remainder=drop)
        if (
            way == "ragged"
            and known
            and not has_sparse(dataset)
            and hasattr(dataset, "ragged_batch")
        ):
            return dataset.ragged_batch(size, drop_remainder=drop)
        if way == "grouped" and not mapped:
            return dataset.group_by_window(
                lambda r: tf.cast(tf.strings.length(r) % 2, tf.int64), lambda _, d: d.batch(size),
                window_size=size)  # fmt: skip
        return dataset.batch(size, drop)

    return step


def behind_batch(draw: Draw, index: int) -> Step:
    few = draw.number(f"few behind {index}", 0, 6)
    kinds: dict[str, Step] = {
        "": lambda d: d,
        "repeat": lambda d: d.repeat(3),
        "prefetch": lambda d: d.prefetch(2),
        "take": lambda d: d.take(few),
        "skip": lambda d: d.skip(few),
        "shard": lambda d: tf.data.Dataset.shard(d, 2, few % 2),
        "enumerate": lambda d: d.enumerate(),
        "shuffle": lambda d: d.shuffle(3, seed=few),
        "cache": lambda d: d.cache(),
    }
    return kinds[draw.one(f"behind {index}", *kinds)]


def reading(draw: Draw) -> Any:
    way = draw.one("read", "names", "at once", "interleave", "flat_map", "listed", "mixed names")
    cycle, block = draw.number("cycle", 1, 4), draw.number("block", 1, 4)
    calls = draw.one("parallel", None, 1, tf.data.AUTOTUNE)
    seed, again = draw.one("seed of names", 0, 3, 99), draw.one("names again", True, False)

    def read_all(read: Any, listing: Any, urls: list[str]) -> Any:
        if way == "names":
            return read(urls)
        if way == "at once":
            return read(urls, num_parallel_reads=cycle)
        plain = not any(set("[]*?") & set(url) for url in urls) and len(set(urls)) == len(urls)
        names = tf.data.Dataset.from_tensor_slices(urls)
        if way == "listed" and plain:
            names = listing.list_files(urls, seed=seed)
        elif way == "mixed names":
            names = names.shuffle(max(1, len(urls) - 1), seed, again)
        if way == "flat_map":
            return names.flat_map(read)
        return names.interleave(read, cycle, block, calls)

    return read_all


def combined(draw: Draw, chain: Callable[[Any], Any]) -> Any:
    """One chain over a reader, or several that belong together."""
    way = draw.one("together", "", "", "", "zip", "zip", "split", "concatenate", "choose", "sample")
    few, seed = draw.number("split", 0, 80), draw.one("seed of samples", 1, 5)

    def made(records: Callable[[], Any]) -> Any:
        if way == "zip":
            return tf.data.Dataset.zip((chain(records()), chain(records())))
        if way == "concatenate":
            return chain(records()).concatenate(chain(records()))
        if way == "split":
            mixed = records().shuffle(1000, seed=seed, reshuffle_each_iteration=False)
            return tf.data.Dataset.zip((chain(mixed.take(few)), chain(mixed.skip(few))))
        if way == "choose":
            choices = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0] * 20, np.int64))
            parts = [chain(records()), chain(records())]
            return tf.data.Dataset.choose_from_datasets(parts, choices)
        if way == "sample":
            parts = [chain(records()), chain(records())]
            return tf.data.Dataset.sample_from_datasets(parts, [0.3, 0.7], seed=seed)
        return chain(records())

    return made


def random_chain(draw: Draw, count: int) -> Callable[[Any], Any]:
    steps = [before_batch(draw, i, count) for i in range(draw.number("steps", 0, 3))]
    late = [shuffle(draw, "late", count)] if draw.chance("mapped, then shuffled", 0.3) else []
    mapped = draw.one("mapped", "", "single", "single", "whole")
    each = function(draw, "function") if mapped == "single" else None
    calls = draw.one("calls", None, None, 2)
    if draw.told.get("function") == "random":
        calls = None  # else the threads decide whose numbers they are
    batch = batched(draw, mapped=each is not None)
    behind = [behind_batch(draw, i) for i in range(draw.number("steps behind", 0, 2))]
    plain = mapped != "whole"

    def chain(dataset: Any) -> Any:
        for step in steps:
            dataset = step(dataset)
        if each is not None:
            dataset = dataset.map(each, calls)
        for step in late:
            dataset = step(dataset)
        dataset = batch(dataset) if plain else dataset.batch(20).map(whole)
        for step in behind:
            dataset = step(dataset)
        return dataset

    return chain


def taken(dataset: Any) -> list[Any]:
    try:
        return [flat(element) for element in itertools.islice(iter(dataset), MOST_ELEMENTS)]
    except tf.errors.OpError as error:
        return [type(error).__name__]


def saved_and_restored(make: Callable[[], Any], position: int) -> list[Any] | None:
    """What is left when an iterator that is saved somewhere goes on in a new dataset. None where a
    function has a state that cannot be saved."""
    iterator = iter(make())
    for _ in range(position):
        next(iterator)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tf.train.Checkpoint(it=iterator).write(f"{folder}/saved")
            fresh = iter(make())
            tf.train.Checkpoint(it=fresh).read(path)
        except tf.errors.FailedPreconditionError:
            return None
        return [flat(each) for each in itertools.islice(fresh, MOST_ELEMENTS - position)]


def check_sequences(draw: Draw, world: World) -> None:
    records = make_examples(draw)
    with make_source(draw, world, local=True, records=records, codecs=THEIRS,
                     names_of_files=True) as made:  # fmt: skip
        urls = [file.url for file in made.files]
        if len(made.codecs) > 1 or not urls:
            return
        codec = codec_of(made)
        overall = draw.one(GLOBAL, None, None, 11)
        read_all, together = reading(draw), combined(draw, random_chain(draw, len(records)))

        def native(names: Any, **more: Any) -> Any:
            return tf.data.TFRecordDataset(names, codec, **more)

        def make(read: Any, listing: Any) -> Any:
            tf.random.set_seed(overall)
            dataset = together(lambda: read_all(read, listing, urls))
            tf.random.set_seed(overall and 99)  # which is too late
            return dataset

        def ours() -> Any:
            return make(tfs.TFRecordDataset, tfs)

        def accelerated() -> Any:
            with tfs.accelerate():
                return make(native, tf.data.Dataset)

        def theirs_again() -> Any:
            return make(native, tf.data.Dataset)

        theirs = theirs_again()
        others = {"swapped": ours(), "accelerated": accelerated()}
        for iteration in range(draw.number("iterations", 1, 3)):
            wanted = taken(theirs)
            for who, dataset in others.items():
                hold(dataset.element_spec == theirs.element_spec, f"{who}: {dataset.element_spec}")
                same(taken(dataset), wanted, f"{who}, iteration {iteration}")
            if len(wanted) == MOST_ELEMENTS:
                break  # what TensorFlow has read ahead of it may have taken seeds of what follows
        first = taken(theirs_again())
        # in TensorFlow itself a restored sample of parts that had ended may never end
        sampled = draw.told["together"] == "sample"
        if draw.chance("saved", 0.3) and not sampled:
            way = draw.one("who is saved", ours, accelerated)
            if taken(way()) == first and first and not isinstance(first[-1], str):
                position = draw.number("saved at", 0, len(first) - 1)
                found = saved_and_restored(way, position)
                # numbers that are drawn at random are no state of TensorFlow's own iterators, and
                # what it has read ahead makes some of them go on in one way or another
                rest, tries = first[position:], 1 if found == first[position:] else 8
                if all(saved_and_restored(theirs_again, position) == rest for _ in range(tries)):
                    same(found, rest, "the rest behind a checkpoint")
