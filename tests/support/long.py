"""Which values of a product every run tries, and which only the long one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


def long_on_pure(test: Test) -> Test:
    """Leave a test to the long run where the pure core works on it for a minute: it shows again
    what the compiled core shows in a second."""
    return pytest.mark.long(test) if os.environ.get("TFIO_STORE_CORE") == "pure" else test


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """``values`` for ``parametrize``, all after the first ``count`` of them marked ``long``."""
    return [one if i < count else long(one) for i, one in enumerate(values)]


def long(value: Any) -> Any:
    """``value``, a tuple of values or a ``pytest.param``, for the long run alone."""
    if hasattr(value, "marks"):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.long])
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.long)
