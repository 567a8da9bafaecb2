"""Errors that cross from a worker to the training process with all they tell.

Of an exception in a worker, a DataLoader sends its class and its text, and calls the class with the
text. Classes that take more than a text, and what they hold, would be lost. So a worker raises an
error whose class is made for it, and pickles with it: called with a text, it gives the error. Those
of this library go this way, and those of the storage, such as a FileNotFoundError with its name.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch.utils.data import get_worker_info

from tfio_store.errors import TFIOStoreError

__all__ = ["carrying_errors"]


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


@contextmanager
def carrying_errors() -> Iterator[None]:
    """In a worker, errors of this library and of the storage come out as their carriers."""
    try:
        yield
    except (TFIOStoreError, OSError) as error:
        if get_worker_info() is None or isinstance(type(error), _Carrier) or not _pickles(error):
            raise
        kind: Any = _carrier(error)
        made: _Error = kind.__new__(kind, *error.args)
        made.__dict__.update(error.__dict__)
        raise made.with_traceback(error.__traceback__) from error.__cause__


def _pickles(error: _Error) -> bool:
    """Errors of other libraries may hold a connection. Those cross as their text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
