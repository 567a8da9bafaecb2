"""Batches and rows as a DataLoader gives them: tensors of decoded columns, or bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from tfio_store.example.codec import SchemaToRead
from tfio_store.example.ragged import Nullable, Ragged, valid_rows
from tfio_store.loader.content import LoaderContent, Reader
from tfio_store.loader.packing import Packing
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.torch.shared_memory import share_memory

_VIEWS = {"bfloat16": (np.int16, torch.bfloat16)} | {
    name: (np.uint8, getattr(torch, name))
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
}
"""Dtypes that numpy has from elsewhere: the memory of each is taken as another one's."""

_COMMON = frozenset(map(np.dtype, ["uint8", "int32", "int64", "float32", "float64", "bool"]))
"""Dtypes that every version of torch has as they are."""

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class RaggedTensor(NamedTuple):
    """Rows of differing lengths: row i is ``values[splits[i] : splits[i + 1]]``.

    This is the layout of torch's jagged nested tensors, of ``tf.RaggedTensor`` and of Arrow's
    lists. A DataLoader moves it from its workers without a copy, and pins it.

    Args:
        values (Tensor | RaggedTensor): The rows laid end to end, in the first dimension. Another
            `RaggedTensor` makes two levels.
        splits (Tensor): int64 [rows + 1]. Rises from 0 to ``len(values)``.

    Example:
        >>> import torch
        >>> from tfio_store.torch import RaggedTensor
        >>> ragged = RaggedTensor(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3]))
        >>> ragged.rows()
        [tensor([1, 2]), tensor([3])]
        >>> ragged.padded()
        tensor([[1, 2],
                [3, 0]])
        >>> ragged.nested().size(0)
        2
    """

    values: Any
    splits: Any

    def rows(self) -> list[Any]:
        """Cut the values into rows.

        Returns:
            list[Tensor | RaggedTensor]: Views of the values.
        """
        if isinstance(self.values, RaggedTensor):
            return [_slice(self.values, *span) for span in pairwise(self.splits.tolist())]
        return list(torch.split(self.values, self.splits.diff().tolist()))

    def padded(self, fill: float = 0) -> Any:
        """Copy the rows into one tensor, filled up to the length of the longest.

        Args:
            fill (float): What stands behind the end of a row. Default 0.

        Returns:
            Tensor: [rows, longest, ...].

        Raises:
            ValueError: There are two levels of rows.
        """
        if isinstance(self.values, RaggedTensor):
            raise ValueError("padded() takes one level of rows, and these hold rows themselves")
        lengths = self.splits.diff()
        longest = int(lengths.max()) if len(lengths) else 0
        shape = (len(lengths), longest, *self.values.shape[1:])
        out = self.values.new_full(shape, fill)
        there = torch.arange(longest, device=out.device) < lengths[:, None]
        _same_memory(out)[there] = _same_memory(self.values)
        return out

    def nested(self) -> Any:
        """Make torch's own nested tensor of the rows, without a copy.

        Returns:
            Tensor: Of layout ``torch.jagged``.

        Raises:
            ValueError: There are two levels of rows.
        """
        if isinstance(self.values, RaggedTensor):
            raise ValueError("nested() takes one level of rows, and these hold rows themselves")
        return torch.nested.nested_tensor_from_jagged(self.values, self.splits)


class NullableTensor(NamedTuple):
    """A column some of whose rows are null.

    Args:
        values (Tensor | RaggedTensor): One entry for each row. What stands for a null means
            nothing.
        valid (Tensor): bool [rows]. False where the row is null.

    Example:
        >>> import torch
        >>> from tfio_store.torch import NullableTensor
        >>> column = NullableTensor(torch.tensor([1, 0]), torch.tensor([True, False]))
        >>> column.values[column.valid]
        tensor([1])
    """

    values: Any
    valid: Any


