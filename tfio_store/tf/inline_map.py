"""`Dataset.map` for functions of one op that takes microseconds.

A map hands each call to a thread, and that one each op of the function to another: to wake them
takes longer than a batch of short records does. TensorFlow has switches against both, but hardly
documents them; where they are missing, maps are as ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import map_op

__all__ = ["map_in_parallel", "map_in_place"]


def _switched(name: str, **switches: bool) -> Callable[..., tf.data.Dataset] | None:
    """The dataset class of that name, with those of the switches on that it has."""
    kind = getattr(map_op, name, None)
    if kind is None:
        return None
    known = inspect.signature(kind.__init__).parameters
    found = {switch: value for switch, value in switches.items() if switch in known}

    def build(dataset: tf.data.Dataset, function: Callable[..., Any], **given: Any) -> Any:
        plain = tf.autograph.experimental.do_not_convert(function)
        return kind(dataset, plain, **given, **found)

    return build


_COMMON = {"use_inter_op_parallelism": False, "preserve_cardinality": True}
_parallel = _switched("_ParallelMapDataset", **_COMMON)
_in_place = _switched("_MapDataset", force_synchronous=True, **_COMMON)


def map_in_parallel(
    dataset: tf.data.Dataset,
    function: Callable[..., Any],
    calls: int,
    *,
    deterministic: bool | None,
) -> tf.data.Dataset:
    """As ``dataset.map(function, calls)``; each call stays in the thread that got it."""
    build = _parallel or tf.data.Dataset.map
    return build(dataset, function, num_parallel_calls=calls, deterministic=deterministic)


def map_in_place(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As ``dataset.map(function)``, in the thread of whoever asks for the element."""
    return (_in_place or tf.data.Dataset.map)(dataset, function)
