"""Beam in several processes, and a driver that dies."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place

pytest.importorskip("apache_beam", reason="Beam is not installed")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from tests.engines.deaths import kill_when_it_waits, only_clean_sees_it
from tests.engines.test_beam import RECORDS, left_over, pipeline, read_back
from tfio_store.beam import ReadAllFromTFRecord, WriteToTFRecord
from tfio_store.write.write_job import WriteJob

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("num_shards", [0, 4])
def test_workers_are_processes(s3: Place, monkeypatch: pytest.MonkeyPatch, num_shards: int) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options: Any = {"direct_running_mode": "multi_processing", "direct_num_workers": 2}
    where: Any = {"storage_options": s3.storage_options}
    url = s3.url("t")
    with pipeline(**options) as p:
        elements = p | beam.Create(RECORDS) | beam.Reshuffle()
        written = elements | WriteToTFRecord(url, num_shards=num_shards, **where)
        assert_that(written | ReadAllFromTFRecord(**where), equal_to(RECORDS))
    assert read_back(url, s3) == sorted(RECORDS)
    assert tfs.clean(url, older_than=0, **where).objects == ()


def test_the_driver_dies(tmp_path: Path) -> None:
    url = str(tmp_path / "out" / "t")
    driver = run_driver("waits", url, tmp_path)
    kill_when_it_waits(driver, tmp_path / "waits")
    only_clean_sees_it(tmp_path, url)


def run_driver(act: str, url: str, folder: Path, **how: Any) -> subprocess.Popen[bytes]:
    """`beam_driver`, which `os.killpg` ends with all that it has begun."""
    program = [sys.executable, "-m", "tests.engines.beam_driver", act, url, str(folder)]
    return subprocess.Popen(program, cwd=ROOT, start_new_session=True, **how)


def test_a_worker_is_killed(tmp_path: Path) -> None:
    """This runner gives up then. Nothing is seen of what was written, and one may begin again."""
    url = str(tmp_path / "out" / "t")
    for ends in (True, False):
        driver = run_driver("kills", url, tmp_path, stderr=subprocess.PIPE)
        try:
            _, told = driver.communicate(timeout=200)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
        assert (driver.returncode != 0) == ends, told.decode()
        if ends:
            assert b"Channel closed" in told
            only_clean_sees_it(tmp_path, url)
    assert (tmp_path / "kills").exists()
    assert sorted(tfs.RecordReader(url)) == sorted(b"%d" % i * 1000 for i in range(3000))


@pytest.mark.parametrize("num_shards", [0, 4])
def test_a_bundle_that_fails_is_tried_again(tmp_path: Path, num_shards: int) -> None:
    """By the one of Beam's runners here that does so."""
    url, mark = str(tmp_path / "out" / "t"), tmp_path / "failed"

    def fail_at_first(record: bytes) -> bytes:
        if record == RECORDS[-1] and not mark.exists():
            mark.touch()
            raise RuntimeError("the first attempt fails")
        return record

    modes: Any = (("error", RECORDS), ("append", RECORDS * 2))
    for mode, wanted in modes:
        mark.unlink(missing_ok=True)
        with beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions([])) as p:
            records = p | beam.Create(RECORDS) | beam.Map(fail_at_first)
            _ = records | WriteToTFRecord(url, num_shards=num_shards, if_exists=mode)
        assert mark.exists()
        assert read_back(url, Place(str(tmp_path))) == sorted(wanted)
        assert left_over(url, Place(str(tmp_path))) == []


def test_a_bundle_that_ends_after_the_commit(tmp_path: Path) -> None:
    from tfio_store.beam.writing import RecordTask

    job = pickle.dumps(WriteJob(str(tmp_path / "t")))
    task, late = (RecordTask(pickle.loads(job), None, None, 1 << 20) for _ in range(2))
    task.write(b"one")
    late.write(b"two")
    pickle.loads(job).commit([task.close()])
    before = Place(str(tmp_path)).names()
    with pytest.raises(OSError, match="too late"):
        late.close()
    assert Place(str(tmp_path)).names() == before
    assert list(tfs.RecordReader(str(tmp_path / "t"))) == [b"one"]
