"""Iterators that are saved, and restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

__all__ = ["restored"]


def restored(dataset: Any, count: int, folder: Path, again: Any = None) -> tuple[list[Any], Any]:
    """So many elements, and an iterator that goes on behind them: of ``again``, which may be made
    anew, or of the same dataset."""
    iterator = iter(dataset)
    given = [next(iterator) for _ in range(count)]
    path = tf.train.Checkpoint(iterator=iterator).write(str(folder / f"saved-{count}"))
    fresh = iter(dataset if again is None else again)
    tf.train.Checkpoint(iterator=fresh).read(path)
    return given, fresh
