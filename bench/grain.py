"""``make bench-grain``: from storage to batches in the training process, by Grain.

"as MaxText" is the way of MaxText's ``grain_data_processing.py``, made anew of Grain's parts: a
``TFRecordIterDataset`` for each file, interleaved, each record parsed by protobuf, a shuffle in a
window of 100. ArrayRecord holds the same Examples, and protobuf parses them as well. Its files are
read record by record, as it is usual with Grain. Of ours, ``source`` and ``stream`` are measured.

No worker processes. The speed is that of the first seconds of an epoch, from the loader's start on.
Each run is a process of its own, and the loaders take turns. The bucket is Ceph's gateway on this
machine, behind a proxy that makes each request wait 30 ms and gives each connection 80 MB/s.
``TFRecordIterDataset`` opens local files only: for the bucket its reader gets s3fs's open file.
ArrayRecord reads no S3. Ours reads
it by obstore. Memory is what the process holds at most beyond its imports, in a run of
its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.example_proto import example_class
from bench.timing import machine, table
from bench.torch_loaders import SHAPE, Peak
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.moto import moto
from tests.servers.shaping_proxy import shaped

FILES = 4
LENGTH = 2048
INTS = [f"i{k}" for k in range(5)]
FLOATS = [f"f{k}" for k in range(5)]
COUNTS = {"tokens": 12_000, "scalars": 200_000}
BATCHES = (32, 256)
LOADERS = (
    "as MaxText", "ArrayRecord", "ArrayRecord, shuffled", "source", "source, shuffled",
    "stream, shuffled",
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """One loader over one kind of records. ``endpoint``: of S3; "" for local files."""

    loader: str
    what: str
    batch: int
    folder: str
    endpoint: str = ""

    @property
    def options(self) -> dict[str, Any] | None:
        if not self.endpoint:
            return None
        return {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET}


class Parse:
    """A record by protobuf, as MaxText's ``ParseFeatures``."""

    def __init__(self) -> None:
        self._parse = example_class().FromString

    def __call__(self, record: bytes) -> dict[str, Any]:
        found = {}
        for name, feature in self._parse(record).features.feature.items():
            if feature.HasField("int64_list"):
                values = np.array(feature.int64_list.value, np.int32)
            else:
                values = np.array(feature.float_list.value, np.float32)
            found[name] = values if name == "tokens" else values[0]
        return found


def as_maxtext(work: Work) -> Any:
    import grain

    experimental = grain.experimental
    if work.endpoint:
        import fsspec
        from grain._src.python.dataset.sources import tfrecord_dataset

        fs = fsspec.filesystem("s3", **work.options or {})
        names = [f"s3://{name}" for name in fs.glob(f"{work.folder}/train-*")]
        tfrecord_dataset.open = lambda path, mode: fs.open(path, mode)
    else:
        names = sorted(map(str, Path(work.folder).glob("train-*")))
    files = [experimental.TFRecordIterDataset(name) for name in names]
    found: Any = experimental.InterleaveIterDataset(files, cycle_length=len(files))
    found = found.map(Parse())
    return experimental.WindowShuffleIterDataset(found, window_size=100, seed=1).batch(work.batch)


def by_array_record(work: Work) -> Any:
    import grain

    names = sorted(map(str, Path(work.folder).glob("*.array_record")))
    rows: Any = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(names))
    if work.loader.endswith("shuffled"):
        rows = rows.shuffle(seed=1)
    return rows.map(Parse()).batch(work.batch).to_iter_dataset()


def ours(work: Work) -> Any:
    from tfio_store.grain import source, stream

    url = f"{work.folder}/train"
    storage = tfs.Storage(work.options, backend="auto")
    if work.loader.startswith("stream"):
        return stream(url, shuffle=True, storage=storage).batch(work.batch)
    rows = source(url, storage=storage)
    if work.loader.endswith("shuffled"):
        rows = rows.shuffle(seed=1)
    return rows.batch(work.batch).to_iter_dataset()


def batches(work: Work) -> Iterator[Any]:
    if work.loader == "as MaxText":
        return iter(as_maxtext(work))
    return iter(by_array_record(work) if work.loader.startswith("Array") else ours(work))


def one(work: Work, most: float, *, weigh: bool) -> None:
    """In a process of its own."""
    import grain  # noqa: F401 - what a loader imports takes no part of the time

    import tfio_store.grain  # noqa: F401

    Parse()
    warnings.simplefilter("ignore")
    before, peak = Peak.held(), Peak()
    if weigh:
        peak.start()
    start, busy, count, taken = time.perf_counter(), time.process_time(), 0, 0.0
    for batch in batches(work):
        count += len(next(iter(batch.values())))
        taken = time.perf_counter() - start
        if taken > most:
            break
    busy = time.process_time() - busy
    if weigh:
        peak.end()
    found = {"speed": count / taken, "busy": busy / count, "nbytes": peak.nbytes - before}
    print(json.dumps(found | {"records": count, "whole": taken <= most}), flush=True)
    os._exit(0)  # what is still read ahead is not waited for


