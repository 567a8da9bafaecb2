"""Iterators whose errors begin with what went wrong.

TensorFlow puts the names of its own functions before the text of an error that an op gives, and the
nodes of its graph behind it. Where Python takes the elements, the names before it can be left out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NoReturn

import tensorflow as tf

__all__ = ["with_clear_errors"]

_OF_TENSORFLOW = re.compile(r"(\{\{(?:function_node|node) [^}]*\}\}\s*)+")


def with_clear_errors(iterator: Any) -> Any:
    """The same iterator of a dataset, whose errors begin with their text."""
    if not isinstance(iterator, tf.data.Iterator) or not hasattr(iterator, "_next_internal"):
        return iterator
    kind: Any = type(iterator)
    iterator.__class__ = _clear(kind)
    return iterator


@cache
def _clear(kind: Any) -> Any:
    """A subclass of TensorFlow's class of iterators, which is not public."""

    def next_of(self: Any) -> Any:
        try:
            return kind.__next__(self)
        except tf.errors.OpError as error:
            _raise(error)

    def get_next(self: Any) -> Any:
        try:
            return kind.get_next(self)
        except tf.errors.OpError as error:
            _raise(error)

    return type(kind.__name__, (kind,), {"__next__": next_of, "get_next": get_next})


def _raise(error: Any) -> NoReturn:
    found = _OF_TENSORFLOW.match(error.message)
    if found is None or type(error).__init__ is tf.errors.OpError.__init__:
        raise error
    text = error.message[found.end() :]
    raise type(error)(error.node_def, error.op, text).with_traceback(error.__traceback__) from None
