"""State of a process: one for all of its threads, and another one in a forked child."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfio_store.storage.threads import PerProcess


def test_all_threads_see_one() -> None:
    state = PerProcess(object)
    start = threading.Barrier(8)

    def look(_: int) -> object:
        start.wait()
        return state.here

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(look, range(8)))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_its_parents_lock() -> None:
    lock = PerProcess(threading.Lock)
    with lock.here:
        child = os.fork()
        if child == 0:
            os._exit(0 if lock.here.acquire(timeout=60) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
