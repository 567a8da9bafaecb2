"""``make bench-core``: reading and writing local files, beside peers.

Each row is one record size, each ratio from one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import tfio_store
from bench.timing import machine, medians, table
from tfio_store.records import framing

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


def read(folder: Path) -> str:
    import tfrecord.reader
    from grain.experimental import TFRecordIterDataset

    rows = []
    for name, size in SIZES.items():
        records = records_of(size, FILE_BYTES)
        path = str(folder / f"{size}.tfrecord")
        Path(path).write_bytes(frames_of(records))
        ways: dict[str, Callable[[], None]] = {
            "ours": lambda path=path: loop(tfio_store.RecordReader(path)),
            "tfrecord": lambda path=path: loop(tfrecord.reader.tfrecord_iterator(path)),
            "grain": lambda path=path: loop(TFRecordIterDataset(path)),
        }
        times = medians(ways, rounds=7)
        rates = [f"{len(records) / seconds / 1e6:.3f}" for seconds in times.values()]
        ratios = [f"{times[who] / times['ours']:.2f}x" for who in ("tfrecord", "grain")]
        rows.append([name, *rates, *ratios])
        Path(path).unlink()
    heads = ["record", "RecordReader", "tfrecord", "grain", ": tfrecord", ": grain"]
    title = "`for record in …` of a local file, M records per second (only ours checks CRCs)"
    return table(title, heads, rows)


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

    rows = []
    for name, size in SIZES.items():
        records = records_of(size, FILE_BYTES // 2)
        batch = framing.RecordBatch.from_records(records)
        ways: dict[str, Callable[[], None]] = {
            "write": lambda r=records: one_by_one(tfio_store.TFRecordWriter, r),
            "write_batch(list)": lambda r=records: at_once(r),
            "write_batch(RecordBatch)": lambda b=batch: at_once(b),
            "tf.io": lambda r=records: one_by_one(tf.io.TFRecordWriter, r),
        }
        times = medians(ways, rounds=7)
        rates = [f"{len(records) / seconds / 1e6:.3f}" for seconds in times.values()]
        rows.append([name, *rates, f"{times['tf.io'] / times['write']:.2f}x"])
    heads = ["record", *ways, "write : tf.io"]
    return table("Writing a local file, M records per second", heads, rows)


SECTIONS: dict[str, Callable[[Path], str]] = {"read": read, "write": write}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="?", choices=SECTIONS)
    options = parser.parse_args()
    if options.section is not None:
        # in memory, where there is such a folder: a disk would be all that is measured
        memory = "/dev/shm" if Path("/dev/shm").exists() else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            print(SECTIONS[options.section](Path(folder)), flush=True)
        return
    print(f"{machine()}, CRC32C by {tfio_store.backend().crc32c}\n", flush=True)
    for name in SECTIONS:  # each in a process of its own: the peers' protobufs clash in one
        subprocess.run([sys.executable, "-m", "bench.core", name], check=True)


if __name__ == "__main__":
    main()
