"""``make bench-dropin``: pipelines as people write them, with TensorFlow's class, with ours in its
place, and unchanged under `tfio_store.accelerate`.

Each makes its dataset and runs it to its end in TensorFlow's own code. Files lie in memory, or in a
bucket behind 30 ms, which TensorFlow's class reads through `tfio_store.register_filesystem`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from bench.fast_store import KEY, SECRET, fast_store
from bench.tfdata import drain, finished, write
from bench.timing import machine, medians, table

SIZES = {"100 B": 100, "1 kB": 1000, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
JPEGS, TFDS = "320 x 320 JPEG", "TFDS"
KINDS = [*SIZES, "100 B, GZIP", JPEGS, TFDS]
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


def examples(size: int, nbytes: int) -> list[bytes]:
    count = max(8, nbytes // size)
    payload = np.random.default_rng(size).bytes(max(1, size - 40))
    return [bytes(tfs.encode_example({"data": payload, "label": i})) for i in range(count)]


def single(record: tf.Tensor) -> Any:
    found = tf.io.parse_single_example(record, SPEC)
    return found["data"], tf.cast(found["label"], tf.int32)


def whole(records: tf.Tensor) -> Any:
    return tf.io.parse_example(records, SPEC)


def interleaved(files: list[str], reader: Any) -> tf.data.Dataset:
    names = tf.data.Dataset.from_tensor_slices(files)
    return names.interleave(reader, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)


def listed(files: list[str], read: Any) -> tf.data.Dataset:
    module = tfs if read is tfs.TFRecordDataset else tf.data.Dataset
    return module.list_files(files)


def pipelines(batch: int) -> dict[str, Callable[[list[str], Any], tf.data.Dataset]]:
    return {
        ".batch": lambda files, read: read(files).batch(batch),
        ".map(single).batch": lambda files, read: read(files).map(single).batch(batch),
        ".shuffle.map(single).batch": lambda files, read: (
            read(files).shuffle(SHUFFLE).map(single).batch(batch)
        ),
        ".shuffle.batch.map(parse_example)": lambda files, read: (
            read(files).shuffle(SHUFFLE).batch(batch).map(whole)
        ),
        "interleave.shuffle.batch.map(parse_example)": lambda files, read: (
            interleaved(files, read).shuffle(SHUFFLE).batch(batch).map(whole)
        ),
        "list_files.interleave.shuffle.batch.map(parse_example)": lambda files, read: (
            listed(files, read)
            .interleave(read, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(SHUFFLE)
            .batch(batch)
            .map(whole)
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


JPEG = {
    "interleave.shuffle.map(decode, resize).batch": lambda files, read: (
        interleaved(files, read).shuffle(1000).map(picture, tf.data.AUTOTUNE).batch(32)
    ),
    ".shuffle.map(decode, resize).batch": lambda files, read: (
        read(files).shuffle(1000).map(picture, tf.data.AUTOTUNE).batch(32)
    ),
}


def picture(record: tf.Tensor) -> Any:
    found = tf.io.parse_single_example(record, SPEC)
    pixels = tf.io.decode_jpeg(found["data"], channels=3)
    return tf.image.resize(pixels, [128, 128]), found["label"]


def jpegs(count: int) -> list[bytes]:
    dice = np.random.default_rng(1)
    pixels = np.kron(dice.integers(0, 255, (8, 20, 20, 3), np.uint8), np.ones((1, 16, 16, 1)))
    made = [tf.io.encode_jpeg(each.astype(np.uint8)).numpy() for each in pixels]
    return [bytes(tfs.encode_example({"data": made[i % 8], "label": i})) for i in range(count)]


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


def ways(files: list[str], codec: str, make: Any) -> dict[str, Callable[[], Any]]:
    def native(names: Any, **more: Any) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(names, codec, **more)

    def accelerated() -> None:
        with tfs.accelerate():
            dataset = make(files, native)
        drain(dataset)

    return {
        "TensorFlow": lambda: drain(make(files, native)),
        "ours": lambda: drain(make(files, tfs.TFRecordDataset)),
        "accelerate()": accelerated,
    }


def make_files(folder: str, name: str, kind: str, nbytes: int) -> tuple[list[str], str]:
    """The files of a kind, and their codec."""
    size, _, codec = kind.partition(", ")
    if kind == TFDS:
        return rows_of_tfds(folder, name, nbytes), ""
    records = jpegs(max(64, nbytes >> 15)) if kind == JPEGS else examples(SIZES[size], nbytes)
    return write(folder, name, records, codec or None), codec


def pipelines_of(kind: str) -> Mapping[str, Callable[[list[str], Any], tf.data.Dataset]]:
    if kind == JPEGS:
        return JPEG
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
) -> Iterator[list[str]]:
    for number, kind in enumerate(kinds):
        size = nbytes * (1 if kind.startswith("100 B") or kind == TFDS else FEWER)
        files, codec = make_files(f"{folder}/bucket", f"{place}{number}", kind, size)
        names = [f"s3://{file[len(folder) + 1 :]}" for file in files] if place == "S3" else files
        for pipeline, make in pipelines_of(kind).items():
            if only not in pipeline:
                continue
            seconds = medians(
                ways(names, codec, make), rounds=rounds, round_s=0, between=finished.clear
            )
            native = seconds["TensorFlow"]
            ratios = [f"{native / seconds[who]:.2f}x" for who in ("ours", "accelerate()")]
            if kind == TFDS:
                ratios[0] = ""
            yield [place, kind, pipeline, f"{native:.2f}", *ratios]
        for file in files:
            os.unlink(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="data of a row of 100 B")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--places", nargs="*", default=PLACES, choices=PLACES)
    parser.add_argument("--only", default="", help="a part of the pipelines' names")
    given = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    rows = []
    with tempfile.TemporaryDirectory(dir=memory) as folder, bucket(folder):
        os.mkdir(f"{folder}/bucket")
        for place in given.places:
            how = given.rounds, given.sizes, place, given.only
            for row in measure(folder, given.mib << 20, *how):
                print(*row, flush=True)
                rows.append(row)
    head = ["", "records", "pipeline", "TensorFlow, s", "ours", "accelerate()"]
    print(table(f"Unchanged pipelines, {machine()}", head, rows))


if __name__ == "__main__":
    main()
