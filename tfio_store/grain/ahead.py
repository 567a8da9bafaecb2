"""Reads the elements of a dataset many at a time, ahead of who asks for one after another."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grain

__all__ = ["Ahead", "elements"]


def elements(dataset: Any, indices: Sequence[int]) -> Sequence[Any]:
    """Many elements of a dataset by one read, where its Grain can do so."""
    read = getattr(dataset, "_getitems", None)
    return [dataset[i] for i in indices] if read is None else read(indices)


class Ahead(grain.MapDataset[Any]):  # type: ignore[misc]
    """The elements of a dataset, ``count`` of which are read together. ``ahead``: so many further
    groups are read meanwhile."""

    def __init__(self, parent: grain.MapDataset[Any], count: int, ahead: int) -> None:
        super().__init__(parent)
        self._count, self._ahead = count, ahead
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._groups: OrderedDict[int, Future[Sequence[Any]]] = OrderedDict()
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self.parents[0])

    def __str__(self) -> str:
        return f"Ahead(count={self._count}, ahead={self._ahead})"

    def slice(self, sl: Any) -> Ahead:
        return Ahead(self.parents[0].slice(sl), self._count, self._ahead)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        number, place = divmod(index, self._count)
        try:
            return self._group(number)[place]
        except Exception:
            return self.parents[0][index]  # raises for the element that is damaged, and no other

    def _getitems(self, indices: Sequence[int]) -> Sequence[Any]:
        return elements(self.parents[0], indices)

    def _group(self, number: int) -> Sequence[Any]:
        with self._lock:
            found = self._wanted(number)
            for more in range(number + 1, number + 1 + self._ahead):
                self._wanted(more)
            while len(self._groups) > 2 * self._ahead + 2:
                self._groups.popitem(last=False)[1].cancel()
        return found.result() if found is not None else self._read(number)

    def _wanted(self, number: int) -> Future[Sequence[Any]] | None:
        """The group, which is being read or will be."""
        if number in self._groups:
            self._groups.move_to_end(number)
            return self._groups[number]
        if not self._ahead or number * self._count >= len(self):
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._ahead + 1, "tfio-store-grain")
        self._groups[number] = self._pool.submit(self._read, number)
        return self._groups[number]

    def _read(self, number: int) -> Sequence[Any]:
        start = number * self._count
        return elements(self.parents[0], range(start, min(start + self._count, len(self))))

    def __getstate__(self) -> dict[str, Any]:
        own = ("_lock", "_groups", "_pool")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()
