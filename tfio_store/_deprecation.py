"""How a public name or argument goes: for some releases it works, and warns with its successor.

docs/policy.md promises it. A function that goes is decorated::

    @deprecated("tfs.read_table", since="1.2", goes="1.4")
    def load_table(source): ...

and so is one whose argument has a new name::

    @renamed({"files": "source"}, since="1.2", goes="1.4")
    def count(source): ...

A name of `tfio_store` that has another one now stands in ``_MOVED`` there. A test fails once the
version is there in which one goes.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

__all__ = ["Deprecation", "deprecated", "renamed"]

F = TypeVar("F", bound=Callable[..., Any])


class Deprecation(NamedTuple):
    """What goes, what to use instead, and by which versions."""

    what: str
    use: str
    since: str
    goes: str

    def warn(self, stacklevel: int = 3) -> None:
        """DeprecationWarning at the line of the user's code: the caller of this method's caller."""
        warnings.warn(
            f"{self.what} is deprecated since tfio_store {self.since} and goes in {self.goes}: use "
            f"{self.use}",
            DeprecationWarning,
            stacklevel=stacklevel,
        )


def deprecated(use: str, *, since: str, goes: str) -> Callable[[F], F]:
    """Decorate a function or method that goes. ``use``: its successor, as a user writes it."""

    def decorate(function: F) -> F:
        told = Deprecation(f"{function.__qualname__}()", use, since, goes)

        @functools.wraps(function)
        def warns(*args: Any, **kwargs: Any) -> Any:
            told.warn()
            return function(*args, **kwargs)

        return cast(F, warns)

    return decorate


def renamed(names: Mapping[str, str], *, since: str, goes: str) -> Callable[[F], F]:
    """Decorate a function whose arguments have new names. ``names``: the new by the old. Both at
    once are a TypeError."""

    def decorate(function: F) -> F:
        told = {
            old: Deprecation(f"{old}= of {function.__qualname__}()", f"{new}=", since, goes)
            for old, new in names.items()
        }

        @functools.wraps(function)
        def translates(*args: Any, **kwargs: Any) -> Any:
            for old in told.keys() & kwargs.keys():
                if names[old] in kwargs:
                    raise TypeError(f"give {names[old]}= alone: {old}= is its earlier name")
                told[old].warn()
                kwargs[names[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast(F, translates)

    return decorate
