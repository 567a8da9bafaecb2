"""``make bench-training``: what a training step takes, beside TensorFlow's own pipelines.

Shuffled batches of plain records, and parsed ones of 10 scalars or of a row of tokens; drained by
`Dataset.reduce` in TensorFlow's own code, and by a Python loop. Files lie in memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from bench.timing import machine, medians, table

NATIVE_SHUFFLE = 10_000
SCALARS = 10
SIZES = {"100 B": (100, 5), "1 KiB": (1 << 10, 4), "10 KiB": (10 << 10, 2)}

Work = Callable[[], None]


def reduced(dataset: tf.data.Dataset) -> None:
    dataset.reduce(np.int64(0), lambda count, _: count + 1)


def looped(dataset: tf.data.Dataset) -> None:
    for _ in dataset:
        pass


def write(prefix: str, records: Any) -> list[str]:
    with tfs.ShardedWriter(prefix, num_shards=4) as writer:
        writer.write_batch(records)
    return sorted(str(path) for path in Path(prefix).parent.glob(f"{Path(prefix).name}-*"))


# --- records ----------------------------------------------------------------------------


def plain(size: int, nbytes: int) -> list[bytes]:
    count = nbytes // size
    data = np.random.default_rng(size).bytes(count * size)
    return [data[i * size : (i + 1) * size] for i in range(count)]


def scalars(count: int) -> tuple[Any, dict[str, Any]]:
    half = SCALARS // 2
    values = np.random.default_rng(1)
    columns: dict[str, Any] = {f"i{k}": values.integers(0, 1000, count) for k in range(half)}
    columns |= {f"f{k}": values.random(count).astype(np.float32) for k in range(half)}
    spec = {
        name: tf.io.FixedLenFeature([], tf.int64 if name[0] == "i" else tf.float32)
        for name in columns
    }
    return tfs.encode_examples(columns), spec


def tokens(count: int) -> tuple[Any, dict[str, Any]]:
    values = np.random.default_rng(2)
    splits = np.append(0, np.cumsum(values.integers(50, 201, count)))
    columns = {"tokens": (values.integers(0, 50_000, splits[-1]), splits)}
    spec = {"tokens": tf.io.RaggedFeature(tf.int64)}
    return tfs.encode_examples(columns), spec


# --- pipelines --------------------------------------------------------------------------


def native(files: list[str], batch: int, spec: Any, *, shuffle: bool) -> tf.data.Dataset:
    found = tf.data.TFRecordDataset(files)
    if shuffle:
        found = found.shuffle(NATIVE_SHUFFLE)
    found = found.batch(batch)
    if spec is not None:
        found = found.map(lambda some: tf.io.parse_example(some, spec), tf.data.AUTOTUNE)
        found = found.prefetch(tf.data.AUTOTUNE)
    return found


class Rows:
    """Each a work with a peer; candidates take turns."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.lines: list[list[str]] = []

    def add(self, name: str, records: int, datasets: dict[str, Any], goal: str, drain: Any) -> None:
        candidates = {who: lambda d=made: drain(d) for who, made in datasets.items()}
        seconds = medians(candidates, rounds=self.rounds, round_s=0, between=gc.collect)
        rates = [f"{records / seconds[who] / 1e6:.2f}" for who in ("TensorFlow", "ours")]
        ratio = seconds["TensorFlow"] / seconds["ours"]
        self.lines.append([name, *rates, f"{ratio:.1f}x", goal])
        print(*self.lines[-1], flush=True)


def measure(folder: str, nbytes: int, rounds: int) -> list[list[str]]:
    rows = Rows(rounds)
    for name, (size, times) in SIZES.items():
        prefix = f"{folder}/plain{size}"
        records = plain(size, nbytes)
        files = write(prefix, records)
        datasets = {
            "TensorFlow": native(files, 256, None, shuffle=True),
            "ours": tfs.TFRecordDataset(prefix, batch_size=256, shuffle=True),
        }
        rows.add(f"shuffled, 256 of {name}", len(records), datasets, f"{times}x", reduced)
        for file in files:
            os.unlink(file)
    for what, make, per in (("10 scalars", scalars, 170), ("tokens", tokens, 300)):
        count = nbytes // per
        records, spec = make(count)
        prefix = f"{folder}/{make.__name__}"
        files = write(prefix, records)
        for shuffle in (False, True):
            for batch, drain in ((1024, reduced), (256, reduced), (1024, looped), (256, looped)):
                datasets = {
                    "TensorFlow": native(files, batch, spec, shuffle=shuffle),
                    "ours": tfs.TFRecordDataset(
                        prefix, batch_size=batch, schema=spec, shuffle=shuffle
                    ),
                }
                how = "shuffled, parsed" if shuffle else "parsed"
                by = "reduce" if drain is reduced else "loop"
                goals = {("10 scalars", False): "7x", ("10 scalars", True): "10x"}
                wanted = goals.get((str(what), shuffle), "4x" if shuffle else "")
                goal = wanted if (batch, by) == (1024, "reduce") else ""
                rows.add(f"{how}, {batch} of {what}, {by}", count, datasets, goal, drain)
    return rows.lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="data per row")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        lines = measure(folder, given.mib << 20, given.rounds)
    head = ["work", "TensorFlow, M rows/s", "ours", "times", "goal"]
    print(machine(), "load", *os.getloadavg())
    print(table(f"Training batches beside TensorFlow {tf.__version__}'s own", head, lines))


if __name__ == "__main__":
    main()
