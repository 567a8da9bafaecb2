"""What is interrupted, and what must be true afterwards."""

from __future__ import annotations

import contextlib
import glob
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tfio_store as tfs
from tfio_store.loader.content import LoaderContent
from tfio_store.loader.gathering import Gathering

__all__ = ["SCENARIOS", "Scenario"]

RECORDS = [b"%06d" % number * 20 for number in range(300)]
ROWS = 3000
LOOKS = 100

warnings.simplefilter("ignore")


@dataclass
class Scenario:
    run: Callable[[str], None]
    """In a folder that is not there yet."""
    check: Callable[[str], None]


def found(source: str | list[str]) -> list[bytes] | None:
    """Its records, sorted. None if there are none, or no more."""
    try:
        return sorted(tfs.RecordReader(source))
    except FileNotFoundError:
        return None


def globbed(folder: str) -> list[bytes] | None:
    """Those of all shards that a pattern finds. None if it finds none."""
    visible = sorted(glob.glob(os.path.join(glob.escape(folder), "train*")))
    return found(visible) if visible else None


# Writers


def check_dataset(folder: str) -> None:
    """The dataset is there whole or not at all, also for who globs, and the next one can be
    written. (A commit that was stopped in its middle may leave all shards and no manifest.)"""
    url = os.path.join(folder, "train")
    for _ in range(LOOKS):  # a thread tidies up behind a writer that nobody holds any more
        seen = {tuple(records) for records in (found(url), globbed(folder)) if records is not None}
        if seen <= {tuple(RECORDS)}:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(f"{[len(records) for records in seen]} of {len(RECORDS)} records")
    with tfs.ShardedWriter(url, num_shards=2, if_exists="overwrite") as writer:
        writer.write_batch(RECORDS[:9])
    assert found(url) == RECORDS[:9]


def fixed(folder: str) -> None:
    options: dict[str, Any] = {"num_shards": 3, "compression": "GZIP", "block_bytes": 4096}
    with tfs.ShardedWriter(os.path.join(folder, "train"), **options) as writer:
        for record in RECORDS[:200]:
            writer.write(record)
        writer.write_batch(RECORDS[200:])


def given_up(folder: str) -> None:
    writer = tfs.ShardedWriter(os.path.join(folder, "train"), num_shards=2, block_bytes=4096)
    writer.write_batch(RECORDS)
    writer.abort()


def persistent(folder: str) -> None:
    """Takes no notice of Control-C: the writer then commits all, or refuses."""
    with tfs.ShardedWriter(os.path.join(folder, "train"), num_shards=2, block_bytes=4096) as writer:
        done = 0
        while done < len(RECORDS):
            with contextlib.suppress(KeyboardInterrupt):
                writer.write(RECORDS[done])
            done += 1


def check_persistent(folder: str) -> None:
    """The record at which it came may be there or not; all others are."""
    records = found(os.path.join(folder, "train"))
    if records is not None:
        assert len(records) >= len(RECORDS) - 1, f"{len(records)} of {len(RECORDS)} records"
        assert len(set(RECORDS) - set(records)) <= 1


def rolling(folder: str) -> None:
    url = os.path.join(folder, "train")
    with tfs.ShardedWriter(url, max_shard_records=50, block_bytes=4096) as writer:
        for record in RECORDS[:120]:
            writer.write(record)
        writer.write_batch(RECORDS[120:])


def one_file(folder: str) -> None:
    os.makedirs(folder)
    with tfs.TFRecordWriter(os.path.join(folder, "train")) as writer:
        for record in RECORDS:
            writer.write(record)


def check_file(folder: str) -> None:
    records = found(os.path.join(folder, "train"))
    assert records is None or records == RECORDS


def job(folder: str) -> None:
    with tfs.WriteJob(os.path.join(folder, "train"), names="plain", block_bytes=4096) as write:
        results = []
        for number in range(2):
            with write.open(order=number) as task:
                for record in RECORDS[number::2]:
                    task.write(record)
            results.append(task.result)
        write.commit(results)


# Readers


def prepared(folder: str) -> str:
    """A dataset that all runs read, beside the folder of this one."""
    url = os.path.join(os.path.dirname(folder), "read", "train")
    if not os.path.exists(os.path.dirname(url)):
        with tfs.ShardedWriter(url, num_shards=3, compression="GZIP", block_bytes=4096) as writer:
            writer.write_batch({"x": x} for x in range(ROWS))
    return url


def check_reading(folder: str) -> None:
    assert len(list(tfs.RecordReader(prepared(folder)))) == ROWS


def reader(folder: str) -> None:
    reading = tfs.RecordReader(prepared(folder)).shuffle(1)
    records = iter(reading)
    first = [next(records) for _ in range(1500)]
    state = reading.state()
    again = tfs.RecordReader(prepared(folder)).shuffle(1)
    again.restore(state)
    assert len(first) + sum(len(batch) for batch in again.batches()) == ROWS


def source(folder: str) -> None:
    records = tfs.RecordSource(prepared(folder))
    assert len(records) == ROWS
    assert len({records[number] for number in (0, 5, 2999)}) == 3
    assert len(records[list(range(0, 3000, 7))]) == 429


def loader(folder: str) -> None:
    url = prepared(folder)
    reading = tfs.RecordReader(url).shuffle(1)
    content = LoaderContent.of(url, reading, None, None)
    gathering, rows = Gathering(reading, content, 64, False), 0
    while (columns := gathering.batch()) is not None:
        rows += len(columns["x"])
        gathering.done()
        gathering.state()
    assert rows == ROWS


SCENARIOS = {
    "writer": Scenario(fixed, check_dataset),
    "rolling writer": Scenario(rolling, check_dataset),
    "writer given up": Scenario(given_up, check_dataset),
    "writer that goes on": Scenario(persistent, check_persistent),
    "writer of one file": Scenario(one_file, check_file),
    "job": Scenario(job, check_dataset),
    "reader": Scenario(reader, check_reading),
    "source": Scenario(source, check_reading),
    "loader": Scenario(loader, check_reading),
}
