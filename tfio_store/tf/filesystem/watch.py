"""Ends reads that nobody could ever answer.

The garbage collector may run in the thread that does all requests, and meet an iterator of
TensorFlow's there. Destroying it waits for the threads that read for it, and these wait for bytes
that only that thread can bring. Nobody knows whose read is whose. So all that are waited for at
that moment fail, as if the store were away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tfio_store.storage.connection import thread_of_requests
from tfio_store.storage.threads import collection_in, start_daemon

__all__ = ["GIVEN_UP", "watch"]

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
