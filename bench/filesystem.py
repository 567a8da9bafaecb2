"""``make bench-filesystem``: TensorFlow's own TFRecordDataset on S3, through the plugin.

The store is Ceph's gateway behind a proxy that makes each request wait 30 ms and gives each
connection 80 MB/s. The peer is tensorflow-io, which gave TensorFlow its s3:// until 2.16; it runs
on an interpreter that has it (``--peer-python``), and so does the plugin beside it. Each run is a
process of its own, from its first request on. TensorFlow reads s3:// in pieces of 127 MiB, whatever
``buffer_size`` says, and s3a:// in pieces of 256 KiB.
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

PARTS = [f"part-{i}" for i in range(FILES)]

CASES: dict[str, dict[str, Any]] = {
    "1 file": {"files": ["whole"]},
    "4 files at once": {"files": PARTS, "num_parallel_reads": FILES},
    "64 MB by FixedLengthRecordDataset": {"files": ["whole"], "fixed": 64_000_000 // RECORD_BYTES},
}


def worker(job: dict[str, Any]) -> None:
    """In a process of its own; prints what it finds as JSON."""
    import tensorflow as tf

    if job["plugin"] == "tensorflow-io":
        import tensorflow_io  # noqa: F401
    else:
        import tfio_store as tfs

        backend = job.get("backend", "fsspec")
        tfs.register_filesystem("s3", "s3a", storage=tfs.Storage(job["options"], backend=backend))
    urls = [f"{job.get('scheme', 's3')}://bench/{name}" for name in job["files"]]
    if job.get("fixed"):
        dataset = tf.data.FixedLengthRecordDataset(urls, RECORD_BYTES + 16).take(job["fixed"])
    else:
        dataset = tf.data.TFRecordDataset(urls, num_parallel_reads=job.get("num_parallel_reads"))
    if job.get("exits"):
        print(json.dumps({"clean": clean_exits(dataset, job["exits"])}), flush=True)
        return
    seconds, nbytes = consumed(dataset)
    print(json.dumps({"s": seconds, "bytes": nbytes}), flush=True)


def consumed(dataset: Any) -> tuple[float, int]:
    """The seconds that reading all of it takes, and its bytes."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = (
        False  # whose thread sleeps on for seconds when the dataset has ended
    )
    # in batches, since a function call for each record would keep TensorFlow's threads spinning
    batches = dataset.batch(64).with_options(options)
    start = time.perf_counter()
    nbytes = batches.reduce(
        tf.constant(0, tf.int64),
        lambda total, batch: total + tf.reduce_sum(tf.cast(tf.strings.length(batch), tf.int64)),
    )
    return time.perf_counter() - start, int(nbytes)


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

    from tfio_store.records.framing import FrameWriter

    fs = s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET)
    fs.mkdir("bench")
    for name, size in [("whole", mib), *((part, mib // FILES) for part in PARTS)]:
        writer = FrameWriter()
        writer.write_many([os.urandom(RECORD_BYTES)] * ((size << 20) // RECORD_BYTES))
        fs.pipe_file(f"bench/{name}", bytes(writer.take()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--peer-python", help="an interpreter with TensorFlow 2.16 and tensorflow-io"
    )
    parser.add_argument("--mib", type=int, default=1024, help="of all that a run reads")
    parser.add_argument("--cases", nargs="*", default=list(CASES), help="only these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--exits", type=int, default=0, help="also count clean exits of so many runs"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(json.loads(args.worker))
        return
    candidates = candidates_for(args.peer_python)
    with ceph() as endpoint:
        fill(endpoint, args.mib)
        with shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=BANDWIDTH) as proxy:
            options = {"endpoint_url": proxy.endpoint, "key": KEY, "secret": SECRET}
            compare(candidates, options, args.rounds, args.cases)
        if args.exits:
            options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
            count_exits(candidates, options, args.exits)


def candidates_for(peer_python: str | None) -> Candidates:
    here, ours = sys.executable, {"plugin": "tfio_store"}
    obstore = {**ours, "backend": "obstore"}
    found: Candidates = {
        "s3://": (here, ours),
        "s3:// by obstore": (here, obstore),
        "s3a://": (here, {**ours, "scheme": "s3a"}),
        "s3a:// by obstore": (here, {**obstore, "scheme": "s3a"}),
    }
    if peer_python:
        found["TensorFlow 2.16: s3a:// by obstore"] = (peer_python, found["s3a:// by obstore"][1])
        found["TensorFlow 2.16: tensorflow-io"] = (peer_python, {"plugin": "tensorflow-io"})
    return found


def compare(candidates: Candidates, options: dict[str, Any], rounds: int, cases: list[str]) -> None:
    rows = []
    for case in cases:
        job = CASES[case]
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
        job = {"files": ["whole"], **plugin, "options": options}
        clean = run(python, {**job, "exits": runs}, 60 * runs)["clean"]
        rows.append([name, f"{clean} of {runs}"])
        print(name, clean, runs, flush=True)
    print(table("Clean exits", ["", "exit status 0"], rows))


if __name__ == "__main__":
    main()
