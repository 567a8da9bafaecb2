"""``make bench-grain``: from storage to batches in the training process, by Grain.

"as MaxText" is the way of MaxText's ``grain_data_processing.py``, made anew of Grain's parts: a
``TFRecordIterDataset`` for each file, interleaved, each record parsed by protobuf, a shuffle in a
window of 100. ArrayRecord holds the same Examples, and protobuf parses them as well. Its files are
read record by record, as it is usual with Grain. Of ours, ``source`` and ``stream`` are measured.

No worker processes. ``TFRecordIterDataset`` opens local files only: for the bucket its reader gets
s3fs's open file. ArrayRecord reads no S3.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench import turns
from bench.timing import machine, table

FILES = 4
LENGTH = 2048
INTS = [f"i{k}" for k in range(5)]
FLOATS = [f"f{k}" for k in range(5)]
COUNTS = {"tokens": 12_000, "scalars": 200_000}
BATCH = 32
LOADERS = ("as MaxText", "ArrayRecord, shuffled", "source, shuffled", "stream, shuffled")


class Work(turns.Work):
    @property
    def name(self) -> str:
        return f"{self.where}, {self.what}, {self.loader}"


def parse(record: bytes) -> dict[str, Any]:
    """A record by protobuf, as MaxText's ``ParseFeatures``."""
    from tensorflow.core.example.example_pb2 import Example

    found = {}
    for name, feature in Example.FromString(record).features.feature.items():
        if feature.HasField("int64_list"):
            values = np.array(feature.int64_list.value, np.int32)
        else:
            values = np.array(feature.float_list.value, np.float32)
        found[name] = values if name == "tokens" else values[0]
    return found


def as_maxtext(work: Work) -> Any:
    import grain

    experimental = grain.experimental
    names = sorted(map(str, Path(work.folder).glob("train-*")))
    if work.endpoint:
        import fsspec
        from grain._src.python.dataset.sources import tfrecord_dataset

        fs = fsspec.filesystem("s3", **turns.options(work.endpoint))
        names = [f"s3://{name}" for name in fs.glob(f"{work.folder}/train-*")]
        tfrecord_dataset.open = lambda path, mode: fs.open(path, mode)
    files = [experimental.TFRecordIterDataset(name) for name in names]
    found: Any = experimental.InterleaveIterDataset(files, cycle_length=len(files))
    found = experimental.WindowShuffleIterDataset(found.map(parse), window_size=100, seed=1)
    return found.batch(BATCH)


def by_array_record(work: Work) -> Any:
    import grain

    names = sorted(map(str, Path(work.folder).glob("*.array_record")))
    rows: Any = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(names))
    return rows.shuffle(seed=1).map(parse).batch(BATCH).to_iter_dataset()


def ours(work: Work) -> Any:
    from tfio_store.grain import source, stream

    url = f"{work.folder}/train"
    storage = tfs.Storage(turns.options(work.endpoint), backend="auto")
    if work.loader.startswith("stream"):
        return stream(url, shuffle=True, storage=storage).batch(BATCH)
    return source(url, storage=storage).shuffle(seed=1).batch(BATCH).to_iter_dataset()


def batches(work: Work) -> Iterator[Any]:
    if work.loader == "as MaxText":
        yield from as_maxtext(work)
    else:
        yield from by_array_record(work) if work.loader.startswith("Array") else ours(work)


def one(work: Work) -> None:
    """In a process of its own. What a loader imports takes no part of the time."""
    import grain  # noqa: F401
    from tensorflow.core.example import example_pb2  # noqa: F401

    import tfio_store.grain  # noqa: F401

    turns.child(lambda: batches(work), lambda batch: len(next(iter(batch.values()))))


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
        from array_record.python.array_record_module import ArrayRecordWriter

        records = tfs.RecordSource(f"{folder}/train")
        for number in range(FILES):
            writer = ArrayRecordWriter(f"{folder}/{number}.array_record", "group_size:1")
            for record in records[number::FILES]:
                writer.write(record)
            writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=float, default=1, help="of the usual number of records")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="the most for a run")
    given = parser.parse_args()
    lines: list[list[str]] = []
    print(machine(), "load", *os.getloadavg(), flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as top, turns.bucket() as (upload, endpoint):
        for what in COUNTS:
            folder, count = Path(top, what), int(COUNTS[what] * given.part)
            folder.mkdir()
            write(what, count, folder)
            packed = any(folder.glob("*.array_record"))
            loaders = [name for name in LOADERS if packed or not name.startswith("Array")]
            local = [Work(loader, what, str(folder)) for loader in loaders]
            url = upload(folder, f"bench-{what}")
            far = [Work(each, what, url, endpoint) for each in loaders if each[:5] != "Array"]
            for works in (local, far):
                lines += turns.lines("bench.grain", works, count, given.rounds, given.seconds)
    title = f"Batches of {BATCH} by Grain, no worker processes"
    print(table(title, ["", *turns.COLUMNS], lines))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(Work(**json.loads(sys.argv[2])))
    main()
