"""Records as a DataLoader gives them: bytes, or tensors, packed as one piece of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from tfio_store._loader import LoaderContent, Reader
from tfio_store.example.codec import SchemaToRead
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.torch.tensors import rows_of, tensors

__all__ = ["Content", "Fetched", "content_of", "packed", "transformed"]


# Puts the tensors of a batch into one piece of shared memory, as which they leave a worker.
#
# A worker sends each memory by a file descriptor, for which the training process asks over a
# socket. For small tensors that takes far longer than all else. The copy into shared memory is the
# one that torch would make anyhow.


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


# Records as a DataLoader gives them: their bytes, or tensors of the features.


def content_of(
    source: Any,
    reader: Reader | RecordSource,
    schema: SchemaToRead | None,
    columns: Sequence[str] | None,
    images: Mapping[str, Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    *,
    skips: bool = False,
) -> Content:
    """As `Content.of`, with what the user's function makes."""
    if transform is not None and not callable(transform):
        raise TypeError(f"transform= takes a function, not {transform!r}")
    found = Content.of(source, reader, schema, columns, images, skips=skips)
    made = replace(found, transform=transform)
    made.batch([made.decode(RecordBatch.from_records([]))])  # so that a dtype fails at once
    return made


def transformed(transform: Callable[[Any], Any] | None, made: Any) -> Any:
    """What the user's function, if there is one, makes of a batch or row."""
    if transform is None:
        return made
    try:
        return transform(made)
    except StopIteration as error:  # it would pass for the end of the data
        raise RuntimeError("transform= raised StopIteration") from error


@dataclass(frozen=True, slots=True)
class Content(LoaderContent):
    """Columns become tensors, and images pixels."""

    transform: Callable[[Any], Any] | None = None

    def batch(self, parts: list[Any]) -> Any:
        """A batch of parts: a dict of tensors, or a list of bytes."""
        joined = self.joined(parts)
        return joined if self.schema is None else packed(tensors(self._shown(joined)))

    def rows(self, part: Any) -> list[Any]:
        """The rows of a part, each by itself."""
        return list(part) if self.schema is None else rows_of(tensors(self._shown(part)))

    def given(self, made: Any) -> Any:
        """What the user's function makes of a batch or row."""
        return transformed(self.transform, made)

    def _shown(self, columns: Any) -> Any:
        """Workers share the cores, and so each decodes in one thread."""
        return self.shown(columns, None if get_worker_info() is None else 1)


# Rows that were fetched and decoded together, and that a DataLoader makes one batch of.


class Row(dict[str, Any]):
    """One row of `Fetched`. By this class torch's default collate_fn finds `_collated`."""


class Fetched(Sequence[Any]):
    """``count`` rows of what `Content.decode` gave. Nothing is made of them before it is wanted:
    rows for a collate_fn of the user's, a batch for the default one."""

    def __init__(self, content: Content, decoded: Mapping[str, Any], count: int) -> None:
        self._content, self._decoded, self._count = content, decoded, count

    def batch(self) -> dict[str, Any]:
        """All rows as one batch."""
        found: dict[str, Any] = self._content.batch([self._decoded])
        return found

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(self._count)[index]]
        at = range(self._count)[index]
        (row,) = self._content.rows(self._content.cut(self._decoded, at, at + 1))
        return Row(row)


def _collated(batch: Sequence[Row], *, collate_fn_map: Any = None) -> dict[str, Any]:
    if isinstance(batch, Fetched):
        return batch.batch()
    return {
        name: collate([row[name] for row in batch], collate_fn_map=collate_fn_map)
        for name in batch[0]
    }


default_collate_fn_map[Row] = _collated
