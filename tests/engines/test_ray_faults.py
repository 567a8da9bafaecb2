"""What Ray's clusters do to a job: nodes and drivers that die, tasks that come late or twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tfio_store as tfs
from tests.engines.ray_nodes import NODE
from tests.servers.place import Place

ray = pytest.importorskip("ray", reason="Ray is not installed")
ray_data = pytest.importorskip("ray.data")
pa = pytest.importorskip("pyarrow")

from ray.data.datasource import WriteResult  # noqa: E402

from tfio_store.ray import TFRecordDatasink, read_tfrecords, write_tfrecords  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def wait_until(seen: Callable[[], object]) -> None:
    for _ in range(3000):
        if seen():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come")


def ids(url: str, **options: Any) -> list[int]:
    table: Any = tfs.read_table(url, columns=["id"], **options)
    return [int(number) for number in table["id"]]


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def named(manifest: tfs.DatasetManifest) -> set[str]:
    return {*manifest.names(), "_train.manifest.json"}


@ray.remote
def write_in_a_task(sink: TFRecordDatasink, start: int, stop: int, order: int) -> Any:
    return sink.write([pa.table({"id": list(range(start, stop))})], SimpleNamespace(task_idx=order))


@ray.remote
def abort_in_a_task(sink: TFRecordDatasink) -> None:
    sink.on_write_failed(RuntimeError("the driver says so"))


def results(*returned: Any) -> Any:
    rows = sum(one.result.num_records for one in returned)
    return WriteResult(num_rows=rows, size_bytes=0, write_returns=list(returned))


def started(folder: Path, **options: Any) -> TFRecordDatasink:
    sink = TFRecordDatasink(str(folder / "train"), **options)
    sink.on_write_start()
    return sink


def test_a_node_that_dies_takes_no_row_with_it(ray_cluster: Any, tmp_path: Path) -> None:
    other = ray_cluster.add_node(**NODE)
    marks = tmp_path / "marks"
    marks.mkdir()
    mine = ray.get_runtime_context().get_node_id()

    def slow(batch: Any) -> Any:
        if ray.get_runtime_context().get_node_id() != mine:
            (marks / f"{os.getpid()}").touch()
            time.sleep(1)
        return batch

    folder = tmp_path / "ds"
    folder.mkdir()
    given = ray_data.range(80, override_num_blocks=16).map_batches(slow, batch_size=5)
    made: list[tfs.DatasetManifest] = []
    spread = {"scheduling_strategy": "SPREAD", "num_cpus": 1}
    write = threading.Thread(
        target=lambda: made.append(
            write_tfrecords(given, str(folder / "train"), ray_remote_args=spread)
        )
    )
    write.start()
    try:
        wait_until(lambda: list(marks.iterdir()) or not write.is_alive())
    finally:
        ray_cluster.remove_node(other, allow_graceful=False)
    write.join()
    (manifest,) = made
    assert list(marks.iterdir()), "no task ran on the node that died"
    assert sorted(ids(str(folder / "train"))) == list(range(80))
    assert left_in(folder) == named(manifest)


DRIVER = """
import sys, time
from pathlib import Path
from tests.engines import ray_nodes
import ray
from tfio_store.ray import write_tfrecords

address, url, flag = sys.argv[1:]
ray.init(address=address, log_to_driver=False, logging_level="ERROR")

def slow(batch):
    if batch["id"][0] >= 20:
        Path(flag).touch()
        time.sleep(60)
    return batch

