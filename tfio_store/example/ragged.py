"""Columns of rows of differing lengths (`Ragged`), with nulls (`Nullable`), or of strings
(`Text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from tfio_store.example.exactness import exact_array, joined_exactly, null_flags
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.framing import RecordBatch

# `Text`: many strings as UTF-8 in one buffer, which no Python object stands for.


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Byte strings that are known to be UTF-8, and are to be read as str."""

    batch: RecordBatch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, rows: slice) -> Text:
        return Text(self.batch[rows])

    @property
    def nbytes(self) -> int:
        """The bytes of all the strings (int)."""
        return self.batch.nbytes


# `Ragged`: rows of differing lengths, as one array and where each row lies in it.


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
            inner = [each for row in rows if len(row) for each in row]
            return cls(cls.from_rows(inner, dtype=dtype), splits)
        typed = [row for row in rows if len(row)]
        typed = typed or [row for row in rows if isinstance(row, np.ndarray)][:1]
        return cls(joined_exactly(typed) if typed else np.empty(0, dtype or object), splits)

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


# `Nullable`: a column some of whose rows are null.
#
# An Example holds a null by what it lacks: the record has no such feature. So a row is null as a
# whole or not at all.


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


# Puts parts of a decoded column together.


def joined_columns(parts: list[Any]) -> Any:
    """Parts of a column, end to end."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Nullable):
        values = joined_columns([part.values for part in parts])
        return Nullable(values, np.concatenate([part.valid for part in parts]))
    if isinstance(parts[0], Ragged):
        splits = [part.row_splits for part in parts]
        starts = np.cumsum([0, *(s[-1] for s in splits)])
        ends = [s[1:] + start for s, start in zip(splits, starts, strict=False)]
        values = joined_columns([part.values for part in parts])
        return Ragged(values, np.concatenate([[0], *ends]))
    if isinstance(parts[0], RecordBatch):
        starts = np.cumsum([0, *(len(part.buffer) for part in parts)])
        moved = [part.offsets + start for part, start in zip(parts, starts, strict=False)]
        lengths = np.concatenate([part.lengths for part in parts])
        return RecordBatch(b"".join(part.buffer for part in parts), np.concatenate(moved), lengths)
    if isinstance(parts[0], np.ma.MaskedArray):
        joined: Any = np.ma.concatenate(parts)  # type: ignore[no-untyped-call]
        joined.fill_value = parts[0].fill_value
        return joined
    return np.concatenate(parts)
