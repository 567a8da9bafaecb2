"""What is decoded ahead of a training loop: the same records with any number of workers, metrics,
and nothing left behind."""

from __future__ import annotations

import gc
import os
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.training.loading import COUNT, loader, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import EpisodeWindows, TFRecordIterable  # noqa: E402

HOW = [(0, "fork"), (1, "fork"), (1, "spawn"), (2, "fork")]


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_forked_child_goes_on_with_what_was_decoded_ahead(tmp_path: Path, pause: float) -> None:
    """The records of a load go when their columns are there; a child has the one or the other."""
    texts = [f"{number:05d}" * (1 + number % 400) for number in range(20_000)]
    tfs.write_table({"x": texts}, str(tmp_path / "train"), num_shards=2)
    batches = iter(TFRecordIterable(str(tmp_path / "train"), batch_size=50))
    given = next(batches)["x"]
    time.sleep(pause)
    child = os.fork()
    if child == 0:
        try:
            whole = given + [text for batch in batches for text in batch["x"]]
            os._exit(0 if whole == texts else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert given + [text for batch in batches for text in batch["x"]] == texts
