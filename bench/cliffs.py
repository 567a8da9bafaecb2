"""``make bench-cliffs``: what is far from the usual, beside TensorFlow.

Each runs in a process of its own, so that its peak of memory is its own. Making the dataset is part
of the time. The files lie on the disk, and in its cache.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.timing import table

CASES = {
    "batch_size=1, 5 M records of 1 byte": {"batch_size": 1},
    "shuffle=10**8, 100 records": {"shuffle": 10**8},
    "shuffle=256, budget of 64 MB": {"shuffle": 256, "memory_budget": 64_000_000},
    "10,000 raw files of 3 records": {},
    "2,000 foreign GZIP files of 3 records": {},
    "batch_size=32, 2 M records of 100 bytes": {"batch_size": 32},
}


def write(folder: str, case: str, part: float) -> list[str]:
    """The files of a case, or of a ``part`` of it."""
    from tfio_store.records.framing import FrameWriter

    def framed(records: list[bytes]) -> bytes:
        writer = FrameWriter()
        writer.write_many(records)
        return bytes(writer.take())

    names = list(CASES)
    if case == names[0]:
        contents = [framed([b"x"] * int(5_000_000 * part))]
    elif case == names[1]:
        contents = [framed([b"x" * 100] * 100)]
    elif case == names[2]:
        contents = [framed([os.urandom(10_000)] * 6_000) for _ in range(max(1, int(8 * part)))]
    elif case == names[3]:
        contents = [framed([b"x" * 100] * 3)] * int(10_000 * part)
    elif case == names[4]:
        contents = [gzip.compress(framed([b"x" * 100] * 3))] * int(2_000 * part)
    else:
        contents = [framed([b"x" * 100] * int(2_000_000 * part))]
    paths = [f"{folder}/{i:05d}" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    return paths


def native(paths: list[str], options: dict[str, Any]) -> Any:
    import tensorflow as tf

    codec = "GZIP" if Path(paths[0]).read_bytes()[:2] == b"\x1f\x8b" else ""
    dataset = tf.data.TFRecordDataset(paths, codec)
    if "shuffle" in options:
        dataset = dataset.shuffle(min(options["shuffle"], 10_000))
    return dataset.batch(options["batch_size"]) if "batch_size" in options else dataset


def ours(paths: list[str], options: dict[str, Any]) -> Any:
    import tfio_store as tfs

    return tfs.TFRecordDataset(paths, **options)


def peak() -> float:
    """MiB. Not getrusage's, which a child inherits."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def run(who: str, case: str, folder: str) -> None:
    """In a process of its own: prints seconds, and MiB more than before."""
    import time

    make = {"native": native, "ours": ours}[who]
    paths, first = sorted(str(path) for path in Path(folder).iterdir()), f"{folder}-first"
    Path(first).write_bytes(Path(paths[0]).read_bytes()[:0])
    for _ in make([first], {}):  # what loads and starts is no part of the time
        pass
    before, start = peak(), time.perf_counter()
    # In batches, because to skip an element takes TensorFlow longer than to read a short record.
    for _ in make(paths, CASES[case]).batch(1024).skip(1 << 40):
        pass
    print(time.perf_counter() - start, peak() - before)


def measure(part: float) -> list[list[str]]:
    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as parent:
            folder = f"{parent}/files"
            os.mkdir(folder)
            write(folder, case, part)
            found = {}
            for who in ("native", "ours"):
                argv = [sys.executable, "-m", "bench.cliffs", "--run", who, case, folder]
                done = subprocess.run(argv, capture_output=True, text=True, check=True)
                found[who] = [float(word) for word in done.stdout.split()]
            (theirs, their_mib), (seconds, mib) = found["native"], found["ours"]
            cells = [f"{theirs:.2f}", f"{seconds:.2f}", f"{seconds / theirs:.1f}"]
            rows.append([case, *cells, f"{their_mib:.0f}", f"{mib:.0f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=float, default=1, help="of the files and records")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(*given.run)
        return
    head = ["", "native s", "ours s", "ratio", "native MiB", "ours MiB"]
    print(table("Cliffs", head, measure(given.part)))


if __name__ == "__main__":
    main()
