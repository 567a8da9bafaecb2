"""A block larger than the budget goes alone, also through the threads that decompress."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

MIB = 1 << 20
SIZE, COUNT = 16 * MIB, 6

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
    """Stored, decompressed, and as the caller has it: three times. It was ten times."""
    half = random.Random(1).randbytes(SIZE // 2)
    options: dict[str, Any] = {"num_shards": 1, "compression": compression, "level": 1}
    with tfs.ShardedWriter(tmp_path / "train", **options) as writer:
        for number in range(COUNT):
            writer.write(half[number:] + half + half[:number])
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "train")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    count, nbytes = map(int, ended.stdout.split())
    assert count == COUNT
    assert nbytes < 7 * SIZE  # with what is kept for reuse
