"""The compiled bridge to TensorFlow: its module, what errors say on either side, and how the ops
wait for a store.

TensorFlow is imported by those who have a dataset of it already.
"""

from __future__ import annotations

import errno
import io
import re
import threading
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import cache
from types import ModuleType
from typing import Any, Generic, TypeVar

from tfio_store.errors import DataLossError, RecordTooLargeError, ReplacedError, TFIOStoreError
from tfio_store.records.compiled import ADVICE
from tfio_store.storage.faults import SHUTTING_DOWN, is_shutdown
from tfio_store.storage.redaction import redacted


def bridge_module() -> ModuleType:
    """`tfio_store.tf._tensorflow`; ImportError that says what to do where it was not built."""
    try:
        from tfio_store.tf import _tensorflow
    except ImportError as error:
        raise ImportError(
            f"tfio_store runs without its compiled TensorFlow module ({error}); {ADVICE}"
        ) from error
    _tensorflow.at_exit(leave)
    return _tensorflow


# Python's exceptions in TensorFlow's words.

CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15

# The first one that fits counts. So subclasses stand before their bases.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataLossError, DATA_LOSS),
    (RecordTooLargeError, RESOURCE_EXHAUSTED),
    (TFIOStoreError, DATA_LOSS),
    (FileNotFoundError, NOT_FOUND),
    (PermissionError, PERMISSION_DENIED),
    (FileExistsError, ALREADY_EXISTS),
    (IsADirectoryError, FAILED_PRECONDITION),
    (NotADirectoryError, FAILED_PRECONDITION),
    (ReplacedError, FAILED_PRECONDITION),
    (TimeoutError, DEADLINE_EXCEEDED),
    (ConnectionError, UNAVAILABLE),
    (io.UnsupportedOperation, UNIMPLEMENTED),
    (NotImplementedError, UNIMPLEMENTED),
    (MemoryError, RESOURCE_EXHAUSTED),
    (ImportError, FAILED_PRECONDITION),
    (ValueError, INVALID_ARGUMENT),
    (TypeError, INVALID_ARGUMENT),
    (CancelledError, CANCELLED),
    (KeyboardInterrupt, CANCELLED),
    (OSError, UNKNOWN),
)

CODES_OF_ERRNO = {
    errno.ENOTEMPTY: FAILED_PRECONDITION,
    errno.EFBIG: FAILED_PRECONDITION,
    errno.ENOSPC: RESOURCE_EXHAUSTED,
    errno.EDQUOT: RESOURCE_EXHAUSTED,
    errno.ENAMETOOLONG: INVALID_ARGUMENT,
    errno.EINVAL: INVALID_ARGUMENT,
    errno.ESTALE: ABORTED,
    errno.EROFS: PERMISSION_DENIED,
}


def code_of(error: BaseException) -> int:
    """The code of the same meaning. INTERNAL for an unforeseen exception."""
    if is_shutdown(error):
        return CANCELLED
    if isinstance(error, OSError) and not isinstance(error, ReplacedError):
        found = CODES_OF_ERRNO.get(error.errno or 0)
        if found is not None:
            return found
    return next((code for kind, code in CODES if isinstance(error, kind)), INTERNAL)


def explained(error: BaseException, words: str) -> str:
    """``words`` of the error, with the kind of one that was not foreseen, and what the storage's
    client said of it."""
    if not words:
        words = type(error).__name__
    elif code_of(error) == INTERNAL:
        words = f"{type(error).__name__}: {words}"
    cause = str(error.__cause__ or "")
    return redacted(f"{words} ({cause})" if cause and cause not in words else words)


# TensorFlow's errors, which begin with what went wrong.
#
# It puts the names of its own functions before the text of an error that an op gives, and the nodes
# of its graph behind it. Where Python takes the elements, the names before it can be left out.


_OF_TENSORFLOW = re.compile(r"(\{\{(?:function_node|node) [^}]*\}\}\s*)+")


def with_clear_errors(iterator: Any) -> Any:
    """The same iterator of a dataset, whose errors begin with their text."""
    import tensorflow as tf

    if isinstance(iterator, tf.data.Iterator) and hasattr(iterator, "_next_internal"):
        kind: Any = type(iterator)
        iterator.__class__ = _clear(kind)
    return iterator


