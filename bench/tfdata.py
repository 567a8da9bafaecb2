"""``make bench-tfdata``: `TFRecordDataset` beside TensorFlow's own, from files in memory.

Both to batches of 256 (shuffled beside shuffled), which nobody looks at: ``skip`` runs a pipeline
to its end in TensorFlow's own code, so that no Python loop is measured. Making the dataset (finding
its blocks) is part of the time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from bench.timing import medians, table

BATCH = 256
SIZES = {"100 B": 100, "1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10}
SIZES["1 MiB"] = 1 << 20
GOALS = {"100 B": 6, "1 KiB": 2.5, "10 KiB": 1.3, "100 KiB": 1.1, "1 MiB": 1.1}
SHARDS = 4
NATIVE_SHUFFLE = 10_000  # records; ours mixes 16 blocks of a MiB, and their order


finished: list[Any] = []
"""Iterators. TensorFlow's tuning thread may sleep through the end of one, so that to drop it takes
up to half a second, of either kind: they are dropped between the rounds."""


def drain(dataset: tf.data.Dataset) -> None:
    iterator = iter(dataset.skip(1_000_000_000))
    finished.append(iterator)
    for _ in iterator:
        raise AssertionError("it has no end")


def write(folder: str, name: str, records: list[bytes], codec: str | None = None) -> list[str]:
    with tfs.ShardedWriter(f"{folder}/{name}", num_shards=SHARDS, compression=codec) as writer:
        writer.write_batch(records)
    return sorted(str(path) for path in Path(folder).glob(f"{name}-*"))


def random_records(size: int, nbytes: int) -> list[bytes]:
    count = max(SHARDS, nbytes // (size + 16))
    data = np.random.default_rng(size).bytes(count * size)
    return [data[i * size : (i + 1) * size] for i in range(count)]


def examples(count: int) -> list[bytes]:
    def example(i: int) -> bytes:
        feature = {
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
            "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 7])),
            "vector": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5] * 16)),
            "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%d" % i])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    return [example(i) for i in range(count)]


SPEC = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "weight": tf.io.FixedLenFeature([], tf.float32),
    "vector": tf.io.FixedLenFeature([16], tf.float32),
    "name": tf.io.FixedLenFeature([], tf.string),
}


def ways(files: list[str], prefix: str, codec: str = "") -> dict[str, Callable[[], Any]]:
    return {
        "native": lambda: drain(tf.data.TFRecordDataset(files, codec).batch(BATCH)),
        "native, shuffled": lambda: drain(
            tf.data.TFRecordDataset(files, codec).shuffle(NATIVE_SHUFFLE).batch(BATCH)
        ),
        "ours": lambda: drain(tfs.TFRecordDataset(files, batch_size=BATCH)),
        "ours, by manifest": lambda: drain(tfs.TFRecordDataset(prefix, batch_size=BATCH)),
        "ours, .batch": lambda: drain(tfs.TFRecordDataset(prefix).batch(BATCH)),
        "ours, shuffled": lambda: drain(
            tfs.TFRecordDataset(prefix, batch_size=BATCH, shuffle=True)
        ),
    }


def row(name: str, seconds: dict[str, float], nbytes: int, goal: float) -> list[str]:
    native = seconds["native"]

    def ratio(who: str, taken: float) -> str:
        peer = seconds["native, shuffled"] if who == "ours, shuffled" else native
        return f"{peer / taken:.2f}x"

    ratios = [ratio(who, taken) for who, taken in seconds.items() if who.startswith("ours")]
    return [name, f"{nbytes / native / 1e6:.0f}", *ratios, f"{goal:g}x"]


def parsing(files: list[str], prefix: str) -> dict[str, Callable[[], Any]]:
    """As `ways`, to parsed batches."""

    def native(records: tf.data.Dataset) -> None:
        batches = records.batch(BATCH)
        drain(batches.map(lambda batch: tf.io.parse_example(batch, SPEC), tf.data.AUTOTUNE))

    def ours(source: Any, **options: Any) -> Callable[[], None]:
        return lambda: drain(tfs.TFRecordDataset(source, schema=SPEC, **options))

    return {
        "native": lambda: native(tf.data.TFRecordDataset(files)),
        "native, shuffled": lambda: native(tf.data.TFRecordDataset(files).shuffle(NATIVE_SHUFFLE)),
        "ours": ours(files, batch_size=BATCH),
        "ours, by manifest": ours(prefix, batch_size=BATCH),
        "ours, .batch": lambda: drain(tfs.TFRecordDataset(prefix, schema=SPEC).batch(BATCH)),
        "ours, shuffled": ours(prefix, batch_size=BATCH, shuffle=True),
    }


def measure(folder: str, nbytes: int, rounds: int) -> Iterator[list[str]]:
    """The rows of the table."""

    def seconds(candidates: dict[str, Callable[[], Any]]) -> dict[str, float]:
        return medians(candidates, rounds=rounds, round_s=0, between=finished.clear)

    for name, size in SIZES.items():
        prefix = f"{folder}/r{size}"
        files = write(folder, f"r{size}", random_records(size, min(nbytes, size << 20)))
        stored = sum(map(os.path.getsize, files))
        yield row(name, seconds(ways(files, prefix)), stored, GOALS[name])
        for file in files:
            os.unlink(file)
    records = examples(100_000)
    records *= max(1, nbytes // 2 // sum(map(len, records)))
    total = sum(map(len, records))
    files = write(folder, "gzip", records, "GZIP")
    yield row("GZIP, Examples", seconds(ways(files, f"{folder}/gzip", "GZIP")), total, 3)
    files = write(folder, "raw", records)
    yield row("parsed, 4 features", seconds(parsing(files, f"{folder}/raw")), total, 1.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="data per row")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        rows = list(measure(folder, given.mib << 20, given.rounds))
    head = ["records", "native MB/s", "batch_size=", "manifest", ".batch()", "shuffled", "goal"]
    title = f"To batches of {BATCH}, times TensorFlow {tf.__version__}'s own speed"
    print(table(title, head, rows))


if __name__ == "__main__":
    main()
