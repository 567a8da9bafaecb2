"""``make bench-dropin``: pipelines as people write them, with TensorFlow's class, with ours in its
place, and unchanged under `tfio_store.accelerate`.

Each makes its dataset and runs it to its end in TensorFlow's own code. Files lie in memory, or in a
bucket behind 30 ms, which TensorFlow's class reads through `tfio_store.register_filesystem`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from bench.fast_store import KEY, SECRET, fast_store
from bench.timing import machine, medians, scratch, table

SIZES = {"100 B": 100, "1 kB": 1000, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
TFDS = "TFDS"
KINDS = [*SIZES, TFDS]
PLACES = ("local", "S3")
WAIT_MS = 30
FEWER = 4
"""Rows of larger records have so many times the bytes: else most of their time is the making of
the dataset."""
SHUFFLE = 10_000
SPEC = {
    "data": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


finished: list[Any] = []
"""Iterators. TensorFlow's tuning thread may sleep through the end of one, so that to drop it takes
up to half a second, of either kind: they are dropped between the rounds."""


def drain(dataset: tf.data.Dataset) -> None:
    """Run it to its end in TensorFlow's own code."""
    finished.append(iter(dataset.skip(1_000_000_000)))
    for _ in finished[-1]:
        raise AssertionError("it has no end")


