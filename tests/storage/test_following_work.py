"""`then`: work that begins when something else is done, and what it holds."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import CancelledError, Future
from functools import partial

import pytest

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
