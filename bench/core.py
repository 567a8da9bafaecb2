"""The compiled core beside its peers: CRC32C, scanning, reading and writing local files.

Each row is one record size, each ratio from one run. `make bench-core` prints it all.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np

import tfio_store
from bench.timing import machine, medians, table
from tfio_store.records import framing

Clock: TypeAlias = Callable[[], float]

SIZES = {"16 B": 16, "100 B": 100, "1 KiB": 1 << 10, "10 KiB": 10 << 10, "100 KiB": 100 << 10}
SIZES["1 MiB"] = 1 << 20
IN_CACHE = 512 << 10  # a buffer that stays in the second-level cache, so that the CPU is measured
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


def crc_rows() -> list[list[str]]:
    import awscrt.checksums
    import google_crc32c

    rows = []
    for name, size in SIZES.items():
        records = records_of(size, IN_CACHE)
        frames, data = frames_of(records), records[0]
        times = medians(
            {
                "ours": lambda data=data: framing.crc32c(data),
                "google": lambda data=data: google_crc32c.value(data),
                "awscrt": lambda data=data: awscrt.checksums.crc32c(data),
                "batch": lambda frames=frames: framing.scan(frames),
            },
            clock=time.thread_time,
        )
        times["batch"] /= len(records)
        cells = [f"{size / times[who] / 1e9:.2f}" for who in ("ours", "batch", "google", "awscrt")]
        ratios = [times["google"] / times["batch"], times["awscrt"] / times["ours"]]
        rows.append([name, *cells, *(f"{ratio:.2f}x" for ratio in ratios)])
    return rows


def scan_rows() -> list[list[str]]:
    rows = []
    for name, size in SIZES.items():
        records = records_of(size, max(IN_CACHE, 4 * size))
        frames = frames_of(records)
        batch = framing.scan(frames).batch
        times = medians(
            {
                "scan": lambda frames=frames: framing.scan(frames),
                "unchecked": lambda frames=frames: framing.scan(frames, verify=False),
                "crc": lambda frames=frames: framing.crc32c(frames),
                "tolist": lambda batch=batch: batch.tolist(),
            },
            clock=time.thread_time,
        )
        count = len(records)
        rates = [f"{count / times[what] / 1e6:.2f}" for what in ("scan", "unchecked", "tolist")]
        speed = f"{len(frames) / times['scan'] / 1e9:.2f}"
        rows.append([name, *rates, speed, f"{times['crc'] / times['scan']:.2f}x"])
    return rows


def exhaust(records: Iterable[object]) -> None:
    collections.deque(records, maxlen=0)


def loop(records: Iterable[object]) -> None:
    for _ in records:
        pass


def readers(path: str) -> dict[str, Callable[[], None]]:
    import tfrecord.reader
    from grain.experimental import TFRecordIterDataset

    return {
        "ours": lambda: loop(tfio_store.RecordReader(path)),
        "tfrecord": lambda: loop(tfrecord.reader.tfrecord_iterator(path)),
        "grain": lambda: loop(TFRecordIterDataset(path)),
    }


def read_rows(folder: Path, clock: Clock) -> list[list[str]]:
    rows = []
    for name, size in SIZES.items():
        records = records_of(size, FILE_BYTES)
        path = folder / f"{size}.tfrecord"
        path.write_bytes(frames_of(records))
        times = medians(readers(str(path)), rounds=7, clock=clock)
        rates = [f"{len(records) / seconds / 1e6:.3f}" for seconds in times.values()]
        speed = f"{path.stat().st_size / times['ours'] / 1e9:.2f}"
        ratios = [f"{times[who] / times['ours']:.2f}x" for who in ("tfrecord", "grain")]
        rows.append([name, *rates, speed, *ratios])
        path.unlink()
    return rows


def writers(path: str, records: list[bytes]) -> dict[str, Callable[[], None]]:
    import tensorflow as tf

    batch = framing.RecordBatch.from_records(records)

    def ours_one_by_one() -> None:
        with tfio_store.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)

    def ours_batch() -> None:
        with tfio_store.TFRecordWriter(path) as writer:
            writer.write_batch(batch)

    def ours_list() -> None:
        with tfio_store.TFRecordWriter(path) as writer:
            writer.write_batch(records)

    def tensorflow() -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)

    return {
        "write": ours_one_by_one,
        "write_batch(list)": ours_list,
        "write_batch(RecordBatch)": ours_batch,
        "tensorflow": tensorflow,
    }


def write_rows(folder: Path, clock: Clock) -> list[list[str]]:
    rows = []
    for name, size in SIZES.items():
        records = records_of(size, FILE_BYTES // 2)
        times = medians(writers(str(folder / "out.tfrecord"), records), rounds=7, clock=clock)
        rates = [f"{len(records) / seconds / 1e6:.3f}" for seconds in times.values()]
        ratios = [f"{times['tensorflow'] / times[how]:.2f}x" for how in list(times)[:3]]
        rows.append([name, *rates, *ratios])
    return rows


def print_crc(*_: object) -> None:
    heads = ["record", "ours", "ours, in batch", "google-crc32c", "awscrt"]
    ratios = ["batch : google", "ours : awscrt"]
    print(
        table("CRC32C, GB/s, one call per record or one scan of many", heads + ratios, crc_rows())
    )


def print_scan(*_: object) -> None:
    heads = [
        "record",
        "all CRCs",
        "lengths only",
        "tolist()",
        "all CRCs, GB/s",
        "of plain CRC speed",
    ]
    print(table("Scanning memory, M records/s", heads, scan_rows()))


def second(clock: Clock) -> str:
    return "CPU second" if clock is time.process_time else "second"


def print_read(folder: Path, clock: Clock) -> None:
    heads = ["record", "RecordReader", "tfrecord", "grain", "ours, GB/s", ": tfrecord", ": grain"]
    title = (
        f"`for record in …` of a local file, M records per {second(clock)} (only ours checks CRCs)"
    )
    print(table(title, heads, read_rows(folder, clock)))


def print_write(folder: Path, clock: Clock) -> None:
    ways = ["write", "write_batch(list)", "write_batch(RecordBatch)"]
    heads = ["record", *ways, "tf.io", *(f"{way} : tf.io" for way in ways)]
    title = f"Writing a local file, M records per {second(clock)}"
    print(table(title, heads, write_rows(folder, clock)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="?", choices=SECTIONS)
    parser.add_argument(
        "--cpu", action="store_true", help="files by CPU time of the process, for a busy machine"
    )
    options = parser.parse_args()
    if options.section is not None:
        # in memory, where there is such a folder: a disk would be all that is measured
        memory = "/dev/shm" if Path("/dev/shm").exists() else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            clock = time.process_time if options.cpu else time.perf_counter
            SECTIONS[options.section](Path(folder), clock)
        return
    kernel = tfio_store.backend().crc32c
    print(f"{datetime.date.today()}, {machine()}, CRC32C by {kernel}\n", flush=True)
    for name in SECTIONS:  # each in a process of its own: the peers' protobufs clash in one
        subprocess.run([sys.executable, "-m", "bench.core", name, *sys.argv[1:]], check=True)


SECTIONS: dict[str, Callable[[Path, Clock], None]] = {
    "crc": print_crc,
    "scan": print_scan,
    "read": print_read,
    "write": print_write,
}


if __name__ == "__main__":
    main()
