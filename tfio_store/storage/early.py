"""Questions that are asked before anybody knows whether their answers are needed.

Asked one after the other, each costs a distant store's whole round trip. Asked at once, all of them
cost one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from tfio_store.storage import threads
from tfio_store.storage.store import Store

__all__ = ["early"]

P = ParamSpec("P")
T = TypeVar("T")

DISTANT = 8
"""A store that is fastest with this many requests at a time is far away."""

AT_ONCE = 64


def early(
    store: Store, ask: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Callable[[], T]:
    """Begin to call ``ask``, a single request to ``store``. Call the result for the answer, or drop
    it. A store that is near is asked only then.

    ``ask`` must not wait for another early question: there are only so many threads.
    """
    if store.in_flight < DISTANT:
        return partial(ask, *args, **kwargs)
    return threads.pool("early", AT_ONCE).submit(ask, *args, **kwargs).result