given = ray.data.range(40, override_num_blocks=4).map_batches(slow, batch_size=10)
write_tfrecords(given, url)
"""


def test_what_a_dead_driver_left_is_cleaned(ray_cluster: Any, tmp_path: Path) -> None:
    url, flag = str(tmp_path / "train"), tmp_path / "flag"
    command = [sys.executable, "-c", DRIVER, ray_cluster.address, url, str(flag)]
    with subprocess.Popen(command, cwd=ROOT) as driver:
        wait_until(lambda: flag.exists() or driver.poll() is not None)
        assert driver.poll() is None
        driver.send_signal(signal.SIGKILL)
    flag.unlink()
    assert left_in(tmp_path)
    with pytest.raises(FileNotFoundError):
        tfs.RecordReader(url)
    wait_until(lambda: tfs.clean(url, older_than=0) and not left_in(tmp_path))


def test_a_task_that_ends_after_the_commit_is_told_so(ray_cluster: Any, tmp_path: Path) -> None:
    sink = started(tmp_path)
    first = ray.get(write_in_a_task.remote(sink, 0, 10, 0))
    sink.on_write_complete(results(first))
    with pytest.raises(OSError, match="comes too late"):
        ray.get(write_in_a_task.remote(sink, 0, 10, 0))
    assert ids(str(tmp_path / "train")) == list(range(10))
    assert left_in(tmp_path) == named(sink.manifest)


def test_attempts_that_nobody_reports_are_deleted(ray_cluster: Any, tmp_path: Path) -> None:
    sink = started(tmp_path)
    twice = ray.get([write_in_a_task.remote(sink, 0, 10, 0) for _ in range(2)])
    other = ray.get(write_in_a_task.remote(sink, 10, 15, 1))
    sink.on_write_complete(results(other, twice[1]))
    assert ids(str(tmp_path / "train")) == list(range(15))
    assert left_in(tmp_path) == named(sink.manifest)


def test_two_commits_and_an_abort_elsewhere_harm_nothing(ray_cluster: Any, tmp_path: Path) -> None:
    sink = started(tmp_path)
    copy = ray.cloudpickle.loads(ray.cloudpickle.dumps(sink))
    written = results(ray.get(write_in_a_task.remote(sink, 0, 10, 0)))
    sink.on_write_complete(written)
    ray.get(abort_in_a_task.remote(sink))
    copy.on_write_complete(written)
    assert copy.manifest == sink.manifest
    ray.get(abort_in_a_task.remote(copy))
    assert ids(str(tmp_path / "train")) == list(range(10))


def test_an_abort_elsewhere_removes_what_was_written(ray_cluster: Any, tmp_path: Path) -> None:
    sink = started(tmp_path)
    written = results(ray.get(write_in_a_task.remote(sink, 0, 10, 0)))
    ray.get(abort_in_a_task.remote(sink))
    with pytest.raises(OSError, match="nothing was committed"):
        sink.on_write_complete(written)
    assert left_in(tmp_path) == set()


def test_rows_that_ray_lost_are_no_dataset(ray_cluster: Any, tmp_path: Path) -> None:
    sink = started(tmp_path)
    one = ray.get(write_in_a_task.remote(sink, 0, 10, 0))
    for returned, rows in (([one], 11), ([one, one], 20), ([], 10)):
        with pytest.raises(RuntimeError, match="nothing is committed"):
            sink.on_write_complete(WriteResult(rows, 0, returned))
    sink.abort()
    assert left_in(tmp_path) == set()


def test_a_job_that_fails_leaves_nothing(ray_cluster: Any, tmp_path: Path) -> None:
    def fail(batch: Any) -> Any:
        if batch["id"].max() >= 20:
            raise RuntimeError("the task's own")
        return batch

    given = ray_data.range(40, override_num_blocks=4).map_batches(fail, batch_size=10)
    with pytest.raises(Exception, match="the task's own"):
        write_tfrecords(given, str(tmp_path / "train"))
    assert left_in(tmp_path) == set()


def test_blocks_of_other_types_are_no_dataset(ray_cluster: Any, tmp_path: Path) -> None:
    ints, floats = pa.table({"x": [1, 2]}), pa.table({"x": [0.5]})
    given = ray_data.from_arrow(ints).union(ray_data.from_arrow(floats))
    with pytest.raises(ValueError, match="feature 'x' is"):
        write_tfrecords(given, str(tmp_path / "train"))
    assert left_in(tmp_path) == set()
    with pytest.raises(FileExistsError):
        tfs.write_table({"x": [1]}, str(tmp_path / "train"))
        write_tfrecords(given, str(tmp_path / "train"))


def test_a_bucket_is_written_and_read(ray_cluster: Any, s3: Place) -> None:
    url = s3.url("ds/train")
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    given = ray_data.range(100, override_num_blocks=2)
    manifest = write_tfrecords(given, url, compression="ZSTD", **options)
    more = write_tfrecords(given, url, compression="ZSTD", if_exists="append", **options)
    assert (manifest.records, more.records) == (100, 200)
    dataset = read_tfrecords(url, override_num_blocks=4, **options)
    assert sorted(row["id"] for row in dataset.take_all()) == sorted([*range(100)] * 2)


def test_one_compressed_file_is_read_by_many_tasks(ray_cluster: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    with tfs.ShardedWriter(url, num_shards=1, compression="GZIP", block_bytes=64 << 10) as writer:
        for i in range(1000):
            writer.write({"id": i, "data": bytes(1000)})
    dataset = read_tfrecords(url, schema={"id": "int64"}, override_num_blocks=4).materialize()
    assert dataset.num_blocks() == 4
    assert sorted(row["id"] for row in dataset.take_all()) == list(range(1000))


def test_shuffle_is_by_runs_and_seeds(ray_cluster: Any, tmp_path: Path) -> None:
    from ray.data import FileShuffleConfig

    url = str(tmp_path / "train")
    tfs.write_table({"id": list(range(100))}, url, num_shards=10)

    def order(**shuffle: Any) -> list[int]:
        context = ray_data.DataContext.get_current()
        was, context.execution_options.preserve_order = (
            context.execution_options.preserve_order,
            True,
        )
        try:
            dataset = read_tfrecords(url, override_num_blocks=10, **shuffle)
            return [int(row["id"]) for row in dataset.take_all()]
        finally:
            context.execution_options.preserve_order = was

    seeded = FileShuffleConfig(seed=3, reseed_after_execution=False)
    plain, one, again = order(), order(shuffle=seeded), order(shuffle=seeded)
    assert one == again
    assert one != plain
    assert sorted(order(shuffle="files")) == sorted(one) == list(range(100))


def test_tensors_of_any_length_are_lists(ray_cluster: Any, tmp_path: Path) -> None:
    import numpy as np

    url = str(tmp_path / "train")
    rows = [{"x": np.arange(i % 3 + 1)} for i in range(30)]
    write_tfrecords(ray_data.from_items(rows, override_num_blocks=2), url)
    found: Any = tfs.read_table(url)
    assert [row.tolist() for row in found["x"]] == [row["x"].tolist() for row in rows]
    wide = [{"x": np.zeros((i % 2 + 1, 2))} for i in range(4)]
    with pytest.raises(Exception, match="tensors of several shapes"):
        write_tfrecords(ray_data.from_items(wide, override_num_blocks=1), str(tmp_path / "wide"))
