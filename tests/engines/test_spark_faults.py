"""What a write by Spark promises when tasks, workers, commits and drivers fail."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.engines.deaths import kill_when_it_waits, only_clean_sees_it
from tests.engines.spark_driver import behind_task, once
from tests.engines.spark_session import ROOT, spark_hosts
from tests.engines.test_spark import left_over, reader, write
from tests.servers.place import Place

pytest.importorskip("pyspark", reason="Spark is not installed")

from pyspark.sql.datasource import DataSourceArrowWriter

from tfio_store.spark import TFRecordDataSource

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]  # on a machine with other work


def test_a_worker_is_killed(spark: Any, s3: Place, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def kill_the_worker() -> None:
        import psutil

        if once(folder, "killed"):
            worker = next(one for one in psutil.Process().parents() if one.name() == "java")
            worker.kill()
            time.sleep(60)

    frame = spark.range(0, 400, 1, 4).mapInArrow(behind_task(2, kill_the_worker), "id bigint")
    url = write(frame, s3, "killed")
    assert (tmp_path / "killed").exists()
    assert [row.id for row in reader(spark, s3).load(url).collect()] == list(range(400))
    assert left_over(s3, url) == []


def test_a_slow_task_runs_twice(s3: Place, tmp_path: Path) -> None:
    """Spark runs a second copy only on another host. Every address of loopback is one."""
    url, folder = s3.url("twice"), tmp_path / "marks"
    folder.mkdir()
    with spark_hosts("127.0.0.1", "127.0.0.2") as master:
        options = json.dumps(s3.storage_options)
        driver = run_driver("twice", url, str(folder), str(tmp_path), master, options)
        try:
            assert driver.wait(600) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
    assert (folder / "waits").exists()
    table = tfs.read_table(url, storage_options=s3.storage_options)
    assert table["id"].tolist() == list(range(400))
    assert left_over(s3, url) == []


def run_driver(*arguments: str) -> subprocess.Popen[bytes]:
    """One of `spark_driver`, which `os.killpg` ends with all that it has begun."""
    program = [sys.executable, "-m", "tests.engines.spark_driver", *arguments]
    return subprocess.Popen(program, cwd=ROOT, start_new_session=True)


class Failing(DataSourceArrowWriter):
    """A writer whose commit raises, before it has done anything or behind its landing."""

    def __init__(self, writer: Any, *, behind: bool) -> None:
        self.writer = writer
        self.behind = behind

    def write(self, iterator: Any) -> Any:
        return self.writer.write(iterator)

    def commit(self, messages: Any) -> None:
        if self.behind:
            self.writer.commit(messages)
        raise OSError("the commit fails")

    def abort(self, messages: Any) -> None:
        self.writer.abort(messages)


class FailsBehindTheCommit(TFRecordDataSource):
    @classmethod
    def name(cls) -> str:
        return "fails_behind_the_commit"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return Failing(super().writer(schema, overwrite), behind=True)


class FailsBeforeTheCommit(TFRecordDataSource):
    @classmethod
    def name(cls) -> str:
        return "fails_before_the_commit"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return Failing(super().writer(schema, overwrite), behind=False)


def test_a_commit_that_landed_and_raised_is_not_undone(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(FailsBehindTheCommit)
    url = str(tmp_path / "t")
    for expected in (100, 200):
        write_by = spark.range(0, 100, 1, 2).write.format("fails_behind_the_commit")
        with pytest.raises(Exception, match="the commit fails"):
            write_by.mode("append").save(url)  # Spark has aborted, in another process
        assert reader(spark).load(url).count() == expected
        assert left_over(Place(str(tmp_path)), url) == []


def test_a_commit_that_raised_before_it_landed_is_undone(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(FailsBeforeTheCommit)
    write_by = spark.range(0, 100, 1, 2).write.format("fails_before_the_commit")
    with pytest.raises(Exception, match="the commit fails"):
        write_by.mode("append").save(str(tmp_path / "t"))
    assert Place(str(tmp_path)).names() == []


def test_a_job_whose_task_always_fails_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()

    def fail() -> None:
        raise RuntimeError("this task always fails")

    frame = spark.range(0, 100, 1, 2).mapInArrow(behind_task(1, fail), "id bigint")
    with pytest.raises(Exception, match="this task always fails"):
        write(frame, Place(str(tmp_path)), "out/t")
    assert Place(str(tmp_path)).names("out") == []


def table(*values: int) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"id": pa.array(values, pa.int64())})


def begun(spark: Any, url: str, **options: str) -> Any:
    return TFRecordDataSource({"path": url, **options}).writer(spark.range(1).schema, False)


def test_commit_twice_and_a_task_that_comes_too_late(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    writer = pickle.dumps(begun(spark, url))
    task = pickle.loads(writer)
    results = [task._write(iter([table(1, 2)]), 0), task._write(iter([table(3)]), 1)]
    messages = [pickle.loads(pickle.dumps(message_of(each))) for each in results]
    pickle.loads(writer).commit(messages)
    first = (tmp_path / "_t.manifest.json").read_bytes()
    pickle.loads(writer).commit(messages)
    pickle.loads(writer).abort(messages)
    assert (tmp_path / "_t.manifest.json").read_bytes() == first
    before = Place(str(tmp_path)).names()
    with pytest.raises(OSError, match="too late"):
        pickle.loads(writer)._write(iter([table(4)]), 1)
    assert Place(str(tmp_path)).names() == before
    assert tfs.read_table(url)["id"].tolist() == [1, 2, 3]


def message_of(result: Any) -> Any:
    from tfio_store.spark.writing import Written

    return Written(result)


def test_a_message_that_is_lost_stops_the_commit(spark: Any, tmp_path: Path) -> None:
    writer = begun(spark, str(tmp_path / "t"))
    kept = message_of(writer._write(iter([table(1)]), 0))
    with pytest.raises(ValueError, match=r"tasks \[1\] have sent nothing"):
        writer.commit([kept, None])
    writer.abort([kept, None])
    assert Place(str(tmp_path)).names() == []


def test_the_driver_dies(tmp_path: Path) -> None:
    url, folder = str(tmp_path / "out" / "t"), tmp_path / "marks"
    folder.mkdir()
    driver = run_driver("dies", url, str(folder), str(tmp_path), "local[1]", "{}")
    kill_when_it_waits(driver, folder / "waits")
    only_clean_sees_it(tmp_path, url)
