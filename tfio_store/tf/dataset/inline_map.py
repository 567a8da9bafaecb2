"""`Dataset.map` for functions of one op that takes microseconds.

A map hands each call to a thread, and that thread hands each op of the function to another. Waking
them takes longer than reading a batch of short records. TensorFlow has switches against both, but
hardly documents them. Where they are missing, maps work as usual.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import map_op

__all__ = ["MAPS_CAN_END", "STAYS_IN_PLACE", "map_in_parallel", "map_in_place", "map_that_waits"]


def _switches(name: str) -> Collection[str]:
    kind = getattr(map_op, name, None)
    return () if kind is None else inspect.signature(kind.__init__).parameters.keys()


def _switched(name: str, **switches: bool) -> Callable[..., tf.data.Dataset] | None:
    """The dataset class of that name, with the switches on that it has."""
    kind = getattr(map_op, name, None)
    if kind is None:
        return None
    known = _switches(name)
    found = {switch: value for switch, value in switches.items() if switch in known}

    def build(dataset: tf.data.Dataset, function: Callable[..., Any], **given: Any) -> Any:
        plain = tf.autograph.experimental.do_not_convert(function)
        return kind(dataset, plain, **given, **found)

    return build


_COMMON = {"use_inter_op_parallelism": False, "preserve_cardinality": True}
_parallel = _switched("_ParallelMapDataset", **_COMMON)
_ending = _switched("_ParallelMapDataset", **{**_COMMON, "preserve_cardinality": False})
_in_place = _switched("_MapDataset", force_synchronous=True, **_COMMON)

STAYS_IN_PLACE = "force_synchronous" in _switches("_MapDataset")
"""Whether a map in place stays one. Otherwise TensorFlow may make it one of several calls at once,
in the threads that all share."""

MAPS_CAN_END = "preserve_cardinality" in _switches("_ParallelMapDataset")
"""Whether a map can be one whose function ends it, by OUT_OF_RANGE."""


def map_in_parallel(
    dataset: tf.data.Dataset,
    function: Callable[..., Any],
    calls: int,
    *,
    deterministic: bool | None,
    ends: bool = False,
) -> tf.data.Dataset:
    """As ``dataset.map(function, calls)``; each call stays in the thread that got it. With
    ``ends``, which needs `MAPS_CAN_END`, OUT_OF_RANGE ends it, and it keeps its input."""
    build = (_ending if ends else _parallel) or tf.data.Dataset.map
    return build(dataset, function, num_parallel_calls=calls, deterministic=deterministic)


def map_in_place(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As ``dataset.map(function)``, in the thread of whoever asks for the element."""
    return (_in_place or tf.data.Dataset.map)(dataset, function)


def map_that_waits(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As `map_in_place`, for a function that waits. Where maps do not stay in place, it holds one
    of the threads that all share, and no more of them."""
    if STAYS_IN_PLACE:
        return map_in_place(dataset, function)
    return map_in_parallel(dataset, function, 1, deterministic=True)
