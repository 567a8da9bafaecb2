"""``make bench-count``: ``tfs.count`` and ``tfio-store count`` of raw local files that were written
elsewhere, beside a loop over TensorFlow's own dataset of the same files.

The records are random bytes of 1 to 3 KiB. TensorFlow wrote the files, so nothing tells their
number but the headers. The command is a process of its own, and its start is part of its time.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

import tfio_store as tfs
from bench.timing import machine, table

FILES = 8
GOAL = 10


def write(folder: Path, nbytes: int) -> tuple[list[str], int]:
    """The files, and how many records they hold."""
    chance = random.Random(1)
    noise = chance.randbytes(1 << 20)
    paths, records = [str(folder / f"{i}.tfrecord") for i in range(FILES)], 0
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            left = nbytes // FILES
            while left > 0:
                at, size = chance.randrange(1 << 19), chance.randint(1 << 10, 3 << 10)
                writer.write(noise[at : at + size])
                left -= size
                records += 1
    return paths, records


def by_command(paths: list[str]) -> int:
    argv = [sys.executable, "-m", "tfio_store", "count", *paths]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


def timed(call: Callable[[], int], records: int) -> float:
    begun = time.perf_counter()
    found = call()
    took = time.perf_counter() - begun
    assert found == records, (found, records)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files are made; a temporary folder if not set")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        paths, records = write(Path(folder), int(given.gb * 1e9))
        ways: dict[str, Callable[[], int]] = {
            "loop over tf.data.TFRecordDataset": lambda: sum(
                1 for _ in tf.data.TFRecordDataset(paths)
            ),
            "tfs.count": lambda: tfs.count(paths),
            "tfio-store count": lambda: by_command(paths),
        }
        ways["tfs.count"]()  # imports, and pages of the files
        took = [
            {way: timed(call, records) for way, call in ways.items()} for _ in range(given.rounds)
        ]
    medians = {way: statistics.median(each[way] for each in took) for way in ways}
    loop = next(iter(medians.values()))
    rows = [
        [way, f"{seconds:.2f}", f"{records / seconds / 1e3:,.1f}", f"{loop / seconds:.1f}x"]
        for way, seconds in medians.items()
    ]
    for row in rows:
        row.append("" if row is rows[0] else f"{GOAL}x")
    print(machine(), f"load {os.getloadavg()[0]:.1f}", "", sep="\n")
    title = f"{records:,} records in {FILES} raw files of {given.gb:g} GB together"
    print(table(title, ["way", "seconds", "thousand records/s", "times the loop", "goal"], rows))


if __name__ == "__main__":
    main()
