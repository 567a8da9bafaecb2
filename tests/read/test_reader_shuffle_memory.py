"""Shuffling keeps to the memory budget, whatever the records and the window."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.long import long_on_pure
from tfio_store.records.compression import Compressor

MIB = 1 << 20

_PEAK = """
import sys, tfio_store as tfs
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
before = peak()
reader = tfs.RecordReader(sys.argv[1], memory_budget=int(sys.argv[2]))
reader = reader.shuffle(1, window=int(sys.argv[3]))
count = sum(len(batch) for batch in reader.batches())
print(count, peak() - before)
"""


def shuffled(path: Path, *, budget: int, window: int) -> tuple[int, int]:
    """How many records, and by how many MiB the process grew at most."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path), str(budget), str(window)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    count, grown = map(int, found.stdout.split())
    return count, grown


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@long_on_pure
@needs_proc
def test_empty_records_are_counted(tmp_path: Path) -> None:
    """A small ZSTD file of millions of empty records: payload bytes alone would be one window."""
    pytest.importorskip("zstandard")
    count = 8 << 20
    data = bytes(Compressor("ZSTD", 19).compress(framed([b""] * count)))
    assert len(data) < 20_000
    (tmp_path / "x").write_bytes(data)
    records, grown = shuffled(tmp_path / "x", budget=64 * MIB, window=16)
    assert records == count
    assert grown < 64 + 100


@needs_proc
def test_a_window_of_the_budget_stays_in_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([os.urandom(10_000)] * 30_000))
    records, grown = shuffled(tmp_path / "x", budget=64 * MIB, window=32)
    assert records == 30_000
    assert grown < 64 + 100


def test_a_window_over_the_budget_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([bytes(1 << 16)] * 1000))
    reader = tfs.RecordReader(tmp_path / "x", memory_budget=16 * MIB)
    says = (
        r"window=16 takes up to [1-9][\d,]+ bytes .* memory_budget= allows 16,777,216 bytes in all"
    )
    with pytest.raises(ValueError, match=says):
        reader.shuffle(1)
    small = tfs.RecordReader(tmp_path / "x", memory_budget=1000)
    with pytest.raises(
        ValueError, match="memory_budget= allows 1,000 bytes in all: pass a smaller"
    ):
        small.shuffle(1)
    assert len(list(reader.shuffle(1, window=8))) == 1000


def test_a_window_wider_than_the_source_takes_what_the_source_does(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([b"%d" % i for i in range(100)]))
    reader = tfs.RecordReader(tmp_path / "x", memory_budget=MIB)
    assert len(set(reader.shuffle(1, window=10**8))) == 100


def test_records_larger_than_the_budget_pass_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([bytes(8 * MIB)] * 5))
    reader = tfs.RecordReader(tmp_path / "x", memory_budget=4 * MIB).shuffle(1, window=2)
    assert len(list(reader)) == 5
