"""`TFRecordDataset` does what every door does, and tells errors as TensorFlow does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.doors import only  # noqa: E402
from tfio_store.errors import (  # noqa: E402
    CorruptRecordError,
    DataLossError,
    RecordTooLargeError,
    ReplacedError,
    TruncatedRecordError,
)
from tfio_store.testing import DoorTests  # noqa: E402

pytestmark = pytest.mark.tensorflow

ERRORS = {
    FileNotFoundError: tf.errors.NotFoundError,
    CorruptRecordError: tf.errors.DataLossError,
    DataLossError: tf.errors.DataLossError,
    TruncatedRecordError: tf.errors.DataLossError,
    RecordTooLargeError: tf.errors.ResourceExhaustedError,
    ReplacedError: (tf.errors.FailedPreconditionError, ReplacedError),
}


class DatasetTests(DoorTests):
    pickles = forks = fails_again = False
    binds_states = binds_orders = (
        False  # TensorFlow restores them; test_replaced.py has what ours add
    )
    how: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.saved = (str(tmp_path / f"saved-{number}") for number in itertools.count())

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.TFRecordDataset(source, **{**self.how, **options})

    def numbers(self, step: Any) -> list[int]:
        if isinstance(step, dict):
            return np.atleast_1d(step["x"].numpy()).tolist()
        found = step.numpy()
        records = [found] if isinstance(found, bytes) else found.tolist()
        return [number for one in records for number in super(DatasetTests, self).numbers(one)]

    def state(self, opened: Any, steps: Iterator[Any]) -> Any:
        return tf.train.Checkpoint(iterator=steps).write(next(self.saved))

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        steps = iter(opened)
        tf.train.Checkpoint(iterator=steps).read(state)
        return steps

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, shard=(count, index), **options)

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, shuffle=True, seed=seed, **options)

    def error(self, kind: type[Exception]) -> Any:
        return ERRORS.get(kind, kind)

    def place(self, error: Any) -> tuple[str, int]:
        found = re.search(r"\(offset (\d+)\)", error.message)
        assert found, error.message
        return error.message.partition(": ")[0], int(found[1])


class TestRecords(DatasetTests):
    wrong: ClassVar = {
        "memory_budget": (0, -5, 1.5, True),
        "on_corrupt": ("ignore", 5),
        "batch_size": (0, 1.5, True),
        "shuffle": (0, "x"),
        "unknown": (1,),
    }


@only("each_record", "very_next", "damage_is_named")
class TestBatches(DatasetTests):
    how: ClassVar = {"batch_size": 7}


@only("each_record")
class TestRows(DatasetTests):
    how: ClassVar = {"batch_size": 7, "schema": {"x": "int64"}}


@only("each_record", "damage_is_skipped")
class TestTurns(DatasetTests):
    keeps_order = False
    how: ClassVar = {"num_parallel_reads": 2}
