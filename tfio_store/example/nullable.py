"""`Nullable`: a column some of whose rows are null.

An Example holds a null by what it lacks: the record has no such feature. So a row is null as a
whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tfio_store.example.ragged import Ragged, RowIndex
from tfio_store.example.text import Text
from tfio_store.records.framing import RecordBatch

__all__ = ["Nullable", "apart", "row_of", "spread", "valid_rows"]

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Nullable:
    """A column with nulls, where no masked array can hold it: rows of differing lengths, or bytes.

    ``column[i]`` gives a row, or None for a null. ``column[i:j]`` gives a `Nullable`.

    Args:
        values (Ragged | RecordBatch | array | list): One entry for each row. What stands for a null
            means nothing. A null row of a `Ragged` is empty.
        valid (bool array [rows]): False where the row is null.

    Raises:
        ValueError: There are not as many flags as rows, or a null row of a `Ragged` has values.

    Example:
        >>> column = tfs.Nullable(tfs.Ragged.from_rows([[1, 2], [], []]), [True, False, True])
        >>> column.tolist(), column[1] is None
        ([[1, 2], None, []], True)
    """

    values: Any
    valid: BoolArray

    def __post_init__(self) -> None:
        valid = np.asarray(self.valid, dtype=bool, order="C")
        object.__setattr__(self, "valid", valid)
        if valid.shape != (len(self.values),):
            raise ValueError(
                f"valid must hold {len(self.values)} flags, one for each row; its shape is "
                f"{valid.shape}"
            )
        if isinstance(self.values, Ragged) and self.values.row_lengths[~valid].any():
            row = int(np.argmax((self.values.row_lengths > 0) & ~valid))
            raise ValueError(f"row {row} is null, and must be empty; it has values")

    def __len__(self) -> int:
        return len(self.valid)

    def __getitem__(self, index: slice | SupportsIndex | RowIndex) -> Any:
        """Row i, None if it is null; or rows ``i:j`` (step 1) as a `Nullable`. ``[i, ...]`` gives
        row i as numpy does: a byte string as an array of shape ()."""
        if isinstance(index, tuple):
            row, rest = index
            arrays = isinstance(self.values, np.ndarray)
            return self.values[row, rest] if self.valid[row] and arrays else self[row]
        if isinstance(index, slice):
            return Nullable(self.values[index], self.valid[index])
        return self.values[index] if self.valid[index] else None

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[Any]:
        """Copy the rows into a list.

        Returns:
            list: A row each; None for a null.
        """
        return [row.tolist() if hasattr(row, "tolist") else row for row in self]


def valid_rows(column: Any) -> BoolArray:
    """Which rows of a masked array have no masked value."""
    mask = np.ma.getmaskarray(column)
    return np.asarray(~mask.any(axis=tuple(range(1, mask.ndim))))


def apart(column: Any) -> tuple[Any, BoolArray | None]:
    """The values of a column, and which rows are valid: None if all are."""
    if not isinstance(column, Nullable):
        return column, None
    return column.values, None if column.valid.all() else column.valid


def row_of(column: Any, index: int) -> int:
    """The row of a column that holds the value of this index; values are counted through rows."""
    if isinstance(column, Nullable):
        return row_of(column.values, index)
    if isinstance(column, Ragged):
        item = row_of(column.values, index)
        return int(np.searchsorted(column.row_splits, item, side="right")) - 1
    width = int(np.prod(column.shape[1:])) if isinstance(column, np.ndarray) else 1
    return index // max(1, width)


def spread(values: Any, valid: BoolArray) -> Any:
    """Lay the values of the valid rows out over all rows. Zero, or the empty string, stands in the
    others."""
    if isinstance(values, list):
        return _spread_list(values, valid)
    if isinstance(values, Text):
        return Text(spread(values.batch, valid))
    if isinstance(values, Ragged):
        lengths = np.zeros(len(valid) + 1, np.int64)
        lengths[1:][valid] = values.row_lengths
        return Ragged(values.values, np.cumsum(lengths))
    if isinstance(values, RecordBatch):
        offsets, lengths = np.zeros((2, len(valid)), np.int64)
        offsets[valid], lengths[valid] = values.offsets, values.lengths
        return RecordBatch(values.buffer, offsets, lengths)
    out = np.full((len(valid), *values.shape[1:]), _nothing(values), values.dtype)
    out[valid] = values
    return out


def _nothing(values: npt.NDArray[Any]) -> Any:
    if values.dtype.kind == "O":
        return "" if values.size and isinstance(values.flat[0], str) else b""
    return np.zeros((), values.dtype)


def _spread_list(values: list[Any], valid: BoolArray) -> list[Any]:
    left = iter(values)
    fill = "" if values and isinstance(values[0], str) else b""
    return [next(left) if has else fill for has in valid.tolist()]
