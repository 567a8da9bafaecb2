"""The library's own doors, which need no framework, do what every door does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.doors import only
from tfio_store import dali
from tfio_store.testing import DoorTests, Site

NO_BUDGET = (0, -5, 1.5, True)
NO_THREADS = (0, -1, "2", 1.5, True)
POLICIES = ("ignore", 5, None)


class ReaderTests(DoorTests):
    """What has the methods of a reader."""

    def state(self, opened: Any, steps: Any) -> Any:
        return opened.state()

    def resume(self, opened: Any, state: Any) -> Any:
        opened.restore(state)
        return self.steps(opened)

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, **options).shard(index, count)

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, **options).shuffle(seed)


class TestRecordReader(ReaderTests):
    wrong: ClassVar = {
        "memory_budget": NO_BUDGET,
        "threads": NO_THREADS,
        "on_corrupt": POLICIES,
        "compression": ("SNAPPY",),
        "unknown": (1,),
    }

    @pytest.fixture(params=["memory", "s3"])
    def site(self, request: pytest.FixtureRequest) -> Site:
        place: Place = request.getfixturevalue(request.param)
        return Site(place.root, place.storage(), one_process=place.one_process)

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(source, **options)


@only("each_record", "ended", "damage", "two_versions", "very_next", "dropped")
class TestBatches(ReaderTests):
    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordReader(source, **options)

    def steps(self, opened: Any) -> Any:
        return opened.batches()

    def numbers(self, step: Any) -> list[int]:
        return [number for record in step for number in super(TestBatches, self).numbers(record)]


class TestMixture(ReaderTests):
    wrong: ClassVar = {"memory_budget": NO_BUDGET, "threads": NO_THREADS, "on_corrupt": POLICIES}

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.mix([(source, 1.0)], **options)


class TestRecordSource(DoorTests):
    reads_streams = skips = False
    fails_again = False  # it is a sequence, and iter() of it a generator
    wrong: ClassVar = {
        "memory_budget": NO_BUDGET,
        "cache_bytes": (-1, 1.5, "x", True),
        "threads": NO_THREADS,
    }

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.RecordSource(source, **options)


class TestPartitions(DoorTests):
    skips = False

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.partitions(source, num_partitions=3, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return chain.from_iterable(part.reader() for part in opened)


class TestTables(DoorTests):
    fails_again = False  # a generator ends with its error
    wrong: ClassVar = {"on_corrupt": POLICIES}

    @pytest.fixture(autouse=True)
    def pyarrow(self) -> Any:
        return pytest.importorskip("pyarrow")

    def open(self, source: Any, **options: Any) -> Any:
        return partial(tfs.iter_tables, source, schema={"x": "int64"}, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return iter(opened())

    def numbers(self, step: Any) -> list[int]:
        found: list[int] = step["x"].to_pylist()
        return found


class TestArrowDataset(TestTables):
    keeps_order = skips = False
    wrong: ClassVar = {"memory_budget": NO_BUDGET}

    def open(self, source: Any, **options: Any) -> Any:
        return tfs.arrow_dataset(source, {"x": "int64"}, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return iter(opened.to_batches(columns=["x"]))


class BatchInfo(NamedTuple):
    """As ``nvidia.dali.types.BatchInfo``."""

    iteration: int
    epoch_idx: int = 0


class Called:
    """A pass over `tfio_store.dali.source`, called as DALI calls it."""

    def __init__(self, made: Any) -> None:
        self.made, self.iteration = made, 0

    def __iter__(self) -> Called:
        return self

    def __next__(self) -> Any:
        found = self.made(BatchInfo(self.iteration))
        self.iteration += 1
        return found


class TestDali(DoorTests):
    reads_streams = skips = False
    wrong: ClassVar = {"batch_size": (0,), "seed": (-1,), "even": ("cut",)}

    def open(self, source: Any, **options: Any) -> Any:
        self.source, self.options = source, options
        return dali.source(source, schema={"x": "int64"}, **{"batch_size": 10, **options})

    def steps(self, opened: Any) -> Iterator[Any]:
        return Called(opened)

    def numbers(self, step: Any) -> list[int]:
        found: list[int] = step.tolist()
        return found

    def state(self, opened: Any, steps: Any) -> Any:
        return opened.state(steps.iteration)

    def resume(self, opened: Any, state: Any) -> Iterator[Any]:
        return Called(self.open(self.source, **{**self.options, "resume": state}))

    def share(self, source: Any, index: int, count: int, **options: Any) -> Any:
        return self.open(source, shard_id=index, num_shards=count, **options)

    def shuffle(self, source: Any, seed: int, **options: Any) -> Any:
        return self.open(source, shuffle=True, seed=seed, **options)
