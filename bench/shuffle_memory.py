"""``make bench-shuffle-memory``: what `.shuffle(k).batch(256)` takes, with TensorFlow's class and
with ours in its place. Each row is a process of its own; memory is what its peak rose by."""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tfio_store as tfs
from bench.timing import machine, table

ROWS = [(100, 50_000), (100, 200_000), (250, 100_000), (1000, 10_000), (1000, 30_000), (5000, 5000)]
ROWS += [(100_000, 1000)]
"""Bytes of a record, and `k`."""

READ = """
import json, os, sys, time
import tensorflow as tf
import tfio_store as tfs
who, files, k = json.loads(sys.argv[1])
reader = {"TensorFlow": tf.data.TFRecordDataset, "ours": tfs.TFRecordDataset}[who]
def shuffled(k):
    return reader(files).shuffle(k).batch(256)
def memory(which):
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith(which)).split()[1]) / 1024
for batch in shuffled(1000).take(20):
    pass
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")  # the peak is what is there now
before, start = memory("VmRSS"), time.perf_counter()
count = sum(int(batch.shape[0]) for batch in shuffled(k))
print(count, memory("VmHWM") - before, time.perf_counter() - start, flush=True)
os._exit(0)
"""


def measured(who: str, files: list[str], k: int) -> tuple[float, float]:
    """MiB, and seconds of an epoch."""
    command = [sys.executable, "-c", READ, json.dumps([who, files, k])]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    _, memory, seconds = map(float, done.stdout.split())
    return memory, seconds


def rows(folder: str, nbytes: int) -> Iterator[list[str]]:
    for size, k in ROWS:
        pattern = f"{folder}/{size}-*.tfrecord"
        if not glob.glob(pattern):
            with tfs.ShardedWriter(f"{folder}/{size}", num_shards=8) as writer:
                writer.write_batch(os.urandom(size) for _ in range(nbytes // size))
        files = sorted(glob.glob(pattern))
        native, native_s = measured("TensorFlow", files, k)
        ours, ours_s = measured("ours", files, k)
        seconds = [f"{native_s:.2f}", f"{ours_s:.2f}", f"{native_s / ours_s:.1f}x"]
        yield [f"{size} B", f"{k:,}", f"{native:.0f}", f"{ours:.0f}", *seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=200, help="records of a row")
    nbytes = parser.parse_args().mib << 20
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        found = list(rows(folder, nbytes))
    head = ["record", "k", "TensorFlow, MiB", "ours, MiB", "TensorFlow, s", "ours, s", "times"]
    print(table(f".shuffle(k).batch(256), {machine()}", head, found))


if __name__ == "__main__":
    main()
