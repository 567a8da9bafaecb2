"""No finalizer waits for a loop, a lock, a pool or the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.servers.place import Place
from tests.support import collecting


def assert_collected(kinds: Iterable[str], place: Place) -> None:
    """That the process goes on after its collector has met an object of each of these kinds."""
    kinds = list(kinds)
    arguments = [",".join(kinds), place.url("folder"), json.dumps(place.storage_options)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.collecting", *arguments],
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


def test_the_collector_may_run_on_the_loop_and_inside_locks(s3: Place) -> None:
    assert_collected(collecting.KINDS, s3)


def test_a_client_of_azure_may_be_collected_on_the_loop(azure: Place) -> None:
    assert_collected(["store"], azure)


def test_a_client_of_gcs_may_be_collected_on_the_loop(gcs: Place) -> None:
    assert_collected(["store"], gcs)


@pytest.mark.tensorflow
def test_the_collector_may_meet_tensorflows_objects_there(s3: Place) -> None:
    assert_collected(collecting.TENSORFLOW_KINDS, s3)
