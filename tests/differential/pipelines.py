"""Datasets in datasets, beside those that TensorFlow's own reader makes; workers of all kinds."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops.distribute import _AutoShardDataset

import tfio_store as tfs
from tests.differential.draw import Draw, hold, same, same_multiset
from tests.differential.sources import Made, World, make_source
from tests.differential.tfdata import data_options, elements, flat

# TensorFlow reads these as we do, from local files in one stream.
THEIRS = (None, "GZIP", "ZLIB")


def codec_of(made: Made) -> str:
    return next(iter(made.codecs)) or ""


def check_against_tensorflow(draw: Draw, world: World) -> None:
    """The same pipeline over both readers gives the same elements."""
    with make_source(draw, world, local=True, codecs=THEIRS, names_of_files=True) as made:
        if len(made.codecs) > 1:
            return  # TensorFlow has one compression for all files
        codec, urls = codec_of(made), [file.url for file in made.files]
        how = draw.one("pipeline", "plain", "parallel", "interleave", "flat_map", "map_and_read")
        ours = functools.partial(tfs.TFRecordDataset, compression_type=codec)
        if draw.chance("codec by content", 0.5):
            ours = functools.partial(tfs.TFRecordDataset)
        theirs = functools.partial(tf.data.TFRecordDataset, compression_type=codec)
        settings = {
            "cycle_length": draw.number("cycle_length", 1, 4),
            "block_length": draw.number("block_length", 1, 3),
        }
        got, wanted = (elements(pipeline(how, reader, urls, settings)) for reader in (ours, theirs))
        same(got, wanted, how)


def pipeline(how: str, reader: Any, urls: list[str], settings: dict[str, int]) -> Any:
    names = tf.data.Dataset.from_tensor_slices(urls)
    match how:
        case "parallel":
            return reader(urls, num_parallel_reads=settings["cycle_length"])
        case "interleave":
            return names.interleave(reader, **settings, num_parallel_calls=tf.data.AUTOTUNE)
        case "flat_map":
            return names.flat_map(reader)
        case "map_and_read":
            return names.map(lambda name: tf.strings.join([name, ""])).interleave(reader)
    return reader(urls)


def check_list_files(draw: Draw, world: World) -> None:
    """The names that TensorFlow finds, but in its other order if shuffled."""
    with make_source(draw, world, local=True, codecs=THEIRS, names_of_files=True) as made:
        pattern = made.place.url("[0-9]*")  # TensorFlow would list indexes too
        found = elements(tfs.list_files(pattern, shuffle=False))
        same(found, elements(tf.data.Dataset.list_files(pattern, shuffle=False)), "names")
        mixed = tfs.list_files(pattern, seed=draw.number("seed", 0, 9))
        same_multiset(elements(mixed), found, "shuffled names")
        read = tfs.list_files(pattern, shuffle=False).flat_map(tfs.TFRecordDataset)
        by_name = sorted(made.files, key=lambda file: file.url)
        same(elements(read), [r for file in by_name for r in file.records], "records")


def check_auto_shard(draw: Draw, world: World) -> None:
    """What each worker of a strategy is given: together everything, once."""
    with make_source(draw, world) as made:
        options = {**data_options(draw, made), "drop_remainder": False}
        policies = tf.data.experimental.AutoShardPolicy
        policy = draw.one("policy", policies.AUTO, policies.DATA, policies.OFF)
        workers = draw.number("workers", 1, 3)
        wish = tf.data.Options()
        wish.experimental_distribute.auto_shard_policy = policy
        dataset = tfs.TFRecordDataset(made.source, **options).with_options(wish)
        if policy != policies.OFF and len(elements(dataset)) < workers:
            return  # TensorFlow gives each worker something, or says that there are too few files
        try:
            found = [flat(elements(_AutoShardDataset(dataset, workers, i))) for i in range(workers)]
        except tf.errors.InvalidArgumentError as error:  # TensorFlow's own dataset gets this, too
            hold(len(made.files) < workers, f"{error}")
            hold("not enough for the required" in str(error), f"{error}")
            return
        if policy == policies.OFF:
            same(found, [made.records] * workers, "each worker's records")
        else:
            same_multiset([r for each in found for r in each], made.records, "all workers")


class Service:
    """A dispatcher and two workers in this process."""

    def __init__(self) -> None:
        service = tf.data.experimental.service
        self.dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
        address = self.dispatcher.target.split("://")[1]
        self.workers = [
            service.WorkerServer(service.WorkerConfig(address, heartbeat_interval_ms=100))
            for _ in range(2)
        ]


@functools.cache
def service() -> Service:
    return Service()


def check_service(draw: Draw, world: World) -> None:
    """DYNAMIC: every record once. OFF: once of each worker."""
    with make_source(draw, world) as made:
        options = {**data_options(draw, made), "drop_remainder": False}
        if draw.chance("shuffled", 0.3):
            options |= {"shuffle": 2, "seed": 1}
        if draw.chance("shard", 0.3):
            options["shard"] = (1, 0)
        policies = tf.data.experimental.service.ShardingPolicy
        policy = draw.one("policy", policies.DYNAMIC, policies.DYNAMIC, policies.OFF)
        running = service()
        dataset = tfs.TFRecordDataset(made.source, **options).apply(
            tf.data.experimental.service.distribute(policy, running.dispatcher.target)
        )
        times = len(running.workers) if policy == policies.OFF else 1
        same_multiset(flat(elements(dataset)), made.records * times, f"{policy}")


@functools.cache
def strategy() -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def check_mirrored(draw: Draw, world: World) -> None:
    """Two replicas of one worker share the batches."""
    with make_source(draw, world) as made:
        size = draw.one("batch_size", 2, 4, 10)
        dataset = tfs.TFRecordDataset(made.source, **made.options, batch_size=size)
        mirrored = strategy()
        found: list[bytes] = []
        for batch in mirrored.experimental_distribute_dataset(dataset):
            for part in mirrored.experimental_local_results(batch):
                hold(len(part) <= size, "a replica's part is too large")
                found += part.numpy().tolist()
        same_multiset(found, made.records, "all replicas")
