"""Opens, reads a while and drops datasets of every kind, again and again; watches the process.

    python -m tests.tf.programs.soak --minutes 20 --cycles 1000

Prints one line a sample: minutes, cycles, resident MiB, threads, file descriptors. Fails when the
last quarter of the samples holds more than the second, beyond what noise explains.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import psutil

import tfio_store as tfs
from tests.servers.moto import KEY, SECRET, moto
from tests.support.evidence import keep

RECORDS = [os.urandom(2000) for _ in range(3000)]
MIB_ALLOWED, THREADS_ALLOWED, DESCRIPTORS_ALLOWED = 48.0, 4, 4


class Sample(NamedTuple):
    minutes: float
    cycles: int
    mib: float
    threads: int
    descriptors: int


def sources(folder: str, endpoint: str) -> list[tuple[str, dict[str, Any]]]:
    """A local and a remote dataset, raw and compressed, and foreign files."""
    where: dict[str, Any] = {
        "storage_options": {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    }
    import s3fs

    s3fs.S3FileSystem(**where["storage_options"]).mkdir("soak")
    found: list[tuple[str, dict[str, Any]]] = []
    for root, options in ((folder, {}), ("s3://soak", where)):
        for codec in (None, "GZIP"):
            url = f"{root}/set-{codec}"
            with tfs.ShardedWriter(url, num_shards=2, compression=codec, **options) as writer:
                writer.write_batch(RECORDS)
            found.append((url, options))
        with tfs.TFRecordWriter(f"{root}/one.gz", "GZIP", **options) as single:
            for record in RECORDS:
                single.write(record)
        found.append((f"{root}/one.gz", options))
    return found


WAYS: list[dict[str, Any]] = [{}, {"batch_size": 64}, {"shuffle": 2, "batch_size": 64}]


def cycle(source: str, options: dict[str, Any], whole: bool) -> None:
    dataset = tfs.TFRecordDataset(source, **options)
    for i, _ in enumerate(dataset.batch(64) if "batch_size" not in options else dataset):
        if not whole and i == 3:
            break  # the iterator is dropped in mid-epoch


def run(minutes: float, cycles: int) -> Iterator[Sample]:
    process, start, done = psutil.Process(), time.monotonic(), 0
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        endpoint = stack.enter_context(moto())
        work = itertools.cycle(
            (source, {**options, **way}, whole)
            for source, options in sources(folder, endpoint)
            for way in WAYS
            for whole in (True, False)
        )
        while done < cycles or time.monotonic() - start < 60 * minutes:
            cycle(*next(work))
            done += 1
            if done % 9 == 0:
                gc.collect()
                yield Sample(
                    (time.monotonic() - start) / 60,
                    done,
                    process.memory_info().rss / 2**20,
                    process.num_threads(),
                    process.num_fds(),
                )


def growth(samples: list[Sample], field: str) -> float:
    """Median of the last quarter less that of the second: the first is warming up."""
    values = [float(getattr(sample, field)) for sample in samples]
    quarter = len(values) // 4
    return statistics.median(values[-quarter:]) - statistics.median(values[quarter : 2 * quarter])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    given = parser.parse_args()
    samples = []
    for sample in run(given.minutes, given.cycles):
        samples.append(sample)
        if len(samples) % 8 == 1:
            print(
                f"{sample.minutes:6.1f} min {sample.cycles:6d} cycles {sample.mib:8.1f} MiB "
                f"{sample.threads:4d} threads {sample.descriptors:4d} descriptors",
                flush=True,
            )
    grown = {name: growth(samples, name) for name in ("mib", "threads", "descriptors")}
    print(f"{samples[-1].cycles} cycles; growth {grown}")
    allowed = {"mib": MIB_ALLOWED, "threads": THREADS_ALLOWED, "descriptors": DESCRIPTORS_ALLOWED}
    grew = any(grown[name] > allowed[name] for name in grown)
    if given.keep:
        ran = f"{samples[-1].cycles:,} datasets of tf.data opened, read and dropped"
        found = ", ".join(f"{value:.0f} more {name}" for name, value in grown.items())
        keep("soak", 60 * samples[-1].minutes, ran, f"too much: {found}" if grew else found)
    sys.exit(grew)


main()
