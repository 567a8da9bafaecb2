"""Puts the tensors of a batch into one piece of shared memory, as which they leave a worker.

A worker sends each memory by a file descriptor, for which the training process asks over a socket.
For small tensors that takes far longer than all else. The copy into shared memory is the one that
torch would make anyhow.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch.utils.data import get_worker_info

__all__ = ["packed"]

_ALIGNED = 64


def packed(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch; in a worker with all its tensors in one memory."""
    if get_worker_info() is None:
        return batch
    found: list[torch.Tensor] = []
    for column in batch.values():
        _collect(column, found)
    sizes = [-(-tensor.nbytes // _ALIGNED) * _ALIGNED for tensor in found]
    starts = list(accumulate(sizes, initial=0))
    if not starts[-1]:
        return batch
    storage = torch.UntypedStorage._new_shared(starts[-1])
    memory = torch.empty(0, dtype=torch.uint8).set_(storage)
    moved = iter([_moved(tensor, memory, at) for tensor, at in zip(found, starts, strict=False)])
    return {name: _replaced(column, moved) for name, column in batch.items()}


def _collect(column: Any, found: list[Any]) -> None:
    if isinstance(column, torch.Tensor):
        found.append(column)
    elif isinstance(column, tuple):
        for part in column:
            _collect(part, found)


def _moved(tensor: Any, memory: Any, start: int) -> Any:
    into = memory[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    return into.copy_(tensor)


def _replaced(column: Any, moved: Any) -> Any:
    """The column with tensors of ``moved`` in place of its own, in the order of `_collect`."""
    if isinstance(column, torch.Tensor):
        return next(moved)
    if isinstance(column, tuple):
        return type(column)(*[_replaced(part, moved) for part in column])
    return column
