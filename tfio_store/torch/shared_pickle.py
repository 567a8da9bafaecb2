"""Hands an object to the workers of a loader without a copy of its arrays for each of them."""

from __future__ import annotations

import pickle
from itertools import accumulate
from multiprocessing.context import get_spawning_popen
from typing import Any, Generic, TypeVar

import torch

__all__ = ["Lent"]

T = TypeVar("T")

_LARGE = 64 << 10
"""Arrays of so many bytes are shared; smaller ones are copied."""

_ALIGNED = 64


class Lent(Generic[T]):
    """An object that worker processes share with this one. Those that are forked share memory
    anyhow. Of those that are spawned each gets a small pickle, and views of one memory in which
    the object's arrays lie. Anybody else gets an ordinary pickle."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._pickled: tuple[bytes, Any, list[tuple[int, int]]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            return Lent, (self.value,)
        if self._pickled is None:
            self._pickled = _pickled(self.value)
        return _borrowed, self._pickled


def _pickled(value: Any) -> tuple[bytes, Any, list[tuple[int, int]]]:
    """The pickle, the memory of its large arrays, and where each of them lies in it."""
    arrays: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LARGE:
            return True
        arrays.append(raw)
        return False

    head = pickle.dumps(value, protocol=5, buffer_callback=keep)
    sizes = [-(-raw.nbytes // _ALIGNED) * _ALIGNED for raw in arrays]
    starts = list(accumulate(sizes, initial=0))
    memory = torch.empty(starts.pop(), dtype=torch.uint8).share_memory_()
    into = memoryview(memory.numpy())
    spans = []
    for start, raw in zip(starts, arrays, strict=True):
        into[start : start + raw.nbytes] = raw
        spans.append((start, start + raw.nbytes))
    return head, memory, spans


def _borrowed(head: bytes, memory: Any, spans: list[tuple[int, int]]) -> Lent[Any]:
    whole = memoryview(memory.numpy()).toreadonly()
    return Lent(pickle.loads(head, buffers=[whole[start:stop] for start, stop in spans]))
