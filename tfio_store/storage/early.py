"""Questions that are asked before anybody knows whether their answers are needed.

Asked one after the other, each costs a distant store's whole round trip. Asked at once, all of them
cost one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec, TypeVar

from tfio_store.storage.store import Store

__all__ = ["early"]

P = ParamSpec("P")
T = TypeVar("T")

DISTANT = 8
"""A store that is fastest with this many requests at a time is far away."""


def early(
    store: Store, ask: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Callable[[], T]:
    """Begin to call ``ask``, a single request to ``store``. Call the result for the answer, or drop
    it. A store that is near is asked only then. So is one that is no store of buckets: there a
    listing may fetch a whole page, and a connection may take one request at a time.
    """
    later = partial(ask, *args, **kwargs)
    if store.in_flight < DISTANT or not store.lists_cheaply:
        return later
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(later())
        except BaseException as error:
            answer.set_exception(error)

    try:
        # a daemon, since nobody waits for an answer that was dropped: not at exit either
        threading.Thread(target=run, name="tfio_store-early", daemon=True).start()
    except RuntimeError:  # the interpreter is on its way out
        return later
    return answer.result
