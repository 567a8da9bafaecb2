"""``make bench-training``: what a training step takes, beside TensorFlow's own pipelines.

Batches of plain records, shuffled or of foreign GZIP files, and parsed ones of 10 scalars, of a
row of tokens or of feature lists; drained by `Dataset.reduce` in TensorFlow's own code, and by a
Python loop. Files lie in memory.

TensorFlow's autotuning is off in all pipelines. It makes the peers slower here, and at the end of
an iterator it may sleep for as long as the iterator lived.

The limit of a loop is the same loop over one batch of the same shapes, handed out again and again.
The memory of a row is taken in a process of its own: the peak of what is resident while ours runs,
above what is resident before it is made.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import tfio_store as tfs
from bench.timing import machine, medians, table
from tfio_store.dataset.model import MEMORY_BUDGET

NATIVE_SHUFFLE = 10_000
SCALARS = 10
SIZES = {"100 B": (100, 5), "1 KiB": (1 << 10, 4), "10 KiB": (10 << 10, 2)}


def reduced(dataset: tf.data.Dataset) -> None:
    dataset.reduce(np.int64(0), lambda count, _: count + 1)


def looped(dataset: tf.data.Dataset) -> None:
    for _ in dataset:
        pass


DRAINS: dict[str, Callable[[tf.data.Dataset], None]] = {"reduce": reduced, "loop": looped}


def write(prefix: str, records: Any) -> list[str]:
    with tfs.ShardedWriter(prefix, num_shards=4) as writer:
        writer.write_batch(records)
    return sorted(str(path) for path in Path(prefix).parent.glob(f"{Path(prefix).name}-*"))


# --- records ----------------------------------------------------------------------------


def plain(size: int, nbytes: int) -> list[bytes]:
    count = nbytes // size
    data = np.random.default_rng(size).bytes(count * size)
    return [data[i * size : (i + 1) * size] for i in range(count)]


def texts(size: int, nbytes: int) -> list[bytes]:
    """Records of words, a few of which are frequent: they compress to about a third."""
    values = np.random.default_rng(size)
    letters = np.frombuffer(b"eeeeettttaaaooiinnsshhrrdlucmfwypvbgk", np.uint8)
    known = [values.choice(letters, n).tobytes() for n in values.integers(2, 10, 5000)]
    picked = np.minimum(values.zipf(1.3, nbytes // 4), len(known)) - 1
    text = b" ".join([known[i] for i in picked.tolist()])
    return [text[i * size : (i + 1) * size] for i in range(nbytes // size)]


def scalars(count: int) -> Any:
    values = np.random.default_rng(1)
    half = SCALARS // 2
    columns: dict[str, Any] = {f"i{k}": values.integers(0, 1000, count) for k in range(half)}
    columns |= {f"f{k}": values.random(count).astype(np.float32) for k in range(half)}
    return tfs.encode_examples(columns)


def tokens(count: int) -> Any:
    values = np.random.default_rng(2)
    splits = np.append(0, np.cumsum(values.integers(50, 201, count)))
    return tfs.encode_examples({"tokens": (values.integers(0, 50_000, splits[-1]), splits)})


def sequences(count: int) -> list[bytes]:
    """SequenceExamples of a number, 10 to 29 tokens, and 4 steps of 8 floats."""
    values = np.random.default_rng(3)
    lengths = values.integers(10, 30, count)
    return [
        tfs.encode_sequence_example(
            {"id": i},
            {
                "tokens": values.integers(0, 50_000, length).tolist(),
                "frames": list(values.random((4, 8)).astype(np.float32)),
            },
        )
        for i, length in enumerate(lengths)
    ]


SEQUENCES = tfs.Schema(
    {
        "id": "int64",
        "tokens": tfs.Feature("int64", (None,), sequence=True),
        "frames": tfs.Feature("float32", (None, 8), sequence=True),
    }
)

SPECS: dict[str, dict[str, Any]] = {
    "10 scalars": {
        **{f"i{k}": tf.io.FixedLenFeature([], tf.int64) for k in range(SCALARS // 2)},
        **{f"f{k}": tf.io.FixedLenFeature([], tf.float32) for k in range(SCALARS // 2)},
    },
    "tokens": {"tokens": tf.io.RaggedFeature(tf.int64)},
}


def write_gzip(path: str, records: Any) -> list[str]:
    """One stream, as other tools write it."""
    with tfs.TFRecordWriter(f"{path}.raw") as writer:
        writer.write_batch(records)
    data = Path(f"{path}.raw").read_bytes()
    os.unlink(f"{path}.raw")
    Path(path).write_bytes(gzip.compress(data, 1))
    return [path]


# --- pipelines --------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What one row measures."""

    files: list[str]
    source: str | list[str]
    what: str
    batch: int
    drain: str = "reduce"
    shuffle: bool = False
    codec: str = ""
    goal: str = ""

    @property
    def spec(self) -> Any:
        return SEQUENCES if self.what == "sequences" else SPECS.get(self.what)

    def parse(self, some: tf.Tensor) -> Any:
        if self.what != "sequences":
            return tf.io.parse_example(some, self.spec)
        return tf.io.parse_sequence_example(some, *SEQUENCES.sequence_spec())[:2]

    @property
    def name(self) -> str:
        how = [self.codec] * bool(self.codec) + ["shuffled"] * self.shuffle
        how += ["parsed"] * (self.spec is not None)
        return f"{', '.join(how)}, {self.batch} of {self.what}, {self.drain}"

    def native(self) -> tf.data.Dataset:
        found = tf.data.TFRecordDataset(self.files, self.codec)
        if self.shuffle:
            found = found.shuffle(NATIVE_SHUFFLE)
        found = found.batch(self.batch)
        if self.spec is not None:
            found = found.map(self.parse, tf.data.AUTOTUNE)
            found = found.prefetch(tf.data.AUTOTUNE)
        return found

    def ours(self) -> tf.data.Dataset:
        return tfs.TFRecordDataset(
            self.source, batch_size=self.batch, schema=self.spec, shuffle=self.shuffle
        )

    def limit(self, records: int) -> tf.data.Dataset:
        batch = next(iter(self.ours()))
        return tf.data.Dataset.from_tensors(batch).repeat(-(-records // self.batch))


# --- measuring --------------------------------------------------------------------------


def resident(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) << 10


def peak(work: Work) -> None:
    """In a process of its own."""
    before = resident("VmRSS")
    DRAINS[work.drain](work.ours())
    print(resident("VmHWM") - before)


def peak_mib(work: Work) -> str:
    command = [sys.executable, "-m", "bench.training", "--peak", json.dumps(asdict(work))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return f"{int(done.stdout.split()[-1]) >> 20}"


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def measure(work: Work, records: int, rounds: int) -> list[str]:
    """A line of the table: candidates take turns."""
    datasets = {"TensorFlow": untuned(work.native()), "ours": untuned(work.ours())}
    if work.drain == "loop":
        datasets["limit"] = untuned(work.limit(records))
    drain = DRAINS[work.drain]
    candidates = {who: lambda d=made: drain(d) for who, made in datasets.items()}
    seconds = medians(candidates, rounds=rounds, round_s=0, between=gc.collect)
    rates = [f"{records / seconds[who] / 1e6:.2f}" for who in ("TensorFlow", "ours")]
    ratio = f"{seconds['TensorFlow'] / seconds['ours']:.1f}x"
    share = f"{seconds['limit'] / seconds['ours']:.2f}" if "limit" in seconds else ""
    line = [work.name, *rates, ratio, work.goal, share, peak_mib(work)]
    print(*line, flush=True)
    return line


def measure_all(folder: str, nbytes: int, rounds: int) -> list[list[str]]:
    lines: list[list[str]] = []

    def add(works: list[Work], records: int) -> None:
        lines.extend(measure(work, records, rounds) for work in works)
        for file in works[0].files:
            os.unlink(file)

    for name, (size, times) in SIZES.items():
        prefix, records = f"{folder}/plain{size}", plain(size, nbytes)
        files = write(prefix, records)
        add([Work(files, prefix, name, 256, shuffle=True, goal=f"{times}x")], len(records))
    for name, size in (("100 B", 100), ("1 KiB", 1000)):
        records = texts(size, nbytes)
        files = write_gzip(f"{folder}/gzip{size}", records)
        add([Work(files, files, name, 256, codec="GZIP", goal="3x")], len(records))
    for what, make, per in (("10 scalars", scalars, 170), ("tokens", tokens, 300)):
        count = nbytes // per
        data, prefix = make(count), f"{folder}/{make.__name__}"
        files = write_gzip(f"{folder}/gzip", data)
        add([Work(files, files, what, 1024, codec="GZIP")], count)
        files = write(prefix, data)
        goals = {("10 scalars", False): "7x", ("10 scalars", True): "10x", ("tokens", True): "4x"}
        works = [
            Work(files, prefix, what, batch, drain, shuffle, goal=goal)
            for shuffle in (False, True)
            for batch, drain, goal in (
                (1024, "reduce", goals.get((what, shuffle), "")),
                (256, "reduce", ""),
                (1024, "loop", ""),
                (256, "loop", "0.8 of the limit"),
            )
        ]
        add(works, count)
    count, prefix = nbytes // 500, f"{folder}/sequences"
    files = write(prefix, sequences(count))
    works = [Work(files, prefix, "sequences", 1024, shuffle=shuffle) for shuffle in (False, True)]
    add(works, count)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="data per row")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        peak(Work(**json.loads(given.peak)))
        return
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        lines = measure_all(folder, given.mib << 20, given.rounds)
    head = ["work", "TensorFlow, M rows/s", "ours", "times", "goal", "of the limit", "memory, MiB"]
    print(machine(), "load", *os.getloadavg(), f"memory_budget {MEMORY_BUDGET >> 20} MiB")
    print(table(f"Training batches beside TensorFlow {tf.__version__}'s own", head, lines))


if __name__ == "__main__":
    main()
