"""Threads that wait for a client that blocks, and how a process ends that has such threads.

A client in Rust gives up Python's lock while it waits, and takes it again before it answers. If the
interpreter has ended meanwhile, that stops the thread inside Rust, which aborts the process. So no
call begins once the interpreter is on its way out, and those under way are waited for.

A read may be begun where the garbage collector is at work, inside any lock. So no lock is taken to
begin one.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar
from weakref import ref

from tfio_store.storage.threads import PerProcess, starting_threads

__all__ = ["Wanted", "asked", "calls", "rest"]

T = TypeVar("T")

MOST_THREADS = 256
"""Requests under way at a time. They wait for the network, not for a core."""

THREAD_NAME = "tfio_store-request"

LONGEST_S = 5.0
"""How long the end of a process waits for its last requests. A store that has stalled could take
minutes, and answers after the process has gone."""

STEP_S = 0.01

NAP_S = 0.5
"""Seconds between looks whether somebody still wants an answer."""


# Calls of the client, and the end of the process.


class Calls:
    """Which threads are inside the client, and whether more may go there. A thread calls the client
    in a ``with`` block of this. RuntimeError if the interpreter is on its way out."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A forked child has none of the threads."""
        self._inside: set[int] = set()
        self._ended = False

    def __enter__(self) -> None:
        self._inside.add(threading.get_ident())
        if self._ended:  # looked at after the thread can be seen: see `end`
            self.__exit__()
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    def __exit__(self, *_: object) -> None:
        self._inside.discard(threading.get_ident())

    def end(self) -> None:
        """Let no thread in any more, and wait for a limited time until all are out."""
        self._ended = True
        until = time.monotonic() + LONGEST_S
        while self._inside and time.monotonic() < until:
            time.sleep(STEP_S)  # without Python's lock, which they wait for


calls = Calls()
atexit.register(calls.end)
os.register_at_fork(after_in_child=calls.forget)


# The threads.

Wanted: TypeAlias = "ref[Future[Any]]"
"""Tells whether somebody wants an answer. An error of it holds this, and must not hold the answer,
which holds the error."""

Question = Callable[[Wanted], Any]


class Askers:
    """Daemon threads that start as they are needed, each for one request at a time."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Question]] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # an entry for each of them
        self._unused: SimpleQueue[None] = SimpleQueue()  # and for each thread that may yet start
        for _ in range(MOST_THREADS):
            self._unused.put(None)

    def ask(self, question: Callable[[Wanted], T]) -> Future[T]:
        answer: Future[T] = Future()
        if not taken(self._idle) and taken(self._unused):
            self._start()
        self._waiting.put((answer, question))
        return answer

    def _start(self) -> None:
        try:
            with starting_threads():
                start_new_thread(self._run, ())  # `threading` would take a lock
        except RuntimeError:
            self._unused.put(None)
            if self._unused.qsize() == MOST_THREADS:  # nobody is there
                raise

    def _run(self) -> None:
        threading.current_thread().name = THREAD_NAME
        while True:
            answer, question = self._waiting.get()
            answered(answer, question)
            del answer, question  # what they hold must not be kept until the next one comes
            self._idle.put(None)


def taken(entries: SimpleQueue[None]) -> bool:
    try:
        entries.get_nowait()
    except Empty:
        return False
    return True


_askers = PerProcess(Askers)


def asked(question: Callable[[Wanted], T]) -> Future[T]:
    """What a thread of this process gets for ``question``. To cancel it is always possible: the
    thread ends its `rest`, and what it has asked for comes unseen. RuntimeError if no thread can
    start."""
    return _askers.here.ask(question)


def answered(answer: Future[T], question: Callable[[Wanted], T]) -> None:
    try:
        if answer.cancelled():
            return
        try:
            found = question(ref(answer))
        except BaseException as error:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
        else:
            if answer.set_running_or_notify_cancel():
                answer.set_result(found)
    finally:
        del answer  # the error holds this frame


def rest(wanted: Wanted, seconds: float) -> None:
    """Sleep, while somebody wants the answer. Raises CancelledError as soon as nobody does."""
    while seconds > 0:
        time.sleep(min(seconds, NAP_S))
        seconds -= NAP_S
        answer = wanted()
        if answer is None or answer.cancelled():
            raise CancelledError
