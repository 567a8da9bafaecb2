"""How the tensors and byte strings of a batch lie in one memory."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch

_ALIGNED = 64


def aligned(nbytes: int) -> int:
    """Where the next array begins, in memory that holds several."""
    return -(-nbytes // _ALIGNED) * _ALIGNED


_ALONE = 1 << 20
"""A tensor of so many bytes has a piece of its own: who keeps the labels keeps no pixels."""

_LONG = 1 << 10
"""Byte strings that are longer on average are copied once by each process: pickled, they would go
through a pipe."""


class _TensorPlace(NamedTuple):
    """Where a tensor lies in a batch's memory."""

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _StringsPlace(NamedTuple):
    """Where byte strings lie end to end."""

    start: int
    lengths: list[int]


class _TuplePlace(NamedTuple):
    """A named tuple, which would be made anew, and might look at what it is made of."""

    kind: Any
    parts: list[Any]


class Layout:
    """Where the tensors and the long byte strings of a batch will lie."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[torch.Tensor, _TensorPlace]] = {}
        """By their identities: what comes twice lies there once."""
        self._strings: list[tuple[list[bytes], int]] = []
        self.nbytes = 0

    def placed(self, column: Any) -> Any:
        """The column with places for what lies there. Long tensors and those of kinds that torch
        alone knows how to pickle stay, and so do short strings."""
        if type(column) is torch.Tensor:
            return self.place(column) if is_plain(column) and column.nbytes < _ALONE else column
        if type(column) is dict:
            return {name: self.placed(part) for name, part in column.items()}
        if type(column) is list and set(map(type, column)) == {bytes}:
            return self._placed_strings(column)
        if (
            isinstance(column, tuple)
            and hasattr(column, "_make")
            and not hasattr(column, "__dict__")
        ):
            return _TuplePlace(type(column), [self.placed(part) for part in column])
        return column

    def place(self, tensor: torch.Tensor) -> _TensorPlace:
        """A place for a tensor."""
        if id(tensor) not in self._tensors:
            alike = tensor if tensor.is_contiguous() else torch.empty_like(tensor, device="meta")
            shape, strides = tuple(tensor.shape), alike.stride()
            place = _TensorPlace(self.nbytes, tensor.dtype, shape, strides)
            self._tensors[id(tensor)] = tensor, place
            self.nbytes += aligned(tensor.nbytes)
        return self._tensors[id(tensor)][1]

    def _placed_strings(self, column: list[bytes]) -> Any:
        lengths = list(map(len, column))
        nbytes = sum(lengths)
        if nbytes < _LONG * len(column):
            return column
        place = _StringsPlace(self.nbytes, lengths)
        self._strings.append((column, place.start))
        self.nbytes += aligned(nbytes)
        return place

    def fill(self, memory: torch.Tensor) -> None:
        """Copy all into the memory."""
        views = Views(memory)
        for tensor, place in self._tensors.values():
            views.at(place).copy_(tensor)
        for strings, start in self._strings:
            joined = b"".join(strings)  # one call: a loop would give the lock away in its midst
            views.strings[start : start + len(joined)] = joined


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but numbers, each of which has a memory of its own."""
    special = tensor.requires_grad or tensor.is_nested or tensor.is_quantized
    if special or not tensor.is_cpu or tensor.layout is not torch.strided:
        return False
    return _copies(tensor.dtype) and tensor.nbytes <= tensor.untyped_storage().nbytes()


@cache
def _copies(dtype: torch.dtype) -> bool:
    """Whether torch copies numbers of this kind."""
    try:
        torch.empty(1, dtype=dtype).copy_(torch.empty(1, dtype=dtype))
    except (RuntimeError, TypeError):  # a NotImplementedError is one, too
        return False
    return True


class Views(dict[torch.dtype, torch.Tensor]):
    """Memory as tensors of one dimension, by their dtypes."""

    def __init__(self, memory: torch.Tensor) -> None:
        self._memory = memory

    def __missing__(self, dtype: torch.dtype) -> torch.Tensor:
        self[dtype] = found = self._memory.view(dtype)
        return found

    @property
    def strings(self) -> memoryview:
        return memoryview(self._memory.numpy())

    def at(self, place: _TensorPlace) -> torch.Tensor:
        first = place.start // place.dtype.itemsize
        return self[place.dtype].as_strided(place.shape, place.strides, first)


def placed_back(place: Any, views: Views) -> Any:
    """What `Layout.placed` has replaced."""
    if type(place) is _TensorPlace:
        return views.at(place)
    if type(place) is dict:
        return {name: placed_back(part, views) for name, part in place.items()}
    if type(place) is _StringsPlace:
        memory = views.strings[place.start :]
        ends = list(accumulate(place.lengths, initial=0))
        return [bytes(memory[start:stop]) for start, stop in pairwise(ends)]
    if type(place) is _TuplePlace:
        return place.kind._make([placed_back(part, views) for part in place.parts])
    return place
