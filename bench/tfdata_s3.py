"""``make bench-tfdata-s3``: reading S3 in tf.data, beside tensorflow-io 0.37.1 on TensorFlow 2.16.

The bucket is that of `bench.turns`. Each reader runs in a process of its own, since the two need
different TensorFlows; the time is taken in there, from making the dataset to its last batch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench import turns
from bench.timing import machine, scratch, table

RECORD_BYTES = 10 << 10
SHARDS = 8

CLIENT = """
import json, os, sys, time
job = json.loads(sys.argv[1])
os.environ.update(job["environment"])
import tensorflow as tf
if job["reader"] == "tensorflow-io":
    import tensorflow_io
    def make():
        return tf.data.TFRecordDataset(job["files"], num_parallel_reads=job["parallel"]).batch(256)
else:
    sys.path.insert(0, os.getcwd())
    import tfio_store as tfs
    def make():
        storage = tfs.Storage(job["where"], backend=job["backend"])
        return tfs.TFRecordDataset(job["url"], batch_size=256, storage=storage)
for _ in range(job["rounds"]):
    start = time.perf_counter()
    iterator = iter(make())
    count = sum(int(batch.shape[0]) for batch in iterator)
    print(count, time.perf_counter() - start, flush=True)
    del iterator  # TensorFlow may take half a second over it
os._exit(0)  # tensorflow-io aborts at exit
"""


def run(python: str, job: dict[str, Any], records: int) -> float:
    """Seconds for one pass: the median of the rounds behind the first, which warms up."""
    command = [python, "-c", CLIENT, json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    rounds = [line.split() for line in done.stdout.splitlines()]
    if len(rounds) != job["rounds"] or any(int(count) != records for count, _ in rounds):
        raise RuntimeError(f"{job['reader']}: {done.stdout}\n{done.stderr[-2000:]}")
    return statistics.median(float(seconds) for _, seconds in rounds[1:])


def jobs(endpoint: str, url: str, peer: str, rounds: int) -> dict[str, Any]:
    files = [f"{url}-{i:05d}-of-{SHARDS:05d}.tfrecord" for i in range(SHARDS)]
    where = turns.options(endpoint)
    environment = {
        "AWS_ACCESS_KEY_ID": where["key"],
        "AWS_SECRET_ACCESS_KEY": where["secret"],
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT": endpoint,
        "S3_USE_HTTPS": "0",
        "S3_VERIFY_SSL": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    common = {"environment": environment, "rounds": rounds, "files": files, "url": url}
    theirs = common | {"reader": "tensorflow-io"}
    ours = common | {"reader": "ours", "where": where}
    return {
        f"tensorflow-io, num_parallel_reads={many}": (peer, theirs | {"parallel": many})
        for many in (None, SHARDS)
    } | {
        f"ours, {backend}": (sys.executable, ours | {"backend": backend})
        for backend in ("fsspec", "obstore")
    }


def fill(folder: str, nbytes: int) -> int:
    count = nbytes // RECORD_BYTES
    data = np.random.default_rng(1).bytes(RECORD_BYTES + count)
    with tfs.ShardedWriter(f"{folder}/train", num_shards=SHARDS) as writer:
        writer.write_batch(data[i : i + RECORD_BYTES] for i in range(count))
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--peer-python", default=".venv-tf216/bin/python", help="has tensorflow-io")
    given = parser.parse_args()
    rows = []
    print(machine(), flush=True)
    with scratch() as folder, turns.bucket() as (upload, endpoint):
        records = fill(folder, given.mib << 20)
        url = upload(Path(folder), "bench-tfdata") + "/train"
        found = jobs(endpoint, url, os.path.abspath(given.peer_python), given.rounds)
        seconds = {name: run(*job, records) for name, job in found.items()}  # type: ignore[call-arg]
        best = min(taken for name, taken in seconds.items() if "tensorflow-io" in name)
        for name, taken in seconds.items():
            speed = records * RECORD_BYTES / taken / 1e6
            rows.append([name, f"{speed:.0f}", f"{best / taken:.2f}"])
    title = f"{given.mib} MiB from a bucket, records of 10 KiB"
    print(table(title, ["", "MB/s", "x best peer"], rows))


if __name__ == "__main__":
    main()
