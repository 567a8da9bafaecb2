"""The doors to training loops do what every door does, with worker processes too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.support.doors import only
from tests.training.loading import loader
from tfio_store.testing import DoorTests

SCHEMA: Any = {"x": "int64"}
NO_BUDGET = (0, -5, 1.5, True)
POLICIES = ("ignore", 5)


class TorchTests(DoorTests):
    @pytest.fixture(autouse=True)
    def torchdata(self) -> Any:
        return pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

    @staticmethod
    def made(source: Any, **options: Any) -> Any:
        from tfio_store.torch import TFRecordIterable

        return TFRecordIterable(source, schema=SCHEMA, **{"batch_size": 7, **options})

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        opened.load_state_dict(state)
        return iter(opened)

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, rank=index, world_size=count, **options)

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, shuffle=True, seed=seed, **options)


class TestIterable(TorchTests):
    """`TFRecordIterable`, in batches."""

    wrong: ClassVar = {
        "memory_budget": NO_BUDGET,
        "on_corrupt": POLICIES,
        "batch_size": (0, 2.5),
        "num_workers": (-1,),
        "even": ("both",),
        "world_size": (0,),
        "unknown": (1,),
    }

    def open(self, source: Any, **options: Any) -> Any:
        return self.made(source, **options)

    def state(self, opened: Any, steps: Iterator[Any]) -> Any:
        return opened.state_dict()


class TestRows(TestIterable):
    """`TFRecordIterable`, by the row."""

    wrong: ClassVar = {}

    def open(self, source: Any, **options: Any) -> Any:
        return self.made(source, batch_size=None, **options)


@only("each_record", "damage", "cut")
class TestWorkers(TorchTests):
    """`TFRecordIterable` under a loader that keeps states, with two worker processes."""

    keeps_order = warns = pickles = forks = fails_again = False

    def open(self, source: Any, **options: Any) -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        dataset = self.made(source, **options)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=2)

    def state(self, opened: Any, steps: Iterator[Any]) -> Any:
        return opened.state_dict()


class TestMap(DoorTests):
    """`TFRecordMap` under a loader of batches."""

    reads_streams = skips = fails_again = False
    wrong: ClassVar = {"memory_budget": NO_BUDGET, "unknown": (1,)}

    def open(self, source: Any, **options: Any) -> Any:
        pytest.importorskip("torch", reason="PyTorch is not installed")
        from tfio_store.torch import TFRecordMap

        return TFRecordMap(source, schema=SCHEMA, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return iter(loader(opened, 0, sampler=[[i] for i in range(len(opened))]))


class GrainTests(DoorTests):
    wrong: ClassVar = {"shard": ((2, 2), (0, 0), "ab"), "unknown": (1,)}

    @pytest.fixture(autouse=True)
    def grain(self) -> Any:
        return pytest.importorskip("tests.training.grain_loading").grain

    def state(self, opened: Any, steps: Any) -> Any:
        return steps.get_state()

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        steps = self.steps(opened)
        steps.set_state(state)  # type: ignore[attr-defined]
        return steps

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, shard=(index, count), **options)


class TestGrainSource(GrainTests):
    reads_streams = skips = False
    binds_orders = False  # Grain keeps the number of the next batch

    def open(self, source: Any, **options: Any) -> Any:
        from tfio_store.grain import source as made

        return made(source, schema=SCHEMA, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return iter(opened.batch(7).to_iter_dataset())

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, **options).shuffle(seed=seed)


class TestGrainStream(GrainTests):
    def open(self, source: Any, **options: Any) -> Any:
        from tfio_store.grain import stream

        return stream(source, schema=SCHEMA, **options)

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, shuffle=True, seed=seed, **options)


class TestHuggingFace(DoorTests):
    skips = fails_again = False
    binds_states = False  # they are its own, and tell no source
    wrong: ClassVar = {"num_partitions": (0,), "unknown": (1,)}

    def open(self, source: Any, **options: Any) -> Any:
        pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
        from tfio_store.hf import iterable_dataset

        return iterable_dataset(source, SCHEMA, num_partitions=3, **options)

    def state(self, opened: Any, steps: Iterator[Any]) -> Any:
        return opened.state_dict()

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        opened.load_state_dict(state)
        return iter(opened)
