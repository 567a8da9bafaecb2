"""Eager calls of the bridge's ops as they are, with any inputs and attributes: what a graph that
comes from anywhere may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute

from tfio_store.tf.dataset.options import Settings

__all__ = ["SETTINGS", "call", "request"]

SETTINGS: dict[str, Any] = Settings().attributes()


def call(op: str, outputs: int, inputs: Iterable[Any], attributes: Mapping[str, Any]) -> list[Any]:
    flat = [part for named in attributes.items() for part in named]
    flat = [part.encode() if isinstance(part, str) else part for part in flat]
    return list(execute.execute(op.encode(), outputs, list(inputs), tuple(flat), context.context()))


def request(**given: Any) -> dict[str, tf.Tensor]:
    """The inputs of the ops that read blocks: of no file and no blocks, but for what is given."""
    rows = {name: tf.zeros([0, size], tf.int64) for name, size in (("table", 8), ("spans", 3))}
    none = tf.zeros([0], tf.int64)
    texts = {name: tf.fill([0], b"") for name in ("files", "codecs", "versions")}
    filled = {**texts, **rows, "groups": none, "mark": none, "wanted": none, **given}
    return {
        name: value
        if isinstance(value, tf.Tensor)
        else tf.constant(value, None if name in texts else tf.int64)
        for name, value in filled.items()
    }
