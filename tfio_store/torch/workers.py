"""What crosses between a loader's workers and the training process: errors, and objects without a
copy.
"""

from __future__ import annotations

import copyreg
import pickle
from itertools import accumulate
from multiprocessing.context import get_spawning_popen
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch.utils.data import get_worker_info

from tfio_store.errors import TFIOStoreError
from tfio_store.storage.cores import cores
from tfio_store.torch.layout import aligned

# Errors that cross from a worker to the training process with all their attributes.
#
# For an exception in a worker, a DataLoader sends its class and its text, and calls the class with
# the text. Classes that take more than a text, and what they hold, would be lost. So a worker
# raises an error whose class is made for it, and pickles with it: called with a text, it gives the
# error. Those of this library go this way, and those of the storage, such as a FileNotFoundError
# with its name.


_Error: TypeAlias = "TFIOStoreError | OSError"


class _Carrier(type):
    """The class of one error."""

    carried: _Error

    def __call__(cls, text: str) -> _Error:
        error = cls.carried
        error.__cause__ = RuntimeError(text)
        return error


def _carrier(error: _Error) -> _Carrier:
    kind = type(error)
    names = {"carried": error, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return _Carrier(kind.__name__, (kind,), names)


def _reduced(carrier: _Carrier) -> tuple[Any, ...]:
    return _carrier, (carrier.carried,)


copyreg.pickle(_Carrier, _reduced)


class _Carrying:
    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, (TFIOStoreError, OSError)) or get_worker_info() is None:
            return
        if isinstance(type(error), _Carrier) or not _pickles(error):
            return
        kind: Any = _carrier(error)
        made: _Error = kind.__new__(kind, *error.args)
        made.__dict__.update(error.__dict__)
        raise made.with_traceback(error.__traceback__) from error.__cause__


carrying_errors = _Carrying()
"""In a worker, errors of this library and of the storage come out of a ``with`` block of this as
their carriers."""


def _pickles(error: _Error) -> bool:
    """Errors of other libraries may hold a connection. Those cross as their text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


# Hands an object to the workers of a loader without a copy of its arrays for each of them.


T = TypeVar("T")

_LARGE = 64 << 10
"""Arrays of so many bytes are shared; smaller ones are copied."""


class Lent(Generic[T]):
    """An object that worker processes share with this one. Those that are forked share memory
    anyhow. Of those that are spawned each gets a small pickle, and views of one memory in which
    the object's arrays lie. Anybody else gets an ordinary pickle."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._pickled: tuple[bytes, Any, list[tuple[int, int]]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            return Lent, (self.value,)
        if self._pickled is None:
            self._pickled = _pickled(self.value)
        return _borrowed, self._pickled


def _pickled(value: Any) -> tuple[bytes, Any, list[tuple[int, int]]]:
    """The pickle, the memory of its large arrays, and where each of them lies in it."""
    arrays: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        arrays.append(raw)
        return False

    head = pickle.dumps(value, protocol=5, buffer_callback=keep)
    starts = list(accumulate((aligned(raw.nbytes) for raw in arrays), initial=0))
    memory = torch.empty(starts.pop(), dtype=torch.uint8).share_memory_()
    into = memoryview(memory.numpy())
    spans = []
    for start, raw in zip(starts, arrays, strict=True):
        into[start : start + raw.nbytes] = raw
        spans.append((start, start + raw.nbytes))
    return head, memory, spans


def _borrowed(head: bytes, memory: Any, spans: list[tuple[int, int]]) -> Lent[Any]:
    whole = memoryview(memory.numpy()).toreadonly()
    return Lent(pickle.loads(head, buffers=[whole[start:stop] for start, stop in spans]))


# How many threads work here.


def threads_here() -> int | None:
    """How many threads this process may keep busy: in a worker its part of the cores, which the
    loader's workers share. None outside of workers: all."""
    info = get_worker_info()
    return None if info is None else max(1, cores() // info.num_workers)