def tensors(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A tensor, `RaggedTensor` or `NullableTensor` of each column, or a list where its values are
    bytes or str. TypeError that names the feature of a dtype that torch lacks."""
    share_memory()
    return {
        # most of them, in each batch
        name: torch.from_numpy(column)
        if type(column) is np.ndarray and column.dtype in _COMMON
        else _tensor(name, column)
        for name, column in columns.items()
    }


def _tensor(name: str, column: Any) -> Any:
    if isinstance(column, Nullable):
        if _leaf(column.values).dtype.hasobject:
            return column.tolist()
        return NullableTensor(_tensor(name, column.values), torch.from_numpy(column.valid))
    if isinstance(column, Ragged):
        if _leaf(column).dtype.hasobject:
            return column.tolist()
        return RaggedTensor(_tensor(name, column.values), torch.from_numpy(column.row_splits))
    if column.dtype.hasobject:
        return column.tolist()
    if isinstance(column, np.ma.MaskedArray):
        return NullableTensor(_tensor(name, column.data), torch.from_numpy(valid_rows(column)))
    return _dense(name, column)


def _leaf(column: Any) -> Any:
    while isinstance(column, Ragged):
        column = column.values
    return column


def _dense(name: str, array: Any) -> Any:
    memory, dtype = _memory_of(array.dtype)
    try:
        if memory is None:
            return torch.from_numpy(array)
        found = torch.from_numpy(array.view(memory))
        return found if dtype is None else found.view(dtype)
    except TypeError:
        raise TypeError(
            f"feature {name!r}: torch has no dtype for {array.dtype}; leave it out by columns=, or "
            "give it another dtype by schema="
        ) from None


@cache
def _memory_of(dtype: Any) -> tuple[Any, Any]:
    """The dtype as which torch takes the memory of arrays, and the one that it has in torch; None
    where these are their own. A dtype's name is slow to ask for."""
    if dtype.kind in "mM":
        return np.int64, None
    return _VIEWS.get(dtype.name, (None, None))


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a batch that `tensors` made, as views. A null is None."""
    unbound = [_unbound(column) for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*unbound, strict=True)]


def _unbound(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    if isinstance(column, RaggedTensor):
        return column.rows()
    if isinstance(column, NullableTensor):
        pairs = zip(_unbound(column.values), column.valid.tolist(), strict=True)
        return [value if valid else None for value, valid in pairs]
    return list(column.unbind(0))


def _same_memory(values: Any) -> Any:
    """The tensor as one of signed integers, where torch cannot write the rows of unsigned ones."""
    signed = _SIGNED.get(values.dtype)
    return values if signed is None else values.view(signed)


def _slice(ragged: RaggedTensor, start: int, stop: int) -> RaggedTensor:
    splits = ragged.splits[start : stop + 1]
    first, last = int(splits[0]), int(splits[-1])
    values = ragged.values
    if isinstance(values, RaggedTensor):
        return RaggedTensor(_slice(values, first, last), splits - splits[0])
    return RaggedTensor(values[first:last], splits - splits[0])


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
    packing: Packing | None = None,
) -> Content:
    """As `Content.of`, with what the user's function makes."""
    if transform is not None and not callable(transform):
        raise TypeError(f"transform= takes a function, not {transform!r}")
    found = Content.of(source, reader, schema, columns, images, skips=skips, packing=packing)
    made = replace(found, transform=transform)
    # a dtype that torch lacks fails at once
    made.batch(made.shown(made.decode(RecordBatch.from_records([])), 1))
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

    def batch(self, columns: Any) -> Any:
        """A batch of columns that are `shown`: a dict of tensors. A list of bytes is one."""
        return columns if self.schema is None else tensors(columns)

    def rows(self, columns: Any) -> list[Any]:
        """The rows of columns that are `shown`, each by itself."""
        return list(columns) if self.schema is None else rows_of(tensors(columns))

    def given(self, made: Any) -> Any:
        """What the user's function makes of a batch or row."""
        return transformed(self.transform, made)
