"""The records of a source for Grain, decoded many at a time, ahead of who asks one by
one.
"""

from __future__ import annotations

import multiprocessing
import operator
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, SupportsIndex

import grain
import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.example.ragged import Nullable, Ragged
from tfio_store.example.schema import Schema
from tfio_store.loader.content import LoaderContent
from tfio_store.read.record_source import RecordSource
from tfio_store.storage.cores import cores
from tfio_store.storage.threads import Threads


class Records(Sequence[Any]):
    """A data source for Grain. ``_getitems`` is what Grain calls for many rows at once."""

    def __init__(self, source: RecordSource, content: LoaderContent) -> None:
        self._source = source
        self._content = content

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded. None: records come as they are."""
        return self._content.schema

    @property
    def dataset(self) -> Dataset:
        """The shards that are read."""
        return self._source.dataset

    @property
    def nbytes_each(self) -> int:
        """About what a record takes in its file, and its pixels in memory."""
        return self._source.dataset.nbytes // max(1, len(self._source)) + self._content.pixels_each

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        return self._getitems((index,))[0]

    def _getitems(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        return rows_of(self.decoded(indices))

    def decoded(self, indices: Iterable[SupportsIndex]) -> Any:
        """The columns of these rows, or a list of records, by one read and one decode."""
        numbers = [operator.index(index) for index in indices]
        decoded = self._content.decode(self._source.__getitems__(numbers))
        threads = threads_of(cores())  # nobody says how many workers share the cores
        return self._content.shown(decoded, threads, numbers)

    def batch(self, part: Any) -> Any:
        """A batch of decoded rows: columns, or an array of records."""
        return part if isinstance(part, dict) else objects(part)

    def cut(self, decoded: Any, start: int, stop: int) -> Any:
        """Some of the decoded rows."""
        return self._content.cut(decoded, start, stop)

    def __repr__(self) -> str:
        return repr(self._source)


def threads_of(workers: int) -> int | None:
    """How many threads one of so many workers may keep busy: its part of the cores. None in the
    process that has no workers: all."""
    return None if multiprocessing.parent_process() is None else max(1, cores() // workers)


def objects(values: Sequence[Any]) -> Any:
    """An array that keeps byte strings and texts whole. numpy's own strings lose zeros at their
    ends."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def rows_of(decoded: Any) -> list[Any]:
    """The rows, as views. A byte string or text is an array of shape (), which Grain's ``batch``
    keeps whole. A null is None."""
    if not isinstance(decoded, dict):
        return list(decoded)
    columns = [_values(column) for column in decoded.values()]
    return [dict(zip(decoded, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    if isinstance(column, Nullable):
        pairs = zip(_values(column.values), column.valid.tolist(), strict=True)
        return [value if valid else None for value, valid in pairs]
    if isinstance(column, np.ma.MaskedArray):
        return _masked(column)
    if isinstance(column, np.ndarray) and column.dtype.hasobject and column.ndim == 1:
        return [column[i, ...] for i in range(len(column))]
    if isinstance(column, Ragged | np.ndarray):
        return list(column)
    return [column[i] for i in range(len(column))]


def _masked(column: Any) -> list[Any]:
    """A value of a row is null as a whole, or an array some of whose values are masked."""
    masks = np.ma.getmaskarray(column)
    if column.ndim > 1:
        return [row if mask.any() else row.data for row, mask in zip(column, masks, strict=True)]
    plain = _values(column.data)
    return [None if mask else value for value, mask in zip(plain, masks.tolist(), strict=True)]


# Reads the elements of a dataset many at a time, ahead of who asks for one after another.


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
        self._pool: Threads | None = None

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
            self._pool = Threads(self._ahead + 1, "tfio-store-grain")
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