@cache
def _clear(kind: Any) -> Any:
    """A subclass of TensorFlow's class of iterators, which is not public."""
    import tensorflow as tf

    def clear(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(self: Any) -> Any:
            try:
                return method(self)
            except tf.errors.OpError as error:
                found = _OF_TENSORFLOW.match(error.message)
                if found is None or type(error).__init__ is tf.errors.OpError.__init__:
                    raise
                made = type(error)(error.node_def, error.op, error.message[found.end() :])
                try:
                    raise made.with_traceback(error.__traceback__) from None
                finally:
                    del made  # which holds this frame, and so the iterator

        return call

    def restore(self: Any, restored: Any) -> Any:
        try:
            return kind._restore_from_tensors(self, restored)
        except tf.errors.NotFoundError as error:
            made = tf.errors.NotFoundError(error.node_def, error.op, f"{_OTHERS} ({error.message})")
            try:
                raise made from None
            finally:
                del made

    methods: dict[str, Any] = {"__next__": clear(kind.__next__), "get_next": clear(kind.get_next)}
    if hasattr(kind, "_restore_from_tensors"):
        methods["_restore_from_tensors"] = restore
    return type(kind.__name__, (kind,), methods)


_OTHERS = (
    "this state is of another pipeline than the iterator that is to take it: it was saved without "
    "tfio_store, or with other steps; restore it by the code that saved it, or begin anew"
)


# What nobody hears.
#
# A daemon thread may read on while the program ends, and its iterator then ends with an error.
# Python itself ends such a thread without a word. So the error is for those who catch it: if it
# ends the thread, it is not printed. The thread still ends by it, and whoever joins it gets on.


_ENDING = "interpreter is shutting down"
"""In `SHUTTING_DOWN`, and in GATE_CLOSED of ``ext/tensorflow/gate.h``."""


@cache
def end_threads_quietly() -> None:
    """From now on, no daemon thread prints that the end of the program has ended its iterator."""
    told = threading.excepthook

    def hook(raised: threading.ExceptHookArgs, /) -> None:
        daemon = raised.thread is not None and raised.thread.daemon
        if not (daemon and _ENDING in str(raised.exc_value)):
            told(raised)

    threading.excepthook = hook


# How the ops wait for a store.
#
# TensorFlow can't interrupt a call of an op. It ends an iterator between two calls, and whoever
# drops the iterator waits for the call that runs. That may be the garbage collector. It runs
# wherever somebody allocates: on the loop that does a store's requests, or inside a lock of
# `threading`. So a call of an op may neither wait long, nor take a lock that Python code may hold.
#
# A thread does what takes long. The call waits a moment for it, at a lock that no one holds while
# he does anything. What has not come by then is asked for again, by another call.
#
# Some calls have to wait until they have an answer. It is CancelledError when the interpreter
# leaves: Python ends the threads that are in it then, and TensorFlow would wait for them for ever.


PATIENCE = 0.1
"""Seconds for which a call waits."""

T = TypeVar("T")

_leaving = False


def leave() -> None:
    """The interpreter leaves: who waits gets CancelledError."""
    global _leaving
    _leaving = True


def refuse_when_leaving() -> None:
    """Raise CancelledError when the interpreter leaves."""
    if _leaving:
        raise CancelledError(SHUTTING_DOWN)


class Latch:
    """Is opened once, by any thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def open(self, _: object = None) -> None:
        self._lock.release()

    @property
    def is_open(self) -> bool:
        return not self._lock.locked()

    def wait(self) -> bool:
        """Wait a moment. False: it is not open yet."""
        if not self._lock.acquire(timeout=PATIENCE):
            return False
        self._lock.release()
        return True


class Step(Generic[T]):
    """Does ``work`` in a thread of its own, which the end of the interpreter does not wait for."""

    __slots__ = ("_error", "_latch", "_value")

    def __init__(self, work: Callable[[], T]) -> None:
        self._latch = Latch()
        self._value: T
        self._error: BaseException | None = None
        start_new_thread(self._run, (work,))  # `threading` would take a lock, and wait for it

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._value = work()
        except BaseException as error:
            self._error = error
        self._latch.open()

    def wait(self) -> bool:
        """Wait a moment. False: it is not done."""
        return self._latch.wait()

    def result(self) -> T:
        """Wait for what ``work()`` returns or raises. Ask once."""
        while not self.wait():
            refuse_when_leaving()
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # which holds this frame


class Fetch(Generic[T]):
    """A ``future`` that is waited for by its latch. Its own lock is its loop's, too."""

    __slots__ = ("_future", "_latch")

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self._latch = Latch()
        # a future keeps its callbacks: if one held this, all that was fetched would wait for the
        # garbage collector
        future.add_done_callback(self._latch.open)

    def wait(self) -> bool:
        """Wait a moment. False: it has not come."""
        return self._latch.wait()

    def result(self) -> T:
        """Wait for what the future brings."""
        while not self.wait():
            refuse_when_leaving()
        return self._future.result()

    def cancel(self) -> None:
        """Give it up. This does not wait either."""
        if not self._latch.is_open:
            start_new_thread(self._future.cancel, ())
