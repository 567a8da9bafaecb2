"""TensorFlow's objects among garbage: what the collector must not wait for.

The collector runs wherever somebody allocates: in the thread that does all requests, and in the
middle of a request that another thread waits for.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from typing import Any

from tfio_store.storage.connection import may_wait, thread_of_requests
from tfio_store.storage.threads import Owner, collection_in, collects_here, start_daemon

# Variables, tables and writers of summaries are destroyed inside the lock of TensorFlow's resource
# manager. A writer of summaries is made inside it too, and asks its store whether the folder is
# there. A collector that meets a resource now, in the thread that brings the answer or in the one
# that waits for it, would wait for ever. So what it meets is left to a thread.


#
# Whoever destroys an iterator waits for the calls that read for it. If the collector runs in such a
# call and meets its iterator there, the call waits for itself.


@cache
def destroy_later() -> None:
    """From now on, resources and iterators of TensorFlow's that the collector meets are destroyed
    by a thread. All others are destroyed where they are dropped, as before."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.ops.resource_variable_ops import EagerResourceDeleter
    from tensorflow.python.trackable.resource import CapturableResource

    for kind in (EagerResourceDeleter, CapturableResource):
        kind.__del__ = _not_while_collecting(kind.__del__)
    OwnedIterator.__del__ = _kept_while_collecting(getattr(OwnedIterator, "__del__", None))


def _kept_while_collecting(destroy: Callable[[Any], None] | None) -> Callable[[Any], None]:
    owner, is_finalizing = Owner(), sys.is_finalizing

    def __del__(self: Any) -> None:  # noqa: N807 - takes the place of a method of this name
        if not is_finalizing() and collects_here():
            # the iterator ends with the last reference to this tensor; frames may hold others,
            # which go before the collection ends
            held = [getattr(self, "_iterator_resource", None)]
            owner.later(let_go, held, threading.get_ident())
        if destroy is not None:
            destroy(self)

    def let_go(held: list[Any], thread: int) -> None:
        begun = collection_in(thread)
        while begun is not None and collection_in(thread) == begun:
            time.sleep(0.01)
        held.clear()

    return __del__


def _not_while_collecting(destroy: Callable[[Any], None]) -> Callable[[Any], None]:
    owner, is_finalizing = Owner(), sys.is_finalizing

    @functools.wraps(destroy)
    def __del__(self: Any) -> None:  # noqa: N807 - takes the place of a method of this name
        if is_finalizing() or may_wait() or not owner.is_here:
            destroy(self)
            return
        ended: Future[None] = Future()
        _left.add(ended)
        owner.later(work, self, ended)

    def work(resource: Any, ended: Future[None]) -> None:
        _here.destroys = True  # the thread is this resource's own
        try:
            destroy(resource)
        finally:
            _left.discard(ended)
            ended.set_result(None)

    return __del__


_left: set[Future[None]] = set()
"""What a thread has still to destroy."""
os.register_at_fork(after_in_child=_left.clear)


_here = threading.local()


def has_a_caller() -> bool:
    """Whether this thread's failures reach anybody. TensorFlow drops those of finalizers."""
    return may_wait() and not hasattr(_here, "destroys")


def wait_until_destroyed() -> None:
    """Wait for what was left to threads so far: a writer of summaries writes its last then. A
    caller inside TensorFlow would wait for ever."""
    wait(_left.copy())


# An iterator waits for the threads that read for it, and these wait for bytes that only the thread
# of all requests can bring. If the collector meets it in that thread, nobody knows whose read is
# whose. So all that are waited for at that moment fail, as if the store were away.


PATIENCE = 5.0
"""Seconds without any processor time after which the thread is waiting, and not collecting."""

NAP = 1.0

GIVEN_UP = (
    "given up: the thread that does all requests is collecting garbage, and waits for the end of "
    "an iterator that reads through it; delete iterators when they are done with, and read again"
)

log = logging.getLogger("tfio_store")


def watch(give_up: Callable[[], None]) -> None:
    """Have a thread call ``give_up`` whenever the requests stand still so."""
    start_daemon(lambda: run(give_up), "tfio_store-watch")


def run(give_up: Callable[[], None]) -> None:
    thread = thread_of_requests()
    while True:
        time.sleep(NAP)
        begun = collection_in(thread)
        if begun is None or not stands_still(thread, begun):
            continue
        log.warning("reads through TensorFlow's filesystem are %s", GIVEN_UP)
        while collection_in(thread) == begun:
            give_up()
            time.sleep(0.02)


def stands_still(thread: int, begun: int) -> bool:
    """Whether this collection goes on, and does nothing."""
    used, since = processor_time(thread), time.monotonic()
    while collection_in(thread) == begun:
        if time.monotonic() - since > PATIENCE:
            return True
        time.sleep(NAP / 10)
        now = processor_time(thread)
        if now - used > 1e-3:
            used, since = now, time.monotonic()
    return False


def processor_time(thread: int) -> float:
    """Seconds that a thread has used. Where the system does not tell, it looks as if it worked,
    since a long collection must not be taken for a wait."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic()
    return time.clock_gettime(time.pthread_getcpuclockid(thread))
