"""Which of the tests of every door a class of a variant runs."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["only"]


def only(*words: str) -> Callable[[type], type]:
    """A class of those tests alone whose names have one of these words in them."""

    def decorated(cls: type) -> type:
        for name in dir(cls):
            if name.startswith("test_") and not any(word in name for word in words):
                setattr(cls, name, None)
        return cls

    return decorated
