"""`TFRecordDataset` against lists: order, batches, shards, shuffles, cardinality, checkpoints."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfio_store as tfs
from tests.differential.draw import Draw, hold, same, same_multiset
from tests.differential.sources import Made, World, make_source

Make = Callable[[], Any]


def elements(dataset: Any, most: int | None = None) -> list[Any]:
    """The elements: bytes, or lists of bytes."""
    iterator = iter(dataset) if most is None else iter(dataset.take(most))
    return [plain(element) for element in iterator]


def plain(element: Any) -> Any:
    value = element.numpy()
    return value if isinstance(value, bytes) else value.tolist()


def flat(found: list[Any]) -> list[bytes]:
    return [r for each in found for r in (each if isinstance(each, list) else [each])]


def named(draw: Draw, made: Made) -> Any:
    """The source in one of the forms in which TensorFlow takes names."""
    if isinstance(made.source, list):
        form = draw.one("names", "list", "list", "tensor", "dataset", "nested")
        if form == "tensor":
            return tf.constant(made.source)
        if form == "dataset":
            return tf.data.Dataset.from_tensor_slices(made.source)
        if form == "nested":
            return [made.source[:1], made.source[1:]]
    return made.source


def data_options(draw: Draw, made: Made) -> dict[str, Any]:
    options = dict(made.options)
    if len(made.codecs) == 1 and draw.chance("codec said", 0.3):
        options["compression_type"] = next(iter(made.codecs)) or ""
    if draw.chance("skip", 0.1):
        options["on_corrupt"] = "skip"
    if draw.chance("unverified", 0.1):
        options["verify"] = False
    if draw.chance("batched", 0.4):
        options["batch_size"] = draw.one("batch_size", 1, 2, 3, 7, 100)
        options["drop_remainder"] = draw.chance("drop_remainder", 0.4)
    return options


def batches(records: list[bytes], options: dict[str, Any]) -> list[Any]:
    """What a dataset with these options makes of records in this order."""
    size = options.get("batch_size")
    if size is None:
        return records
    cut = [records[i : i + size] for i in range(0, len(records), size)]
    if options.get("drop_remainder") and cut and len(cut[-1]) < size:
        cut.pop()
    return cut


def check_order(draw: Draw, world: World) -> None:
    """Elements in order, what is made of them, and how many there are."""
    with make_source(draw, world) as made:
        options = data_options(draw, made)
        dataset = tfs.TFRecordDataset(named(draw, made), **options)
        wanted = batches(made.records, options)
        what = draw.one("then", "", "", "take", "skip", "repeat", "map", "cache")
        count = draw.number("n", 0, 9)
        if what == "take":
            dataset, wanted = dataset.take(count), wanted[:count]
        elif what == "skip":
            dataset, wanted = dataset.skip(count), wanted[count:]
        elif what == "repeat":
            dataset, wanted = dataset.repeat(2), wanted * 2
        elif what == "map":
            dataset = dataset.map(tf.identity, num_parallel_calls=2)
        elif what == "cache":
            dataset = dataset.cache()
        same(elements(dataset), wanted, "elements")
        check_cardinality(dataset, len(wanted), known=committed_count(made, options) and not what)
        same(elements(dataset), wanted, "elements of a second iterator")


def committed_count(made: Made, options: dict[str, Any]) -> bool:
    """Whether the number of records is known: skipping may find fewer."""
    return made.committed and options.get("on_corrupt") != "skip"


def check_cardinality(dataset: Any, count: int, *, known: bool) -> None:
    said = int(dataset.cardinality())
    hold(said == count or (said == tf.data.UNKNOWN_CARDINALITY and not known),
         f"cardinality is {said} for {count} elements")  # fmt: skip


def check_shards(draw: Draw, world: World) -> None:
    """By the option or the method: all shards together are everything."""
    with make_source(draw, world) as made:
        options = {**data_options(draw, made), "drop_remainder": False}
        count = draw.number("shards", 1, 3)
        method = draw.chance("method", 0.5)
        shuffle: dict[str, Any] = {"shuffle": 2, "seed": 3} if draw.chance("shuffle", 0.2) else {}
        found = []
        for i in range(count):
            if method:
                dataset = tfs.TFRecordDataset(made.source, **options, **shuffle).shard(count, i)
            else:
                dataset = tfs.TFRecordDataset(made.source, **options, **shuffle, shard=(count, i))
            shard = elements(dataset)
            check_cardinality(dataset, len(shard), known=False)
            hold(all(len(b) <= options["batch_size"] for b in shard)
                 if "batch_size" in options else True, "a batch is too large")  # fmt: skip
            found += flat(shard)
        same_multiset(found, made.records, f"all {count} shards")


def shuffled(draw: Draw, options: dict[str, Any]) -> dict[str, Any]:
    options["shuffle"] = draw.one("shuffle", True, 1, 2, 5)
    options["reshuffle_each_iteration"] = draw.chance("reshuffle", 0.7)
    if draw.chance("seeded", 0.8):
        options["seed"] = draw.number("seed", 0, 9)
    return options


def check_shuffle(draw: Draw, world: World) -> None:
    """The same records, an order that a seed decides, another one in each epoch if asked for."""
    with make_source(draw, world) as made:
        options = shuffled(draw, {**data_options(draw, made), "drop_remainder": False})
        if draw.chance("parallel", 0.15):
            options["num_parallel_reads"] = draw.number("num_parallel_reads", 1, 3)
        dataset = tfs.TFRecordDataset(made.source, **options)
        epochs = [elements(dataset), elements(dataset)]
        for epoch in epochs:
            same_multiset(flat(epoch), made.records, "an epoch")
            same([len(b) for b in epoch if isinstance(b, list)],
                 [len(b) for b in batches(made.records, options) if isinstance(b, list)],
                 "batch sizes")  # fmt: skip
        if "seed" in options:
            again = tfs.TFRecordDataset(made.source, **options)
            same([elements(again), elements(again)], epochs, "the epochs of the same seed")
            if not options["reshuffle_each_iteration"]:
                same(epochs[1], epochs[0], "the second epoch without reshuffling")
        everything = draw.told["block"] == 1 << 20
        if everything and options["reshuffle_each_iteration"] and len(set(made.records)) > 25:
            hold(len(made.files) > 9 or flat(epochs[0]) != flat(epochs[1]),
                 "two epochs are in the same order")  # fmt: skip


def check_checkpoint(draw: Draw, world: World) -> None:
    """A saved iterator, restored into a new dataset, goes on with the very next element."""
    with make_source(draw, world) as made:
        options = data_options(draw, made)
        if draw.chance("shuffled", 0.5):
            options = {**shuffled(draw, options), "seed": draw.number("seed", 0, 9)}
        if draw.chance("shard", 0.2):
            options["shard"] = (2, draw.number("shard index", 0, 1))
        elif draw.chance("parallel", 0.1):
            options["num_parallel_reads"] = 2
        symbolic = "num_parallel_reads" not in options and draw.chance("symbolic", 0.5)
        # TensorFlow's own shuffle forgets later epochs, as docs/tfdata.md says
        forgets = "shuffle" in options and not made.has_blocks
        forgets |= {"num_parallel_reads", "batch_size"} <= set(options)
        repeated = 1 if forgets else draw.one("repeat", 1, 1, 2, 3)
        then = draw.one("then", "", "", "map", "batch", "prefetch", "flat_map")

        def make() -> Any:
            dataset = following(tfs.TFRecordDataset(made.source, **options), then, repeated)
            wish = tf.data.Options()
            wish.experimental_symbolic_checkpoint = symbolic
            return dataset.with_options(wish)

        check_restored(draw, make, len(made.records), late=not forgets)


def following(dataset: Any, then: str, repeated: int) -> Any:
    """Something usual behind the dataset."""
    if then == "flat_map":
        return tf.data.Dataset.range(repeated).flat_map(lambda _: dataset)
    if repeated > 1:
        dataset = dataset.repeat(repeated)
    if then == "map":
        return dataset.map(tf.identity)
    if then == "batch":
        return dataset.ragged_batch(2).map(lambda x: tf.strings.reduce_join(tf.reshape(
            x if isinstance(x, tf.Tensor) else x.to_tensor(), [-1])))  # fmt: skip
    return dataset.prefetch(2) if then == "prefetch" else dataset


def check_restored(draw: Draw, make: Make, records: int, *, late: bool) -> None:
    iterator = iter(make())
    before = draw.tell("before", draw.random.randint(0, records))
    taken = 0
    while taken < before and next(iterator, None) is not None:
        taken += 1
    with saved(iterator) as path:
        rest = [plain(element) for element in iterator]
        for round_ in range(2 if draw.chance("twice", 0.2) else 1):
            again = iter(make())
            if late and draw.chance("restored late", 0.3):
                next(again, None)
            tf.train.Checkpoint(iterator=again).read(path).assert_consumed()
            same([plain(e) for e in again], rest, f"restored behind {taken} ({round_})")


@contextlib.contextmanager
def saved(iterator: Any) -> Any:
    folder = Path(tempfile.mkdtemp(prefix="tfio_store-differential"))
    try:
        yield tf.train.Checkpoint(iterator=iterator).write(str(folder / "checkpoint"))
    finally:
        shutil.rmtree(folder)
