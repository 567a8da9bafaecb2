"""Work that begins when something else is done, and what it holds."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.storage.test_resources import eventually
from tfio_store.maintain.watched import WatchedStore
from tfio_store.storage import LocalCache, ObjectInfo
from tfio_store.storage.cache.store import cached
from tfio_store.storage.threads import pool, then


class Bytes:
    """What was read."""


@pytest.mark.parametrize("cancelled", [False, True])
def test_nothing_is_held_until_garbage_is_collected(cancelled: bool) -> None:
    """A reader of a bucket held all that it had read, until the collector came by."""
    gc.collect()
    gc.disable()
    try:
        first: Future[Bytes] = Future()
        made = then(pool(), first, partial(_work, first))
        read = Bytes()
        held = weakref.ref(read)
        if cancelled:
            assert made.cancel()
        first.set_result(read)
        if cancelled:
            with pytest.raises(CancelledError):
                made.result()
        else:
            assert made.result() == "made"
        pool().submit(int).result()  # whoever worked on it is done
        del first, made, read
        assert held() is None
    finally:
        gc.enable()


def _work(first: Future[Bytes]) -> str:
    first.result()
    return "made"


class Arrays:
    """A store of zeros, whose answers tell when they are gone."""

    in_flight, service = 16, "one"

    def __init__(self) -> None:
        self.read_so_far: list[weakref.ref[Any]] = []
        self.comes = True

    def url(self, path: str) -> str:
        return path

    def info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, 100, "v1")

    def read(self, path: str, start: int, stop: int, **_: object) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.comes:
            found = np.zeros(stop - start, np.uint8)
            self.read_so_far.append(weakref.ref(found))
            threading.Timer(0.05, answer.set_result, [found]).start()
        else:
            self.waiting = answer
        return answer


WRAPPED: dict[str, Callable[[Any, Path], Any]] = {
    "watched": lambda store, folder: WatchedStore(store),
    "cached": lambda store, folder: cached(store, LocalCache(folder)),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_what_a_wrapped_store_read_waits_for_no_collector(how: str, tmp_path: Path) -> None:
    arrays = Arrays()
    store = WRAPPED[how](arrays, tmp_path)
    gc.collect()
    gc.disable()
    try:
        answers = [store.read("x", at, at + 10, etag="v1") for at in range(0, 100, 10)]
        assert all(bytes(answer.result()) == bytes(10) for answer in answers)
        del answers
        until = time.monotonic() + 10
        while any(found() is not None for found in arrays.read_so_far):  # a thread may be late
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        gc.enable()
    assert len(arrays.read_so_far) == 10


@pytest.mark.parametrize("how", WRAPPED)
def test_what_a_wrapped_store_reads_is_given_up_with_it(how: str, tmp_path: Path) -> None:
    arrays = Arrays()
    store = WRAPPED[how](arrays, tmp_path)
    arrays.comes = False
    answer = store.read("x", 0, 10, etag="v1")
    assert eventually(lambda: hasattr(arrays, "waiting"))
    assert eventually(answer.cancel)
    assert eventually(arrays.waiting.cancelled)
