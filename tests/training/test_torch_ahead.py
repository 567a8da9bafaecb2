"""What is decoded ahead of a training loop: the same records with any number of workers, metrics,
and nothing left behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.training.loading import COUNT, loader, numbers, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import EpisodeWindows, TFRecordIterable  # noqa: E402

HOW = [(0, "fork"), (1, "fork"), (1, "spawn"), (2, "fork")]


@pytest.mark.parametrize("shuffle", [False, True])
def test_any_number_of_workers_gives_the_same_records(tmp_path: Path, shuffle: bool) -> None:
    url = written(str(tmp_path / "train"))
    order = [int(x) for x in tfs.read_table(url)["x"].tolist()]
    for workers in (0, 1, 2):
        dataset = TFRecordIterable(url, batch_size=7, shuffle=shuffle, memory_budget=64 << 20)
        found = numbers(loader(dataset, workers))
        assert sorted(found) == list(range(COUNT))
        if workers < 2 and not shuffle:
            assert found == order


@pytest.mark.parametrize(("workers", "method"), HOW)
def test_metrics_of_all_workers(tmp_path: Path, workers: int, method: str) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=100)
    assert dataset.metrics() == {}
    for _ in range(2):
        for _ in loader(dataset, workers, method):
            pass
        found = dataset.metrics()
        assert found["records"] == COUNT
        assert found["bytes"] > 0
        assert found["decode_s"] > 0
        assert found["held_bytes"] == 0


def test_metrics_are_of_the_last_pass(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=100)
    for _ in loader(dataset, 2):
        pass
    next(iter(dataset))
    assert dataset.metrics()["records"] == 100
    for _ in loader(dataset, 1):
        pass
    assert dataset.metrics()["records"] == COUNT


def test_a_pass_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=10)
    steps: Any = iter(dataset)
    next(steps)
    gathering = weakref.ref(steps._gathering)
    del steps
    next(iter(dataset))  # the dataset knows where its last pass stands
    gc.collect()
    assert gathering() is None


def test_a_batch_may_be_changed_in_place(tmp_path: Path) -> None:
    found: list[int] = []
    for batch in loader(TFRecordIterable(written(str(tmp_path / "train")), batch_size=10), 0):
        found += batch["x"].tolist()
        batch["x"].zero_()
    assert sorted(found) == list(range(COUNT))


def test_metrics_of_windows(tmp_path: Path) -> None:
    features = {"steps": {"action": ("float32", (2,))}}
    with tfs.EpisodeWriter(str(tmp_path / "arm/1.0.0"), features) as writer:
        for _ in range(3):
            writer.write({"steps": [{"action": [t, 0]} for t in range(4)]})
    windows = tfs.Episodes(str(tmp_path / "arm/1.0.0")).windows(length=2)
    for workers in (0, 1):
        dataset = EpisodeWindows(windows, batch_size=5)
        count = sum(len(batch["action"]) for batch in loader(dataset, workers))
        assert dataset.metrics()["windows"] == count == 12


RESIDENT = """
import sys
from tests.training.test_torch_ahead import resident
from tfio_store.torch import TFRecordIterable

url, budget, shuffle = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
dataset = TFRecordIterable(url, batch_size=512, memory_budget=budget, shuffle=shuffle, window=4)
before, rows = resident(), 0
for batch in dataset:
    rows += len(batch["z"])
print(resident() - before, rows)
"""


def resident() -> int:
    """The most bytes that were resident so far."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is resident")
@pytest.mark.parametrize("shuffle", [False, True])
def test_little_is_resident_with_a_small_budget(tmp_path: Path, shuffle: bool) -> None:
    url, count = str(tmp_path / "train"), 100_000
    rows = np.random.default_rng(1).random((count, 250), dtype=np.float32)
    tfs.write_table({"z": rows}, url, num_shards=2)
    del rows
    command = [sys.executable, "-c", RESIDENT, url, str(32 << 20), str(shuffle)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    grown, given = map(int, ran.stdout.split())
    assert given == count
    assert grown <= (32 + 64) << 20
