"""``make bench-tables``: Arrow tables to datasets and back, beside Parquet and a loop of protobufs.

10 columns (4 of int64, 4 of float32, 2 of short strings) with a null in every tenth cell. The parts
of the table are made anew for each writer, and what is read is dropped, so that nothing holds the
whole. All files are uncompressed and lie in memory. The protobufs are written and parsed by
TensorFlow's Python classes, for the first rows only.

The memory of a way is taken in a process of its own: the peak of what is resident while it runs,
above what is resident before, of which one part of the table is 70 MiB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tfio_store as tfs
from bench.timing import machine, medians, table

PART_ROWS = 500_000
LOOP_ROWS = 10_000
WORDS = pa.array([f"word-{i:05d}" for i in range(1000)])


def part(seed: int, rows: int = PART_ROWS) -> pa.Table:
    values = np.random.default_rng(seed)

    def nulls() -> np.ndarray:
        return values.random(rows) < 0.1

    columns = {f"i{k}": pa.array(values.integers(0, 1 << 40, rows), mask=nulls()) for k in range(4)}
    for k in range(4):
        columns[f"f{k}"] = pa.array(values.random(rows, np.float32), mask=nulls())
    for k in range(2):
        picked = pa.array(values.integers(0, len(WORDS), rows), mask=nulls())
        columns[f"s{k}"] = WORDS.take(picked)
    return pa.table(columns)


def parts(rows: int) -> Iterator[pa.Table]:
    for seed, at in enumerate(range(0, rows, PART_ROWS)):
        yield part(seed, min(PART_ROWS, rows - at))


class Ways:
    """The ways to write ``rows`` rows to ``folder`` and to read them back."""

    def __init__(self, folder: str, rows: int) -> None:
        self._folder, self._rows = folder, rows

    def make(self) -> None:
        for _ in parts(self._rows):
            pass

    def write(self) -> None:
        tfs.write_table(parts(self._rows), f"{self._folder}/ours", if_exists="overwrite")

    def read(self) -> None:
        found = sum(batch.num_rows for batch in tfs.iter_tables(f"{self._folder}/ours"))
        assert found == self._rows

    def write_parquet(self) -> None:
        made = parts(self._rows)
        first = next(made)
        where = f"{self._folder}/parquet"
        with pq.ParquetWriter(where, first.schema, compression="none") as writer:
            writer.write_table(first)
            for each in made:
                writer.write_table(each)

    def read_parquet(self) -> None:
        file = pq.ParquetFile(f"{self._folder}/parquet")
        assert sum(batch.num_rows for batch in file.iter_batches()) == self._rows

    def write_loop(self) -> None:
        import tensorflow as tf

        with tf.io.TFRecordWriter(f"{self._folder}/loop") as writer:
            for row in part(0, LOOP_ROWS).to_pylist():
                writer.write(serialized(row))

    def read_loop(self) -> None:
        import tensorflow as tf

        rows = []
        for record in tf.data.TFRecordDataset(f"{self._folder}/loop").as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            rows.append({name: value_of(feature[name]) for name in feature})
        assert len(pa.Table.from_pylist(rows)) == LOOP_ROWS


def serialized(row: dict[str, object]) -> bytes:
    import tensorflow as tf

    features = {}
    for name, value in row.items():
        if isinstance(value, int):
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        elif isinstance(value, float):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        elif isinstance(value, str):
            text = tf.train.BytesList(value=[value.encode()])
            features[name] = tf.train.Feature(bytes_list=text)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def value_of(feature: object) -> object:
    kind = feature.WhichOneof("kind")  # type: ignore[attr-defined]
    (value,) = getattr(feature, kind).value
    return value


def resident(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) >> 10


def peak_mib(folder: str, way: str, rows: int) -> str:
    command = [sys.executable, "-m", "bench.tables", "--peak", folder, way, "--rows", str(rows)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measure(folder: str, rows: int, rounds: int) -> list[list[str]]:
    ways = Ways(folder, rows)
    start = time.perf_counter()
    ways.make()  # which is part of what a writer takes, and of no interest
    making = time.perf_counter() - start
    lines = []
    for verb in ("write", "read"):
        candidates: dict[str, Callable[[], object]] = {
            "ours": getattr(ways, verb),
            "Parquet": getattr(ways, f"{verb}_parquet"),
            "loop": getattr(ways, f"{verb}_loop"),
        }
        seconds = medians(candidates, rounds=rounds, round_s=0)
        spent = making if verb == "write" else 0
        speeds = {who: rows / (taken - spent) / 1e6 for who, taken in seconds.items()}
        speeds["loop"] = LOOP_ROWS / seconds["loop"] / 1e6
        lines.append(
            [
                verb,
                *(f"{speed:.2f}" for speed in speeds.values()),
                f"{speeds['Parquet'] / speeds['ours']:.1f}x",
                f"{speeds['ours'] / speeds['loop']:.0f}x",
                *(peak_mib(folder, way, rows) for way in (verb, f"{verb}_parquet")),
            ]
        )
        print(*lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        folder, way = given.peak
        before = resident("VmRSS")
        getattr(Ways(folder, given.rows), way)()
        print(resident("VmHWM") - before)
        return
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    folder = tempfile.mkdtemp(dir=memory)
    try:
        lines = measure(folder, given.rows, given.rounds)
    finally:
        shutil.rmtree(folder)
    head = ["", "ours, M rows/s", "Parquet", "loop", "Parquet : ours", "ours : loop"]
    head += ["ours, peak MiB", "Parquet, peak MiB"]
    print(machine(), "load", *os.getloadavg())
    print(table(f"{given.rows / 1e6:g} M rows of 10 columns, a tenth null", head, lines))


if __name__ == "__main__":
    main()
