"""Tasks write tables, in processes of their own, and the commit finds one schema for all."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tfio_store.tables.write_table import TableJob, WrittenTable

pa = pytest.importorskip("pyarrow")


def job_at(url: object, **options: Any) -> TableJob:
    kept = {name: options.pop(name) for name in ("schema", "nan_as_null") if name in options}
    return TableJob(tfs.WriteJob(str(url), **options), exact=True, **kept)


def written(url: Path, *tasks: list[Any], **options: Any) -> tfs.DatasetManifest:
    """One task for each list of tables."""
    job = job_at(url, **options)
    return job.commit(job.write(tables, order) for order, tables in enumerate(tasks))


def schema_of(manifest: tfs.DatasetManifest) -> tfs.Schema:
    assert manifest.schema is not None
    return tfs.Schema.from_json(manifest.schema)


def test_tasks_make_one_table(place: Place) -> None:
    url = place.url("ds/train")
    options: dict[str, Any] = {"storage_options": place.storage_options}
    job = pickle.loads(pickle.dumps(TableJob(tfs.WriteJob(url, **options), exact=True)))
    tables = [{"x": [1, 2], "name": ["a", "b"]}, {"x": [3], "name": ["c"]}]
    late = job.write([tables[1]], 1)
    early = job.write([tables[0]], 0)
    through_json = WrittenTable.from_json(json.loads(json.dumps(early.to_json())))
    manifest = job.commit([late, through_json])
    assert (manifest.records, len(manifest.shards)) == (3, 2)
    found = tfs.read_table(url, **options)
    assert (found["x"].tolist(), found["name"].tolist()) == ([1, 2, 3], ["a", "b", "c"])
    assert job.commit([early, late]) == manifest


def test_a_job_that_cannot_begin_leaves_no_claim(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="int65"):
        TableJob.begin(tmp_path / "t", schema={"x": "int65"})
    assert not list(tmp_path.iterdir())


def test_it_is_the_table_that_write_table_writes(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": pa.array([1, 2, None, 4], pa.int32()),
            "f": pa.array([0.5, 1e300, 2.5, 3.5]),
            "s": pa.array(["a", None, "b", "é"]),
            "l": pa.array([[1], [], [2, 3], [4]], pa.list_(pa.int64())),
            "d": pa.array(["x", "y", "x", "z"]).dictionary_encode(),
        }
    )
    whole = tfs.write_table(table, str(tmp_path / "whole"), exact=True)
    parts = written(tmp_path / "parts", [table[:1], table[1:2]], [table[2:]])
    assert schema_of(parts) == schema_of(whole)
    found = tfs.read_table(str(tmp_path / "parts")).to_arrow()
    assert found.to_pydict() == table.to_pydict()
    assert found.schema.types == table.schema.types


def test_nulls_that_one_task_saw_count_for_all(tmp_path: Path) -> None:
    tasks: list[list[Any]] = [[{"x": [1, 2]}], [{"x": pa.array([None, 4])}]]
    assert schema_of(written(tmp_path / "train", *tasks))["x"].nullable
    table = tfs.read_table(str(tmp_path / "train")).to_arrow()
    assert table["x"].to_pylist() == [1, 2, None, 4]


@pytest.mark.parametrize("first", ["nulls", "values"])
def test_a_task_of_nulls_alone_decides_no_type(tmp_path: Path, first: str) -> None:
    nulls, values = pa.table({"x": pa.nulls(2)}), pa.table({"x": [0.5, None]})
    tasks = [nulls, values] if first == "nulls" else [values, nulls]
    manifest = written(tmp_path / "train", *([table] for table in tasks))
    assert (schema_of(manifest)["x"].dtype, schema_of(manifest)["x"].nullable) == ("float64", True)
    found = tfs.read_table(str(tmp_path / "train")).to_arrow()["x"].to_pylist()
    assert found == [*tasks[0]["x"].to_pylist(), *tasks[1]["x"].to_pylist()]


def test_tasks_without_rows_decide_nothing(tmp_path: Path) -> None:
    empty = pa.table({"x": pa.array([], pa.float64())})
    tasks: list[list[Any]] = [[empty], [empty, {"x": ["a"]}, empty], []]
    manifest = written(tmp_path / "train", *tasks)
    assert (manifest.records, schema_of(manifest)["x"].dtype) == (1, "str")


def test_without_rows_the_columns_are_those_of_the_empty_tables(tmp_path: Path) -> None:
    manifest = written(tmp_path / "train", [pa.table({"x": pa.array([], pa.int64())})], [])
    assert (manifest.records, schema_of(manifest)["x"].dtype) == (0, "int64")
    assert tfs.read_table(str(tmp_path / "train"))["x"].shape == (0,)
    assert written(tmp_path / "none").schema is None


def test_lists_of_other_lengths_are_of_any_length(tmp_path: Path) -> None:
    tasks: list[list[Any]] = [
        [{"x": np.zeros((2, 3), np.int64)}],
        [{"x": np.ones((1, 2), np.int64)}],
        [{"x": pa.array([[5], []])}],
    ]
    assert schema_of(written(tmp_path / "train", *tasks))["x"].shape == (None,)
    found = tfs.read_table(str(tmp_path / "train"))["x"].tolist()
    assert found == [[0, 0, 0], [0, 0, 0], [1, 1], [5], []]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"x": [0.5]}, "'x' is int64 in what task 0 wrote, and float64 in what task 1 .*schema="),
        ({"x": ["a"]}, "feature 'x' is"),
        ({"x": np.zeros((1, 2, 2), np.int64)}, "feature 'x' is"),
        ({"x": [1], "y": [1]}, r"same columns; task 1 has \['y'\], and task 0 has not"),
    ],
)
def test_tasks_of_other_columns_commit_nothing(tmp_path: Path, other: Any, words: str) -> None:
    job = job_at(tmp_path / "train")
    results = [job.write([{"x": [1]}], 0), job.write([other], 1)]
    with pytest.raises(ValueError, match=words):
        job.commit(results)
    job.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_schema_holds_all_tasks_together(tmp_path: Path) -> None:
    tasks: list[list[Any]] = [[{"x": [1]}], [{"x": [0.5]}]]
    manifest = written(tmp_path / "train", *tasks, schema={"x": "float32"})
    assert schema_of(manifest)["x"].dtype == "float32"
    assert tfs.read_table(str(tmp_path / "train"))["x"].tolist() == [1, 0.5]


def test_nan_as_null(tmp_path: Path) -> None:
    manifest = written(tmp_path / "train", [{"x": [0.5, np.nan]}], nan_as_null=True)
    assert schema_of(manifest)["x"].nullable


def test_an_append_is_held_to_what_is_there(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1, 2]}, url)
    job = job_at(url, if_exists="append")
    with pytest.raises(TypeError, match=r"'x'.*row 0 is str.*int64"):
        job.write([{"x": ["a"]}], 0)
    with pytest.raises(ValueError, match=r"'x' is .*int64.* in the dataset, .*float32"):
        job_at(url, if_exists="append", schema={"x": "float32"}).write([{"x": [3]}])
    manifest = job.commit([job.write([{"x": pa.array([None, 4])}], 1)])
    assert (manifest.records, schema_of(manifest)["x"].nullable) == (4, True)
    assert tfs.read_table(url).to_arrow()["x"].to_pylist() == [1, 2, None, 4]


def test_records_without_a_schema_take_no_table(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    with tfs.ShardedWriter(url) as writer:
        writer.write(b"no Example")
    with pytest.raises(ValueError, match="records and no schema"):
        job_at(url, if_exists="append")


def test_a_failed_task_leaves_nothing(tmp_path: Path) -> None:
    job = job_at(tmp_path / "train")

    def tables() -> Any:
        yield {"x": np.arange(10)}
        raise KeyError("the engine's own")

    with pytest.raises(KeyError, match="own"):
        job.write(tables(), 0)
    job.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_small_and_a_thousand_are_one_schema(tmp_path: Path) -> None:
    columns = {f"column-{i}": np.zeros(3) for i in range(20)}
    job = job_at(tmp_path / "train")
    one = job.write([columns], 0)
    assert len(pickle.dumps(one)) < 8 << 10
    assert len(pickle.dumps(job)) < 8 << 10
    results = [one, *(WrittenTable(job.write([columns], i).result, one.schema) for i in (1, 2))]
    assert job.commit(results).records == 9
    assert not [name for name in os.listdir(tmp_path) if "claim" in name]


@pytest.mark.filterwarnings("ignore:two attempts")
@pytest.mark.parametrize("other", [[None], ["x"]], ids=["nulls", "another type"])
def test_attempts_that_do_not_count_decide_no_schema(tmp_path: Path, other: list[Any]) -> None:
    job = job_at(tmp_path / "train")
    first = job.write([pa.table({"a": [1]})], 0)
    again = job.write([pa.table({"a": other})], 0)
    manifest = job.commit([first, again])
    assert schema_of(manifest)["a"] == tfs.Feature("int64")


def test_a_second_commit_asks_for_no_schema(tmp_path: Path) -> None:
    job = job_at(tmp_path / "train")
    manifest = job.commit([job.write([pa.table({"a": [1]})], 0)])
    with pytest.raises(OSError, match=r"too late|ended"):
        job.write([pa.table({"a": ["x"]})], 1)
    assert pickle.loads(pickle.dumps(job)).commit([]) == manifest
