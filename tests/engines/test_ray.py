"""Ray reads and writes datasets on a local cluster, and loses a task."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.engines.deaths import die, once

ray = pytest.importorskip("ray", reason="Ray is not installed")
ray_data = pytest.importorskip("ray.data")

from tfio_store.ray import (  # noqa: E402
    TFRecordDatasink,
    TFRecordDatasource,
    read_tfrecords,
    write_tfrecords,
)

pytestmark = pytest.mark.timeout(600)  # Ray's first workers take their time on a busy machine

ROWS = [
    {
        "number": i,
        "half": i / 2,
        "text": f"é{i}",
        "data": bytes([i % 256]),
        "some": list(range(i % 4)),
        "maybe": None if i % 3 else i,
        "image": np.full((2, 3), i, np.int16),
        "mask": np.arange(3) == i % 3,
    }
    for i in range(300)
]


def of_number(row: dict[str, Any]) -> int:
    return int(row["number"])


def same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    return row.keys() == other.keys() and all(
        np.array_equal(row[name], other[name]) if isinstance(row[name], np.ndarray | list)
        else row[name] == other[name]
        for name in row
    )  # fmt: skip


def numbered(url: str) -> list[int]:
    """The column "number" of a dataset, in its order."""
    table: Any = tfs.read_table(url, columns=["number"])
    return [int(number) for number in table["number"]]


def named(manifest: tfs.DatasetManifest) -> set[str]:
    return {*manifest.names(), "_train.manifest.json"}


def test_rows_come_back_as_they_were(ray_cluster: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    given = ray_data.from_items(ROWS, override_num_blocks=3)
    manifest = write_tfrecords(given, url, compression="GZIP")
    assert (manifest.records, manifest.compression) == (300, "GZIP")
    dataset = read_tfrecords(url, override_num_blocks=2)
    assert dataset.count() == 300
    found = sorted(dataset.take_all(), key=of_number)
    assert all(same(row, other) for row, other in zip(found, ROWS, strict=True))
    assert numbered(url) == list(range(300))  # the order of Ray's blocks
    assert {path.name for path in tmp_path.iterdir()} == named(manifest)


@pytest.mark.tensorflow
@pytest.mark.long
def test_tensorflow_reads_the_same(ray_cluster: Any, tmp_path: Path) -> None:
    import tensorflow as tf

    url = str(tmp_path / "train")
    given = ray_data.range(100, override_num_blocks=2)
    write_tfrecords(given, url, names="plain")
    names = [str(path) for path in sorted(tmp_path.glob("train-*-of-*"))]
    found = [
        tf.train.Example.FromString(record).features.feature["id"].int64_list.value[0]
        for record in tf.data.TFRecordDataset(names).as_numpy_iterator()
    ]
    assert found == list(range(100))


def test_a_task_that_dies_is_retried_and_counts_once(ray_cluster: Any, tmp_path: Path) -> None:
    url, flag = str(tmp_path / "train"), tmp_path / "died"
    given = ray_data.range(40, override_num_blocks=4)
    manifest = write_tfrecords(given.map_batches(once(flag, die), batch_size=5), url)
    assert flag.exists()
    assert manifest.records == 40
    found: Any = tfs.read_table(url)
    assert sorted(found["id"]) == list(range(40))
    flag.unlink()
    assert {path.name for path in tmp_path.iterdir()} == named(manifest)


def test_only_the_columns_that_are_needed_are_decoded(ray_cluster: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1, 2], "name": ["a", "b"]}, url)
    with tfs.TFRecordWriter(tmp_path / "damaged") as writer:  # no Example by the schema
        writer.write({"x": 1, "name": 7})
    schema = tfs.Schema({"x": "int64", "name": "str"})
    dataset = read_tfrecords(tmp_path / "damaged", schema=schema, override_num_blocks=1)
    assert dataset.select_columns(["x"]).take_all() == [{"x": 1}]
    with pytest.raises(ray.exceptions.RayTaskError, match="name"):
        dataset.take_all()


def test_a_plan_is_made_once_and_travels_small(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": list(range(1000))}, url, num_shards=2)
    source = TFRecordDatasource(url)
    tasks = source.get_read_tasks(2)
    os.rename(tmp_path / "_train.manifest.json", tmp_path / "gone")
    again = source.get_read_tasks(2)
    assert [task.metadata.num_rows for task in again] == [500, 500]
    read = ray.cloudpickle.dumps(tasks[0])
    assert len(read) < 8 << 10
    rows = [table.num_rows for table in ray.cloudpickle.loads(read)()]
    assert sum(rows) == 500
    assert len(pickle.dumps(source)) < 2 << 10


@pytest.mark.parametrize("name", ["no blocks", "no rows"])
def test_an_empty_dataset_is_committed(ray_cluster: Any, tmp_path: Path, name: str) -> None:
    url = str(tmp_path / "train")
    given = ray_data.from_items([])
    if name == "no rows":
        given = ray_data.range(10, override_num_blocks=2).filter(lambda row: False)
    assert write_tfrecords(given, url).records == 0
    assert list(tfs.RecordReader(url)) == []
    assert read_tfrecords(url).take_all() == []


def test_an_empty_table_keeps_its_columns(ray_cluster: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": np.zeros(0, np.int64), "y": np.zeros((0, 2), np.float32)}, url)
    dataset = read_tfrecords(url)
    assert dataset.count() == 0
    assert dataset.schema().names == ["x", "y"]


def test_lists_of_other_lengths_in_other_blocks(ray_cluster: Any, tmp_path: Path) -> None:
    rows: list[Any] = [[], None, [0.5], np.ones(3), np.ones(2)]
    blocks = [ray_data.from_items([{"x": row}], override_num_blocks=1) for row in rows]
    given = blocks[0].union(*blocks[1:])
    for at_least in (None, 5):
        url = str(tmp_path / f"of-{at_least}")
        write_tfrecords(given, url, min_rows_per_file=at_least)
        found = read_tfrecords(url, override_num_blocks=1).take_all()
        wanted = [None if row is None else [float(x) for x in row] for row in rows]
        assert sorted((row["x"] for row in found), key=repr) == sorted(wanted, key=repr)


def test_rows_without_columns_are_refused(ray_cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5 rows and no columns"):
        write_tfrecords(
            ray_data.range(5, override_num_blocks=1).select_columns([]), str(tmp_path / "x")
        )
    assert list(tmp_path.iterdir()) == []


def test_several_datasets_have_the_columns_of_all(tmp_path: Path) -> None:
    urls = [str(tmp_path / name) for name in ("a", "b")]
    for url in urls:
        tfs.write_table({"x": [1, 2]}, url)
    for paths in (urls, iter(urls), [part for url in urls for part in tfs.partitions(url)]):
        tasks = TFRecordDatasource(paths).get_read_tasks(2)
        assert [task.schema.names for task in tasks] == [["x"]] * 2
        assert [table.to_pydict() for task in tasks for table in task()] == [{"x": [1, 2]}] * 2


def test_a_source_is_opened_once(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": list(range(100))}, url, num_shards=4)
    nbytes = sum(part.nbytes for part in tfs.partitions(url))
    source = TFRecordDatasource(url)
    os.rename(tmp_path / "_train.manifest.json", tmp_path / "gone")
    assert source.estimate_inmemory_data_size() == nbytes
    assert [len(source.get_read_tasks(count)) for count in (1, 2, 4, 2)] == [1, 2, 4, 2]


def test_dropped_blocks_are_no_dataset(ray_cluster: Any, tmp_path: Path) -> None:
    given = ray_data.range(10)
    given.context.max_errored_blocks = 1
    with pytest.raises(ValueError, match="max_errored_blocks"):
        write_tfrecords(given, str(tmp_path / "train"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most", [1, -1])
def test_a_sink_learns_of_dropped_blocks(ray_cluster: Any, tmp_path: Path, most: int) -> None:
    def fail(batch: Any) -> Any:
        if batch["id"].max() == 9:
            raise RuntimeError("the task's own")
        return batch

    given = ray_data.range(10, override_num_blocks=2).map_batches(fail)
    given.context.max_errored_blocks = most  # of this dataset alone
    with pytest.raises(Exception, match=r"max_errored_blocks|none of the tasks"):
        given.write_datasink(TFRecordDatasink(str(tmp_path / "train")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most", [5, -1])
def test_a_sink_that_no_block_reached_commits_nothing(
    ray_cluster: Any, tmp_path: Path, most: int
) -> None:
    """Ray tells the sink of its beginning with the first block that comes."""

    def fail(batch: Any) -> Any:
        raise RuntimeError("the task's own")

    given = ray_data.range(10, override_num_blocks=2).map_batches(fail, num_cpus=0.5)  # not fused
    given.context.max_errored_blocks = most
    with pytest.raises(RuntimeError, match="max_errored_blocks Ray dropped all of them"):
        given.write_datasink(TFRecordDatasink(str(tmp_path / "train")))
    assert list(tmp_path.iterdir()) == []


def test_the_arguments_are_checked(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1]}, url)
    with pytest.raises(KeyError, match="nope"):
        TFRecordDatasource(url, columns=["nope"])
    with pytest.raises(TypeError, match="columns= takes a list of names"):
        TFRecordDatasource(url, columns="x")
    with pytest.raises(ValueError, match="shuffle="):
        TFRecordDatasource(url, shuffle="rows")
    with pytest.raises(FileNotFoundError):
        TFRecordDatasource(str(tmp_path / "nothing")).get_read_tasks(1)
    with pytest.raises(ValueError, match="nothing yet"):
        _ = TFRecordDatasink(url).manifest


def test_records_without_a_schema_are_bytes(ray_cluster: Any, tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "plain") as writer:
        writer.write(b"one")
        writer.write(b"two")
    dataset = read_tfrecords(tmp_path / "plain", override_num_blocks=1)
    assert dataset.take_all() == [{"record": b"one"}, {"record": b"two"}]
    with pytest.raises(KeyError, match="infer_schema"):
        read_tfrecords(tmp_path / "plain", columns=["x"])
