"""``make bench-convert``: ``tfio-store convert`` of 10 million rows from Parquet and back, beside
pyarrow, which reads and writes the same Parquet file.

Five columns: integers, text, float64, lists of integers, and booleans. All but the first have
nulls, and some lists are empty. What comes back is compared with what went there, batch by batch,
types included. Each way runs in a process of its own, and its memory is the peak of that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.timing import machine, table

PART_ROWS = 250_000

CONVERT = """
import sys
from tfio_store.cli.entry import main
code = main(["convert", *sys.argv[1:]])
"""

PLAIN = """
import sys
import pyarrow.parquet as pq
source = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], source.schema_arrow) as writer:
    for batch in source.iter_batches(16 << 10):
        writer.write_batch(batch)
code = 0
"""

PEAK = """
with open("/proc/self/status") as status:  # not getrusage's, which a child inherits
    print(next(line for line in status if line.startswith("VmHWM")).split()[1], file=sys.stderr)
sys.exit(code)
"""


def part(seed: int, rows: int) -> pa.Table:
    chance = np.random.default_rng(seed)

    def nulls() -> np.ndarray:
        return chance.random(rows) < 0.1

    lengths = chance.integers(0, 4, rows)
    splits = np.append(0, np.cumsum(lengths)).astype(np.int32)
    values = pa.array(chance.integers(-1000, 1000, int(splits[-1])))
    words = pa.array([f"word {i}" for i in range(1000)])
    return pa.table(
        {
            "id": pa.array(np.arange(seed * PART_ROWS, seed * PART_ROWS + rows)),
            "name": words.take(pa.array(chance.integers(0, 1000, rows), mask=nulls())),
            "score": pa.array(chance.normal(size=rows), mask=nulls()),
            "ids": pa.ListArray.from_arrays(pa.array(splits), values, mask=pa.array(nulls())),
            "flag": pa.array(chance.random(rows) < 0.5, mask=nulls()),
        }
    )


def parts(rows: int) -> Iterator[pa.Table]:
    for seed, at in enumerate(range(0, rows, PART_ROWS)):
        yield part(seed, min(PART_ROWS, rows - at))


def write(path: Path, rows: int) -> None:
    with pq.ParquetWriter(path, part(0, 1).schema) as writer:
        for each in parts(rows):
            writer.write_table(each)


def ran(program: str, *arguments: object) -> tuple[float, float]:
    """Seconds, and MiB at the peak."""
    begun = time.perf_counter()
    argv = [sys.executable, "-c", program + PEAK, *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return time.perf_counter() - begun, int(done.stderr.split()[-1]) / 1024


def compare(path: Path, rows: int) -> None:
    """AssertionError where a row is not the one that was written."""
    found = pq.ParquetFile(path)
    assert found.metadata.num_rows == rows, found.metadata.num_rows
    batches = found.iter_batches(PART_ROWS)
    waiting = pa.Table.from_batches([], part(0, 1).schema)
    for wanted in parts(rows):
        while waiting.num_rows < wanted.num_rows:
            batch = pa.Table.from_batches([next(batches)])
            waiting = pa.concat_tables([waiting, batch.cast(waiting.schema)])
        read, waiting = waiting.slice(0, wanted.num_rows), waiting.slice(wanted.num_rows)
        assert read.combine_chunks().equals(wanted.combine_chunks()), wanted["id"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder, "source.parquet"), Path(folder, "back.parquet")
        write(source, rows)
        dataset = Path(folder, "dataset")
        ways = {
            "pyarrow, Parquet to Parquet": ran(PLAIN, source, Path(folder, "plain.parquet")),
            "Parquet to TFRecord": ran(CONVERT, source, dataset / "train"),
            "TFRecord to Parquet": ran(CONVERT, dataset / "train", back),
        }
        compare(back, rows)
        size = source.stat().st_size
        stored = sum(each.stat().st_size for each in dataset.iterdir())
    lines = [
        [way, f"{seconds:.1f}", f"{rows / seconds / 1e3:,.0f}", f"{mib:,.0f}"]
        for way, (seconds, mib) in ways.items()
    ]
    title = f"{rows:,} rows, {size >> 20} MiB of Parquet, {stored >> 20} MiB of TFRecord"
    print(machine(), f"load {os.getloadavg()[0]:.1f}", "", sep="\n")
    print(table(title, ["way", "seconds", "thousand rows/s", "peak MiB"], lines))


if __name__ == "__main__":
    main()