def run(work: Work, most: float, *, weigh: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.grain", "--one", json.dumps(asdict(work))]
    command += ["--seconds", str(most), *(["--weigh"] if weigh else [])]
    quiet = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=quiet)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{work}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(what: str, count: int, folder: Path) -> None:
    """As TFRecords, and the same Examples as ArrayRecords, if that package is there."""
    random = np.random.default_rng(0)
    if what == "tokens":
        columns: dict[str, Any] = {
            "tokens": random.integers(0, 50_000, (count, LENGTH)).astype(np.int32)
        }
    else:
        columns = {name: random.integers(0, 1 << 20, count) for name in INTS}
        columns |= {name: random.random(count).astype(np.float32) for name in FLOATS}
    tfs.write_table(columns, f"{folder}/train", num_shards=FILES)
    with contextlib.suppress(ImportError):
        from array_record.python.array_record_module import (
            ArrayRecordWriter,
        )

        records = tfs.RecordSource(f"{folder}/train")
        for number in range(FILES):
            writer = ArrayRecordWriter(f"{folder}/{number}.array_record", "group_size:1")
            for record in records[number::FILES]:
                writer.write(record)
            writer.close()


def measure(works: list[Work], rounds: int, most: float) -> list[list[str]]:
    """The lines of one kind of records: the loaders take turns."""
    held = {work: run(work, most, weigh=True)["nbytes"] for work in works}
    found: dict[Work, list[dict[str, float]]] = {work: [] for work in works}
    for _ in range(rounds):
        for work in works:
            found[work].append(run(work, most))
    lines = []
    speeds = {w: statistics.median(each["speed"] for each in found[w]) for w in works}
    for work in works:
        for each in found[work]:
            assert not each["whole"] or each["records"] == COUNTS[work.what], (work, each)
        busy = statistics.median(each["busy"] for each in found[work])
        place = "S3" if work.endpoint else "local"
        lines.append(
            [f"{place}, {work.what}, {work.batch}, {work.loader}", f"{speeds[work]:,.0f}",
             f"{speeds[work] / speeds[works[0]]:.1f}", f"{busy * 1e6:,.1f}",
             f"{held[work] / 2**20:.0f}"]
        )  # fmt: skip
        print(*lines[-1], sep=" | ", flush=True)
    return lines


def upload(folder: Path, endpoint: str, bucket: str) -> None:
    import s3fs

    fs = s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET)
    fs.mkdir(bucket)
    for path in folder.iterdir():
        if path.suffix != ".array_record":
            fs.put_file(str(path), f"{bucket}/{path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="the most for a run")
    parser.add_argument("--kinds", nargs="+", default=list(COUNTS))
    parser.add_argument("--no-s3", action="store_true")
    parser.add_argument("--no-local", action="store_true")
    parser.add_argument("--weigh", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(Work(**json.loads(given.one)), given.seconds, weigh=given.weigh)
        return
    lines: list[list[str]] = []
    print(machine(), "load", *os.getloadavg(), flush=True)
    if given.no_s3 or shutil.which("radosgw") is None:
        print("S3 by moto" if not given.no_s3 else "no S3", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as top, contextlib.ExitStack() as servers:
        # moto rereads an object for each range of it, and so slows single records most
        server = ceph if shutil.which("radosgw") else moto
        endpoint = "" if given.no_s3 else servers.enter_context(server())
        for what in given.kinds:
            folder = Path(top, what)
            folder.mkdir()
            write(what, COUNTS[what], folder)
            packed = any(folder.glob("*.array_record"))
            loaders = [name for name in LOADERS if packed or not name.startswith("Array")]
            for batch in () if given.no_local else BATCHES:
                works = [Work(loader, what, batch, str(folder)) for loader in loaders]
                lines += measure(works, given.rounds, given.seconds)
            if not endpoint:
                continue
            upload(folder, endpoint, f"bench-{what}")
            with shaped(endpoint, **SHAPE) as proxy:
                for batch in BATCHES:
                    works = [
                        Work(loader, what, batch, f"s3://bench-{what}", proxy.endpoint)
                        for loader in loaders
                        if not loader.startswith("Array")
                    ]
                    lines += measure(works, given.rounds, given.seconds)
    print(machine(), "load", *os.getloadavg())
    head = ["", "rows/s", ": as MaxText", "processor µs a row", "memory, MiB"]
    print(table("Batches by Grain, no worker processes", head, lines))


if __name__ == "__main__":
    main()
