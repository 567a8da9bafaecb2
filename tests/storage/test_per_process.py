"""State of a process: one for all of its threads, and another one in a forked child."""

from __future__ import annotations

import os
import threading

import pytest

from tests.support.threads import in_threads
from tfio_store.storage import Retry
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.storage.threads import PerProcess


def test_all_threads_see_one() -> None:
    state = PerProcess(object)
    assert len(set(in_threads(lambda _: state.here))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_its_parents_lock() -> None:
    lock = PerProcess(threading.Lock)
    with lock.here:
        child = os.fork()
        if child == 0:
            os._exit(0 if lock.here.acquire(timeout=60) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_queue_behind_its_parents_requests() -> None:
    store = S3Store("s3", {}, Retry())  # which asks nothing
    pace = store._pace.here
    pace.rate, pace._cut, pace._next = 1.0, 0.0, 100.0
    assert pace.wait(pace.join(), now=0.0) > 0  # of a parent's request, which waits
    child = os.fork()
    if child == 0:
        own = store._pace.here
        os._exit(0 if own is not pace and not own._waiting else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
