"""``make bench-tfdata-s3``: reading S3 in tf.data, beside tensorflow-io 0.37.1 on TensorFlow 2.16.

The server is Ceph's gateway on this machine, behind a proxy that makes each request wait 30 ms and
gives each connection 80 MB/s, as a bucket in the same region does. Each
reader runs in a process of its own, since the two need different TensorFlows; the time is taken in
there, from making the dataset to its last batch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.timing import table
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.shaping_proxy import shaped

RECORD_BYTES = 10 << 10
SHARDS = 8
URL = "s3://bench/tfdata/train"

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


def jobs(endpoint: str, files: list[str], peer: str, rounds: int) -> dict[str, Any]:
    environment = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT": endpoint,
        "S3_USE_HTTPS": "0",
        "S3_VERIFY_SSL": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    where = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    common = {"environment": environment, "rounds": rounds, "files": files, "url": URL}
    found: dict[str, Any] = {}
    for parallel in (None, SHARDS):
        name = f"tensorflow-io, num_parallel_reads={parallel}"
        found[name] = (peer, {**common, "reader": "tensorflow-io", "parallel": parallel})
    for backend in ("fsspec", "obstore"):
        found[f"ours, {backend}"] = (
            sys.executable,
            {**common, "reader": "ours", "where": where, "backend": backend},
        )
    return found


def fill(endpoint: str, nbytes: int) -> int:
    import s3fs

    options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    s3fs.S3FileSystem(**options).mkdir("bench")
    count = nbytes // RECORD_BYTES
    data = np.random.default_rng(1).bytes(RECORD_BYTES + count)
    with tfs.ShardedWriter(URL, num_shards=SHARDS, storage_options=options) as writer:
        for i in range(count):
            writer.write(data[i : i + RECORD_BYTES])
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--peer-python", default=".venv-tf216/bin/python", help="has tensorflow-io")
    given = parser.parse_args()
    rows = []
    with ExitStack() as stack:
        direct = stack.enter_context(ceph())
        records = fill(direct, given.mib << 20)
        proxy = stack.enter_context(shaped(direct, ttfb_ms=30, bandwidth=80e6)).endpoint
        names = [f"{URL}-{i:05d}-of-{SHARDS:05d}.tfrecord" for i in range(SHARDS)]
        found = jobs(proxy, names, os.path.abspath(given.peer_python), given.rounds)
        seconds = {name: run(*job, records) for name, job in found.items()}  # type: ignore[call-arg]
        best = min(taken for name, taken in seconds.items() if "tensorflow-io" in name)
        for name, taken in seconds.items():
            speed = records * RECORD_BYTES / taken / 1e6
            rows.append([name, f"{speed:.0f}", f"{best / taken:.2f}"])
    print(table(f"{given.mib} MiB from Ceph, records of 10 KiB", ["", "MB/s", "x best peer"], rows))


if __name__ == "__main__":
    main()
