"""`Ragged`: rows of differing lengths, as one array and where each row lies in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import exact_array, joined_exactly
from tfio_store.example.nulls import null_flags

__all__ = ["Ragged", "RowIndex"]

Int64Array = npt.NDArray[np.int64]
RowIndex: TypeAlias = "tuple[SupportsIndex, EllipsisType]"
"""``[i, ...]``, which gives an array where ``[i]`` would give a byte string of a numpy array."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of differing lengths: row i is ``values[row_splits[i] : row_splits[i + 1]]``.

    This is the layout of ``tf.RaggedTensor`` and of Arrow's lists. ``ragged[i]`` gives a row, and
    ``ragged[i:j]`` a `Ragged` over the same values.

    Args:
        values (array | RecordBatch | Ragged): The rows laid end to end, in the first dimension. A
            `RecordBatch` holds byte strings; another `Ragged` makes two levels.
        row_splits (int64 array [rows + 1]): Rises from 0 to ``len(values)``.

    Raises:
        ValueError: ``row_splits`` does not rise from 0 to ``len(values)``, or values are null.

    Example:
        >>> ragged = tfs.Ragged.from_rows([[1, 2], [], [3]])
        >>> ragged.row_splits, ragged.row_lengths, ragged[0], ragged[1:].tolist()
        (array([0, 2, 2, 3]), array([2, 0, 1]), array([1, 2]), [[], [3]])
    """

    values: Any
    row_splits: Int64Array

    def __post_init__(self) -> None:
        _refuse_nulls(self.values)
        splits = np.asarray(self.row_splits, dtype=np.int64)
        object.__setattr__(self, "row_splits", splits)
        rises = splits.ndim == 1 and len(splits) > 0 and bool(np.all(splits[1:] >= splits[:-1]))
        if not rises or splits[0] != 0 or splits[-1] != len(self.values):
            raise ValueError(
                f"row_splits must rise from 0 to {len(self.values)}, the number of values"
            )

    @classmethod
    def from_rows(cls, rows: Iterable[Any], *, dtype: npt.DTypeLike | None = None) -> Ragged:
        """Lay sequences end to end. Sequences of sequences become two levels.

        Args:
            rows (Iterable): The rows.
            dtype (dtype | None): The dtype of the values. Default None: numpy's choice; an object
                array if no row holds a value, because their kind is not known.

        Returns:
            Ragged: With as many rows.
        """
        rows = [row if isinstance(row, Ragged) else _row(row, dtype) for row in rows]
        splits = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=splits[1:])
        if any(isinstance(row, Ragged) for row in rows):
            return cls(_join_ragged([row for row in rows if len(row)], dtype), splits)
        full = [row for row in rows if len(row)] or [r for r in rows if isinstance(r, np.ndarray)][
            :1
        ]
        return cls(joined_exactly(full) if full else np.empty(0, dtype or object), splits)

    @property
    def row_lengths(self) -> Int64Array:
        """The number of values in each row (int64 array [rows])."""
        return np.diff(self.row_splits)

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    @overload
    def __getitem__(self, index: slice) -> Ragged: ...
    @overload
    def __getitem__(self, index: SupportsIndex | RowIndex) -> Any: ...
    def __getitem__(self, index: slice | SupportsIndex | RowIndex) -> Any:
        """Row i, also as ``[i, ...]``. Rows ``i:j`` (step 1) as a `Ragged` over its values."""
        if isinstance(index, tuple):
            index, _ = index
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError("rows of a Ragged are sliced with step 1")
            splits = self.row_splits[start : max(start, stop) + 1]
            return Ragged(self.values[int(splits[0]) : int(splits[-1])], splits - splits[0])
        i = range(len(self))[index]
        return self.values[int(self.row_splits[i]) : int(self.row_splits[i + 1])]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[Any]:
        """Copy the rows into lists.

        Returns:
            list[list]: One list for each row.
        """
        return [row.tolist() for row in self]


def _refuse_nulls(values: Any) -> None:
    nulls = null_flags(values)
    if nulls is not None and nulls.any():
        raise ValueError(
            f"{int(nulls.sum())} nulls inside rows; a row is null as a whole, or not at all"
        )


def _row(row: Any, dtype: npt.DTypeLike | None) -> Any:
    _refuse_nulls(row)
    if isinstance(row, np.ndarray):
        return row
    row = list(row)
    if row and any(isinstance(item, (list, tuple, np.ndarray)) for item in row):
        return Ragged.from_rows(row, dtype=dtype)
    if not row or isinstance(row[0], (bytes, str)):
        return np.array(row, dtype=dtype or object)
    return np.array(row, dtype) if dtype else exact_array(row)


def _join_ragged(rows: list[Any], dtype: npt.DTypeLike | None) -> Ragged:
    return Ragged.from_rows([inner for row in rows for inner in row], dtype=dtype)
