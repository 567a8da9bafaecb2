"""What the compiled `Plan` does, in Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["Plan"]


class Plan:
    """See ``tfio_store/loader/_pack.pyi``."""

    def __init__(self, splits: Any, length: int, concat: bool) -> None:
        if not len(splits) or not 1 <= length < 1 << 31:
            raise ValueError("there must be splits, and rows of a length from 1 to 2**31 - 1")
        if splits[0] != 0 or np.any(splits[1:] < splits[:-1]):
            raise ValueError("splits must rise from 0")
        self._values, self._length = int(splits[-1]), length
        spans = list(pairwise(splits.tolist()))
        self._rows = _concatenated(spans, length) if concat else _first_fit(spans, length)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def copy(self, first: int, last: int, parts: list[Any], padding: bytes, out: Any) -> None:
        """Copy rows of a column to those of ``out``."""
        self._check(first, last, out)
        size = len(padding)
        if not size or out.shape[1] != self._length * size:
            raise ValueError("out must have rows of the plan's length")
        if any(len(part) % size for part in parts):
            raise ValueError("padding and the parts must have values of the same size")
        values = np.concatenate([np.empty(0, np.uint8), *parts])
        if len(values) != self._values * size:
            raise ValueError(f"the parts must have the plan's {self._values} values")
        out.reshape(-1, size)[:] = np.frombuffer(padding, np.uint8)
        for row, to in zip(self._rows[first:last], out, strict=True):
            pieces = [values[start * size : stop * size] for start, stop in row]
            to[: sum(map(len, pieces))] = np.concatenate(pieces)

    def mark(self, first: int, last: int, segments: Any, positions: Any) -> int:
        """Fill in which piece of its row each value is of, and where in it. How many these are."""
        self._check(first, last, segments)
        if not segments.shape == positions.shape == (last - first, self._length):
            raise ValueError("segments and positions must have rows of the plan's length")
        segments[...] = positions[...] = 0
        for i, row in enumerate(self._rows[first:last]):
            at = 0
            for number, (start, stop) in enumerate(row, 1):
                end = at + stop - start
                segments[i, at:end] = number
                positions[i, at:end] = np.arange(stop - start)
                at = end
        return int(np.count_nonzero(segments))

    def _check(self, first: int, last: int, out: Any) -> None:
        if not 0 <= first <= last <= len(self._rows) or last - first != len(out):
            raise ValueError(f"the plan has no rows {first} to {last} for {len(out)}")


_Span = tuple[int, int]


def _concatenated(spans: list[_Span], length: int) -> list[list[_Span]]:
    rows: list[list[_Span]] = []
    room = 0
    for start, stop in spans:
        while start < stop:
            if not room:
                rows.append([])
                room = length
            end = min(stop, start + room)
            rows[-1].append((start, end))
            room -= end - start
            start = end
    return rows


def _first_fit(spans: list[_Span], length: int) -> list[list[_Span]]:
    pieces = [
        (at, min(at + length, stop)) for start, stop in spans for at in range(start, stop, length)
    ]
    rows: list[list[_Span]] = []
    rooms: list[int] = []
    for start, stop in sorted(pieces, key=lambda piece: (piece[0] - piece[1], piece[0])):
        size = stop - start
        number = next((i for i, room in enumerate(rooms) if room >= size), len(rooms))
        if number == len(rooms):
            rows.append([])
            rooms.append(length)
        rows[number].append((start, stop))
        rooms[number] -= size
    return sorted(map(sorted, rows))
