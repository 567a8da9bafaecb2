"""``make bench-core``: reading and writing local files, beside peers.

Each row is one record size, each ratio from one run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import tfio_store
from bench.timing import machine, medians, scratch, table
from tfio_store.records import framing

Ways = dict[str, Callable[[], None]]
SIZES = {"100 B": 100, "1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10}
SIZES["1 MiB"] = 1 << 20
FILE_BYTES = 64 << 20
MOST_RECORDS = 400_000  # keeps the slow peers' runs short


def records_of(size: int, total: int) -> list[bytes]:
    count = max(1, min(total // (size + 16), MOST_RECORDS))
    data = np.random.default_rng(size).bytes(count * size)
    return [data[i * size : (i + 1) * size] for i in range(count)]


def frames_of(records: Iterable[bytes]) -> bytes:
    writer = framing.FrameWriter()
    writer.write_many(records)
    return bytes(writer.take())


def loop(records: Iterable[object]) -> None:
    for _ in records:
        pass


def measured(title: str, total: int, ways: Callable[[list[bytes]], Ways], *ratios: str) -> str:
    """A table of M records/s: a row a size of ``total`` bytes of records; ``ratios``: "a : b"."""
    rows = []
    for name, size in SIZES.items():
        records = records_of(size, total)
        times = medians(ways(records), rounds=7, round_s=4e-3)
        rates = [f"{len(records) / seconds / 1e6:.3f}" for seconds in times.values()]
        pairs = (ratio.split(" : ") for ratio in ratios)
        rows.append([name, *rates, *(f"{times[peer] / times[ours]:.2f}x" for ours, peer in pairs)])
    heads = [ratio.removeprefix("RecordReader ") for ratio in ratios]
    return table(f"{title}, M records per second", ["record", *times, *heads], rows)


def read(folder: Path) -> str:
    import tfrecord.reader
    from grain.experimental import TFRecordIterDataset

    path = str(folder / "in.tfrecord")

    def ways(records: list[bytes]) -> Ways:
        Path(path).write_bytes(frames_of(records))
        return {
            "RecordReader": lambda: loop(tfio_store.RecordReader(path)),
            "tfrecord": lambda: loop(tfrecord.reader.tfrecord_iterator(path)),
            "grain": lambda: loop(TFRecordIterDataset(path)),
        }

    title = "`for record in …` of a local file (only ours checks CRCs)"
    return measured(title, FILE_BYTES, ways, "RecordReader : tfrecord", "RecordReader : grain")


def write(folder: Path) -> str:
    import tensorflow as tf

    path = str(folder / "out.tfrecord")

    def one_by_one(kind: Callable[[str], tf.io.TFRecordWriter], records: list[bytes]) -> None:
        with kind(path) as writer:
            for record in records:
                writer.write(record)

    def at_once(records: list[bytes] | framing.RecordBatch) -> None:
        with tfio_store.TFRecordWriter(path) as writer:
            writer.write_batch(records)

    def ways(records: list[bytes]) -> Ways:
        batch = framing.RecordBatch.from_records(records)
        return {
            "write": lambda: one_by_one(tfio_store.TFRecordWriter, records),
            "write_batch(list)": lambda: at_once(records),
            "write_batch(RecordBatch)": lambda: at_once(batch),
            "tf.io": lambda: one_by_one(tf.io.TFRecordWriter, records),
        }

    return measured("Writing a local file", FILE_BYTES // 2, ways, "write : tf.io")


SECTIONS: dict[str, Callable[[Path], str]] = {"read": read, "write": write}


def main() -> None:
    if sys.argv[1:]:
        with scratch() as folder:
            print(SECTIONS[sys.argv[1]](Path(folder)), flush=True)
        return
    print(f"{machine()}, CRC32C by {tfio_store.backend().crc32c}\n", flush=True)
    for name in SECTIONS:  # each in a process of its own: the peers' protobufs clash in one
        subprocess.run([sys.executable, "-m", "bench.core", name], check=True)


if __name__ == "__main__":
    main()
