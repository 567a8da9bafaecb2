"""What Grain reads: the records of a source, decoded many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from tfio_store.example.nullable import Nullable
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.read.record_source import RecordSource
from tfio_store.tools.loader_content import LoaderContent

__all__ = ["Records", "objects", "rows_of"]


class Records(Sequence[Any]):
    """A data source for Grain. ``_getitems`` is what Grain calls for many rows at once."""

    def __init__(self, source: RecordSource, content: LoaderContent) -> None:
        self._source = source
        self._content = content

    @property
    def schema(self) -> Schema | None:
        """What is decoded of the records. None: they come as they are."""
        return self._content.schema

    @property
    def nbytes_each(self) -> int:
        """About what a record takes in its file."""
        return self._source.dataset.nbytes // max(1, len(self._source))

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: Any) -> Any:
        return self._getitems((index,))[0]

    def _getitems(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        return rows_of(self.decoded(indices))

    def decoded(self, indices: Iterable[SupportsIndex]) -> Any:
        """The columns of these rows, or a list of records, by one read and one decode."""
        return self._content.decode(self._source.__getitems__(indices))

    def batch(self, part: Any) -> Any:
        """What a batch of decoded rows is: columns, or an array of records."""
        return part if isinstance(part, dict) else objects(part)

    def cut(self, decoded: Any, start: int, stop: int) -> Any:
        """Some of the decoded rows."""
        return self._content.cut(decoded, start, stop)

    def __repr__(self) -> str:
        return repr(self._source)


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
