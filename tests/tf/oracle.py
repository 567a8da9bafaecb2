"""TensorFlow's own reader as the oracle: what a dataset yields, its error included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Outcome:
    """The elements before the end or the error; the error's class, None at a clean end."""

    elements: list[Any]
    error: type[Exception] | None = None


def outcome(make: Any) -> Outcome:
    """What iterating ``make()`` gives."""
    elements: list[Any] = []
    try:
        for element in make():
            value = element.numpy()
            elements.append(value if isinstance(value, bytes) else value.tolist())
    except tf.errors.OpError as error:
        return Outcome(elements, type(error))
    return Outcome(elements)


def error_of(make: Any) -> str:
    """The text of the error that iterating ``make()`` ends with."""
    try:
        for _ in make():
            pass
    except tf.errors.OpError as error:
        return error.message
    raise AssertionError("it ended without an error")
