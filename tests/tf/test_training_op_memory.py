"""Parsed batches keep to the memory budget: shuffled, in order, and of streams."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.framed import framed  # noqa: E402
from tests.support.long import first  # noqa: E402
from tests.tf.run_program import run  # noqa: E402
from tfio_store.tf.dataset import ops  # noqa: E402

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc"),
]

MIB = 1 << 20

ROOM = (200 if tf.__version__.startswith("2.16.") else 150) * MIB
"""Beyond the budget. Shuffled GZIP shards take 50 to 90 MiB on a quiet machine, and took 105 on a
busy one, however small the window is: batches that TensorFlow holds, and memory that malloc keeps.
TensorFlow 2.16 took 145."""

_PEAK = """
import sys
import tensorflow as tf
import tfio_store as tfs  # noqa: E402

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10

spec = {"x": tf.io.FixedLenFeature([], tf.string)}
options = {"batch_size": 64, "schema": spec, "memory_budget": int(sys.argv[3])}
if sys.argv[4] == "shuffled":
    options["shuffle"] = True
def count(source):
    batches = tfs.TFRecordDataset(source, **options)
    return int(batches.reduce(0, lambda n, batch: n + tf.size(batch["x"])))
count(sys.argv[1])
before = peak()
print(count(sys.argv[2]), peak() - before)
"""


@pytest.mark.parametrize("order", first(1, ["shuffled", "in order"]))
@pytest.mark.parametrize("codec", first(1, ["GZIP", None]))
def test_peak(tmp_path: Path, order: str, codec: str | None) -> None:
    budget, count = 48 * MIB, 12_000
    record = tfs.encode_example({"x": bytes(16 << 10)})
    for name, records in (("small", 200), ("large", count)):
        with tfs.ShardedWriter(str(tmp_path / name), num_shards=2, compression=codec) as writer:
            writer.write_batch([record] * records)
    assert grown(tmp_path, count, budget, order) < budget + ROOM


@pytest.mark.parametrize("size", first(1, [256 << 10, 16 << 10]))
def test_peak_of_a_stream(tmp_path: Path, size: int) -> None:
    budget, count = 48 * MIB, 200 * MIB // size
    frames = framed([tfs.encode_example({"x": bytes(size)})])
    for name, records in (("small", 64), ("large", count)):
        with gzip.open(tmp_path / name, "wb", 1) as file:
            for _ in range(records):
                file.write(frames)
    assert grown(tmp_path, count, budget, "in order") < budget + ROOM


def grown(folder: Path, count: int, budget: int, order: str) -> int:
    """By how many bytes a process grows that reads the ``count`` records of "large" behind those of
    "small"."""
    found = subprocess.run(
        [sys.executable, "-c", _PEAK, f"{folder}/small", f"{folder}/large", str(budget), order],
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    records, mebibytes = map(int, found.stdout.split())
    assert records == count
    return mebibytes * MIB


_POOL = """
data = b"x" * 1000
with tfs.TFRecordWriter(ARGS["path"]) as writer:
    writer.write_batch([data] * 5000)
from tfio_store.records._core import pool_kept
del writer
before = pool_kept()
for batch in tfs.TFRecordDataset(ARGS["path"], batch_size=1000):
    del batch
print(before, pool_kept())
"""


def test_one_pool_in_a_process(tmp_path: Path) -> None:
    """The ops take their memory from the core's pool."""
    pytest.importorskip("tfio_store.records._core")
    if ops.bridge() != "native":
        pytest.skip("without the ops nothing of theirs is kept")
    before, behind = map(int, run(_POOL, path=str(tmp_path / "file")).split())
    assert behind > before