def examples(size: int, nbytes: int) -> list[bytes]:
    count = max(8, nbytes // size)
    payload = np.random.default_rng(size).bytes(max(1, size - 40))
    return [bytes(tfs.encode_example({"data": payload, "label": i})) for i in range(count)]


def single(record: tf.Tensor) -> Any:
    found = tf.io.parse_single_example(record, SPEC)
    return found["data"], tf.cast(found["label"], tf.int32)


def whole(records: tf.Tensor) -> Any:
    return tf.io.parse_example(records, SPEC)


def interleaved(names: tf.data.Dataset, read: Any) -> tf.data.Dataset:
    return names.interleave(read, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)


def listed(files: list[str], read: Any) -> tf.data.Dataset:
    return (tfs if read is tfs.TFRecordDataset else tf.data.Dataset).list_files(files)


def pipelines(batch: int) -> dict[str, Callable[[list[str], Any], tf.data.Dataset]]:
    def parsed(records: tf.data.Dataset) -> tf.data.Dataset:
        return records.shuffle(SHUFFLE).batch(batch).map(whole)

    return {
        ".batch": lambda files, read: read(files).batch(batch),
        ".map(single).batch": lambda files, read: read(files).map(single).batch(batch),
        ".shuffle.map(single).batch": lambda files, read: (
            read(files).shuffle(SHUFFLE).map(single).batch(batch)
        ),
        ".shuffle.batch.map(parse_example)": lambda files, read: parsed(read(files)),
        "interleave.shuffle.batch.map(parse_example)": lambda files, read: parsed(
            interleaved(tf.data.Dataset.from_tensor_slices(files), read)
        ),
        "list_files.interleave.shuffle.batch.map(parse_example)": lambda files, read: parsed(
            interleaved(listed(files, read), read)
        ),
        "make_batched_features_dataset": lambda files, read: (
            tf.data.experimental.make_batched_features_dataset(
                files, batch, SPEC, reader=read, num_epochs=1, shuffle_buffer_size=SHUFFLE
            )
        ),
        "num_parallel_reads=4, .batch": lambda files, read: read(files, num_parallel_reads=4).batch(
            batch
        ),
    }


def split_of_tfds(files: list[str], read: Any) -> tf.data.Dataset:
    """TensorFlow Datasets has the class of its reader to itself."""
    import tensorflow_datasets as tfds

    del read
    builder = tfds.builder_from_directory(files[0].rpartition("/")[0])
    return builder.as_dataset(split="train", shuffle_files=True).batch(256)


def rows_of_tfds(folder: str, name: str, nbytes: int) -> list[str]:
    values = np.random.default_rng(1).random(10, dtype=np.float32)
    rows = ({"x": values, "label": i} for i in range(nbytes // 100))
    features = {"x": ("float32", (10,)), "label": ("int64", ())}
    tfs.write_tfds(f"{folder}/{name}/1.0.0", rows, features, num_shards=4)
    return sorted(str(path) for path in Path(f"{folder}/{name}/1.0.0").glob("*tfrecord*"))


OF_TFDS = {"as_dataset(shuffle_files=True).batch": split_of_tfds}


def ways(files: list[str], make: Any) -> dict[str, Callable[[], Any]]:
    def accelerated() -> None:
        with tfs.accelerate():
            dataset = make(files, tf.data.TFRecordDataset)
        drain(dataset)

    return {
        "TensorFlow": lambda: drain(make(files, tf.data.TFRecordDataset)),
        "ours": lambda: drain(make(files, tfs.TFRecordDataset)),
        "accelerate()": accelerated,
    }


def make_files(folder: str, name: str, kind: str, nbytes: int) -> list[str]:
    if kind == TFDS:
        return rows_of_tfds(folder, name, nbytes)
    with tfs.ShardedWriter(f"{folder}/{name}", num_shards=4) as writer:
        writer.write_batch(examples(SIZES[kind], nbytes))
    return sorted(str(path) for path in Path(folder).glob(f"{name}-*"))


def pipelines_of(kind: str) -> Mapping[str, Callable[[list[str], Any], tf.data.Dataset]]:
    if kind == TFDS:
        return OF_TFDS
    return pipelines(32 if kind == "1 MB" else 256)


@contextlib.contextmanager
def bucket(folder: str) -> Iterator[None]:
    """``FOLDER/bucket`` as s3://bucket, for TensorFlow too, while the block runs."""
    with fast_store(folder, wait_ms=WAIT_MS) as url:
        os.environ.update(
            AWS_ENDPOINT_URL=url,
            AWS_ACCESS_KEY_ID=KEY,
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_DEFAULT_REGION="us-east-1",
        )
        # so little that no run finds the files of the one before it
        tfs.register_filesystem("s3", cache_bytes=16 << 20)
        yield


def measure(
    folder: str, nbytes: int, rounds: int, kinds: list[str], place: str, only: str
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Kind, pipeline, and the seconds of each way."""
    for number, kind in enumerate(kinds):
        size = nbytes * (1 if kind.startswith("100 B") or kind == TFDS else FEWER)
        files = make_files(f"{folder}/bucket", f"{place}{number}", kind, size)
        names = [f"s3://{file[len(folder) + 1 :]}" for file in files] if place == "S3" else files
        for pipeline, make in pipelines_of(kind).items():
            if only in pipeline:
                runs = ways(names, make)
                seconds = medians(runs, rounds=rounds, between=finished.clear)
                print(place, kind, pipeline, seconds, flush=True)
                yield kind, pipeline, seconds
        for file in files:
            os.unlink(file)


def tables(place: str, kinds: list[str], found: list[tuple[str, str, dict[str, float]]]) -> str:
    """Two: how many times TensorFlow's speed the code has unchanged, and with our class."""
    names = {"accelerate()": "the code unchanged", "ours": "our class in its place"}
    told = []
    for way, title in names.items():
        cells = {(kind, name): f"{s['TensorFlow'] / s[way]:.1f}x" for kind, name, s in found}
        pipelines = dict.fromkeys(name for _, name, _ in found)
        rows = [[f"`{name}`", *(cells.get((k, name), "") for k in kinds)] for name in pipelines]
        told.append(table(f"{title}: times TensorFlow", [f"pipeline, {place}", *kinds], rows))
    return "\n".join(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="data of a row of 100 B")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--places", nargs="*", default=PLACES, choices=PLACES)
    parser.add_argument("--only", default="", help="a part of the pipelines' names")
    given = parser.parse_args()
    with scratch() as folder, bucket(folder):
        os.mkdir(f"{folder}/bucket")
        for place in given.places:
            how = given.rounds, given.sizes, place, given.only
            found = list(measure(folder, given.mib << 20, *how))
            print(machine(), "", tables(place, given.sizes, found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
