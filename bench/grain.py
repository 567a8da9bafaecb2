"""``make bench-grain``: from storage to batches in the training process, by Grain.

"as MaxText" is the way of MaxText's ``grain_data_processing.py``, made anew of Grain's parts: a
``TFRecordIterDataset`` for each file, interleaved, each record parsed by protobuf, a shuffle in a
window of 100. ArrayRecord holds the same Examples, and protobuf parses them as well. Its files are
read record by record, as it is usual with Grain. Of ours, ``source`` and ``stream`` are measured.

No worker processes. ``TFRecordIterDataset`` opens local files only: for the bucket its reader gets
s3fs's open file. ArrayRecord reads no S3.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench import turns
from bench.data import scalars
from bench.timing import table

FILES = 4
LENGTH = 2048
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
    yield from READ.get(work.loader, ours)(work)


READ = {"as MaxText": as_maxtext, "ArrayRecord, shuffled": by_array_record}


def one(work: Work) -> None:
    """In a process of its own. What a loader imports takes no part of the time."""
    import grain  # noqa: F401
    from tensorflow.core.example import example_pb2  # noqa: F401

    import tfio_store.grain  # noqa: F401

    turns.child(lambda: batches(work), lambda batch: len(next(iter(batch.values()))))


def write(what: str, count: int, folder: Path) -> None:
    """As TFRecords, and the same Examples as ArrayRecords, if that package is there."""
    columns = scalars(count)
    if what == "tokens":
        tokens = np.random.default_rng(0).integers(0, 50_000, (count, LENGTH))
        columns = {"tokens": tokens.astype(np.int32)}
    tfs.write_table(columns, f"{folder}/train", num_shards=FILES)
    with contextlib.suppress(ImportError):
        from array_record.python.array_record_module import ArrayRecordWriter

        records = tfs.RecordSource(f"{folder}/train")
        for number in range(FILES):
            writer = ArrayRecordWriter(f"{folder}/{number}.array_record", "group_size:1")
            for record in records[number::FILES]:
                writer.write(record)
            writer.close()


def works_on(what: str, place: str, endpoint: str) -> list[Work]:
    packed = any(Path(place).glob("*.array_record"))
    loaders = [name for name in LOADERS if packed or not name.startswith("Array")]
    return [Work(loader, what, place, endpoint) for loader in loaders]


def main() -> None:
    found = turns.measure("bench.grain", COUNTS, write, works_on)
    title = f"Batches of {BATCH} by Grain, no worker processes"
    print(table(title, ["", *turns.COLUMNS], [line for _, lines in found for line in lines]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(Work(**json.loads(sys.argv[2])))
    main()
