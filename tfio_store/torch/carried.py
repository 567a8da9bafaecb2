"""Errors that cross from a worker to the training process with all they tell.

Of an exception in a worker, a DataLoader sends its class and its text, and calls the class with the
text. Classes that take more than a text, and what they hold, would be lost. So a worker raises an
error whose class is made for it, and pickles with it: called with a text, it gives the error.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import get_worker_info

from tfio_store.errors import TFIOStoreError

__all__ = ["carrying_errors"]


class _Carrier(type):
    """The class of one error."""

    carried: TFIOStoreError

    def __call__(cls, text: str) -> TFIOStoreError:
        error = cls.carried
        error.__cause__ = RuntimeError(text)
        return error


def _carrier(error: TFIOStoreError) -> _Carrier:
    kind = type(error)
    names = {"carried": error, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return _Carrier(kind.__name__, (kind,), names)


def _reduced(carrier: _Carrier) -> tuple[Any, ...]:
    return _carrier, (carrier.carried,)


copyreg.pickle(_Carrier, _reduced)


@contextmanager
def carrying_errors() -> Iterator[None]:
    """In a worker, errors of this library come out as their carriers."""
    try:
        yield
    except TFIOStoreError as error:
        if get_worker_info() is None or isinstance(type(error), _Carrier):
            raise
        kind: Any = _carrier(error)
        made: TFIOStoreError = kind.__new__(kind, *error.args)
        made.__dict__.update(error.__dict__)
        raise made.with_traceback(error.__traceback__) from error.__cause__
