"""``make bench-filesystem``: TensorFlow's own TFRecordDataset on S3, through the plugin.

The store is Ceph's gateway behind a proxy that makes each request wait 30 ms and gives each
connection 80 MB/s. The peer is tensorflow-io, which gave TensorFlow its s3:// until 2.16; it runs
on an interpreter that has it (``--peer-python``), and so does the plugin beside it. Each run is a
process of its own. TensorFlow reads s3:// in pieces of 127 MiB, whatever ``buffer_size`` says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.timing import table
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.shaping_proxy import shaped

RECORD_BYTES = 100_000
TTFB_MS, BANDWIDTH = 30, 80e6
FILES = 4

Candidates = dict[str, tuple[str, dict[str, str]]]
"""The interpreter and the choices of each."""

CASES: dict[str, dict[str, Any]] = {
    "1 file": {"files": 1},
    "4 files at once": {"files": FILES, "num_parallel_reads": FILES},
    "1 file by FixedLengthRecordDataset, pieces of 256 KiB": {"files": 1, "fixed": True},
}


def worker(job: dict[str, Any]) -> None:
    """In a process of its own; prints what it finds as JSON."""
    import tensorflow as tf

    if job["plugin"] == "tensorflow-io":
        import tensorflow_io  # noqa: F401
    else:
        import tfio_store as tfs

        tfs.register_filesystem(
            "s3", storage_options=job["options"], backend=job.get("backend", "fsspec")
        )
    urls = [f"s3://bench/records-{i}" for i in range(job["files"])]
    if job.get("fixed"):
        dataset = tf.data.FixedLengthRecordDataset(urls, RECORD_BYTES + 16)
    else:
        dataset = tf.data.TFRecordDataset(urls, num_parallel_reads=job.get("num_parallel_reads"))
    if job.get("exits"):
        print(json.dumps({"clean": clean_exits(dataset, job["exits"])}), flush=True)
        return
    start = time.perf_counter()
    nbytes = int(
        dataset.reduce(tf.constant(0), lambda total, record: total + tf.strings.length(record))
    )
    print(json.dumps({"s": time.perf_counter() - start, "bytes": nbytes}), flush=True)


def clean_exits(dataset: Any, count: int) -> int:
    """How many of so many processes end with status 0 while TensorFlow's threads are reading.

    They are forked off before TensorFlow has made a thread, which saves each the import."""
    clean = 0
    for _ in range(count):
        child = os.fork()
        if child == 0:
            iterator = iter(dataset.repeat().prefetch(8))
            for _ in range(200):
                next(iterator)
            sys.exit(0)
        clean += os.waitpid(child, 0)[1] == 0
    return clean


def run(python: str, job: dict[str, Any], timeout: float) -> dict[str, Any]:
    """One worker's answer: seconds, bytes, and the exit status of its process."""
    endpoint = job["options"]["endpoint_url"]
    env = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "S3_ENDPOINT": endpoint,
        "S3_USE_HTTPS": "0",
        "S3_VERIFY_SSL": "0",
    }
    command = [python, "-m", "bench.filesystem", "--worker", json.dumps(job)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not answers:
        raise RuntimeError(f"{job}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return {**json.loads(answers[-1]), "exit": done.returncode}


def fill(endpoint: str, mib: int) -> None:
    import s3fs

    from tfio_store.framing import FrameWriter

    fs = s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET)
    fs.mkdir("bench")
    writer = FrameWriter()
    writer.write_many([os.urandom(RECORD_BYTES)] * ((mib << 20) // RECORD_BYTES))
    data = bytes(writer.take())
    for i in range(FILES):
        fs.pipe_file(f"bench/records-{i}", data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer-python", help="an interpreter with TensorFlow 2.16 and tensorflow-io"
    )
    parser.add_argument("--mib", type=int, default=256, help="of each file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--exits", type=int, default=0, help="also count clean exits of so many runs"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(json.loads(args.worker))
        return
    candidates: Candidates = {
        "tfio_store": (sys.executable, {"plugin": "tfio_store"}),
        "with obstore": (sys.executable, {"plugin": "tfio_store", "backend": "obstore"}),
    }
    if args.peer_python:
        for plugin in ("tfio_store", "tensorflow-io"):
            candidates[f"{plugin}, TensorFlow 2.16"] = (args.peer_python, {"plugin": plugin})
    with ceph() as endpoint:
        fill(endpoint, args.mib)
        with shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=BANDWIDTH) as proxy:
            options = {"endpoint_url": proxy.endpoint, "key": KEY, "secret": SECRET}
            compare(candidates, options, args.rounds)
        if args.exits:
            options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
            count_exits(candidates, options, args.exits)


def compare(candidates: Candidates, options: dict[str, Any], rounds: int) -> None:
    rows = []
    for case, job in CASES.items():
        rates: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(rounds):
            for name, (python, plugin) in candidates.items():
                found = run(python, {**job, **plugin, "options": options}, 900)
                rates[name].append(found["bytes"] / found["s"] / 1e6)
        medians = {name: statistics.median(values) for name, values in rates.items()}
        print(case, {name: round(value, 1) for name, value in medians.items()}, flush=True)
        slowest = min(medians.values())
        rows.append([case, *(f"{rate:.0f} ({rate / slowest:.1f}x)" for rate in medians.values())])
    print(
        table(
            "TFRecordDataset on S3, MB/s (30 ms, 80 MB/s per connection)", ["", *candidates], rows
        )
    )


def count_exits(candidates: Candidates, options: dict[str, Any], runs: int) -> None:
    rows = []
    for name, (python, plugin) in candidates.items():
        job = {"files": 1, **plugin, "options": options}
        clean = run(python, {**job, "exits": runs}, 60 * runs)["clean"]
        rows.append([name, f"{clean} of {runs}"])
        print(name, clean, runs, flush=True)
    print(table("Clean exits", ["", "exit status 0"], rows))


if __name__ == "__main__":
    main()
