"""A block larger than the budget goes alone, also through the threads that decompress."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest

import tfio_store as tfs
from tfio_store.storage.fsspec_store import MemoryStore

MIB = 1 << 20
SIZE, COUNT = 16 * MIB, 10

PROGRAM = """
import sys
import tfio_store as tfs

def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))

reader = tfs.RecordReader(sys.argv[1], memory_budget=8 << 20)
iterator = iter(reader)
before, count = resident("VmRSS:"), 0
for record in iterator:
    count += 1
    del record
print(count, resident("VmHWM:") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the most memory that it had")
@pytest.mark.parametrize("compression", ["GZIP", "ZSTD", "ZLIB"])
def test_records_larger_than_the_budget_come_one_at_a_time(
    tmp_path: Path, compression: str
) -> None:
    """Stored, decompressed, and as the caller has it: three times, or four where a codec joins
    pieces; and as much again where a thread that is done has not yet let go. It was all at once."""
    half = random.Random(1).randbytes(SIZE // 2)
    options: dict[str, Any] = {"num_shards": 1, "compression": compression, "level": 1}
    with tfs.ShardedWriter(tmp_path / "train", **options) as writer:
        for number in range(COUNT):
            writer.write(half[number:] + half + half[:number])
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "train")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    count, nbytes = map(int, ended.stdout.split())
    assert count == COUNT
    assert nbytes < 9 * SIZE


SIZES = {
    "many records in each block": [40] * 900,
    "a long record behind short ones": [30, 40, 9_000] * 8,
    "a long record before short ones": [9_000, 40, 30] * 8,
}


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize("sizes", SIZES)
def test_blocks_of_many_ranges_hold_what_the_index_says(
    sizes: str, on_corrupt: Literal["raise", "skip"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each range is scanned by itself. The sums of its records once counted as those of all."""
    dice = random.Random(sizes)
    records = [dice.randbytes(size) for size in SIZES[sizes]]
    url = f"memory://large-blocks/{sizes}/{on_corrupt}"
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=12_000) as writer:
        writer.write_batch(records)
    monkeypatch.setattr(MemoryStore, "range_bytes", 1_000)
    reader = tfs.RecordReader(url, on_corrupt=on_corrupt)
    assert list(reader) == records
    half = iter(reader)
    begun = list(islice(half, len(records) // 2))
    rest = tfs.RecordReader(url, on_corrupt=on_corrupt)
    rest.restore(reader.state())
    assert begun + list(rest) == records
