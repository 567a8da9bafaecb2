"""The sources of Ray, Spark and Dask do what every door does. No cluster runs: these are the
objects that they make, and the tasks of one read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tfio_store.testing import DoorTests


class TestRay(DoorTests):
    fails_again = False
    wrong: ClassVar = {"columns": ("x",), "shuffle": ("rows",), "unknown": (1,)}

    def open(self, source: Any, **options: Any) -> Any:
        pytest.importorskip("ray", reason="Ray is not installed")
        from tfio_store.ray import TFRecordDatasource

        return TFRecordDatasource(source, schema={"x": "int64"}, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return (table for task in opened.get_read_tasks(3) for table in task())

    def numbers(self, step: Any) -> list[int]:
        found: list[int] = step["x"].to_pylist()
        return found


class TestSpark(DoorTests):
    fails_again = False
    wrong: ClassVar = {"numPartitions": ("0",), "onCorrupt": ("ignore",), "columns": ("[a]",)}

    @pytest.fixture(autouse=True)
    def pyspark(self) -> Any:
        return pytest.importorskip("pyspark", reason="Spark is not installed")

    def open(self, source: Any, storage: Any = None, **options: Any) -> Any:
        options = {{"on_corrupt": "onCorrupt"}.get(name, name): options[name] for name in options}
        paths = source if isinstance(source, list) else [source]
        return {"paths": json.dumps(paths), "schema": json.dumps({"x": "int64"}), **options}

    def steps(self, opened: Any) -> Iterator[Any]:
        from tfio_store.spark import TFRecordDataSource

        source = TFRecordDataSource(opened)
        reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
        for part in reader.partitions():
            yield from pickle.loads(pickle.dumps(reader)).read(part)

    def numbers(self, step: Any) -> list[int]:
        found: list[int] = step.column("x").to_pylist()
        return found


class TestDask(DoorTests):
    forks = fails_again = False

    def open(self, source: Any, **options: Any) -> Any:
        pytest.importorskip("dask.dataframe", reason="Dask is not installed")
        from tfio_store.dask import read_tfrecords

        return read_tfrecords(source, schema={"x": "int64"}, **options)

    def steps(self, opened: Any) -> Iterator[Any]:
        return iter([opened.compute(scheduler="synchronous")])
