"""No finalizer waits for a loop, a lock, a pool or the network, or needs a module that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.servers.place import Place
from tests.support import collecting


def told_by(program: str, kinds: Iterable[str], place: Place) -> str:
    """What a program of `tests.support` says in stderr that ends well, behind all these kinds."""
    kinds = list(kinds)
    arguments = [",".join(kinds), place.url("folder"), json.dumps(place.storage_options)]
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.support.{program}", *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=150)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hung; stdout: {out}\nstderr: {err[-4000:]}")
    assert (process.returncode, out.split()[-1:]) == (0, kinds[-1:]), err[-4000:]
    return err


def assert_collected(kinds: Iterable[str], place: Place) -> None:
    """That the process goes on after its collector has met an object of each of these kinds."""
    told_by("collecting", kinds, place)


def test_the_collector_may_run_on_the_loop_and_inside_locks(s3: Place) -> None:
    assert_collected(collecting.KINDS, s3)


def test_a_client_of_azure_may_be_collected_on_the_loop(azure: Place) -> None:
    assert_collected(["store"], azure)


def test_a_client_of_gcs_may_be_collected_on_the_loop(gcs: Place) -> None:
    assert_collected(["store"], gcs)


@pytest.mark.tensorflow
def test_the_collector_may_meet_tensorflows_objects_there(s3: Place) -> None:
    assert_collected(collecting.TENSORFLOW_KINDS, s3)


# The names of modules that a finalizer calls are None where objects end behind the modules.


def test_a_program_that_ends_with_objects_in_a_global_prints_no_traceback(s3: Place) -> None:
    told = told_by("kept", collecting.KINDS, s3)
    assert "Exception ignored" not in told
    assert "Traceback" not in told
    for kind in ("TFRecordWriter", "ShardedWriter"):
        assert f"{kind} was dropped without close()" in told


def test_a_file_that_was_not_closed_leaves_nothing_then(tmp_path: Path) -> None:
    told_by("kept", ["record_writer"], Place(str(tmp_path), {}))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.tensorflow
def test_nor_does_one_with_an_iterator_of_tf_data(s3: Place) -> None:
    told = told_by("kept", ["dataset_iterator"], s3)
    assert "Exception ignored" not in told
    assert "Traceback" not in told
