"""Rows that were fetched and decoded together, and that a DataLoader makes one batch of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data._utils.collate import collate, default_collate_fn_map

from tfio_store.torch.content import Content

__all__ = ["Fetched"]


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
