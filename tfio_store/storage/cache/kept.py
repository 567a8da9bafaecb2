"""Which ranges of one object a cache holds. No I/O."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["KeptRanges", "Range"]

Range = tuple[int, int]
"""Bytes from and to."""


class KeptRanges:
    """Ranges in order. They may overlap, where two processes have fetched the same."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: list[Range] = []
        self._longest = 0
        self.add(ranges)

    def add(self, ranges: Iterable[Range]) -> None:
        """Each costs little: an object may have as many ranges as it has records."""
        for kept in ranges:
            at = bisect_left(self._ranges, kept)
            if self._ranges[at : at + 1] != [kept]:
                self._ranges.insert(at, kept)
                self._longest = max(self._longest, kept[1] - kept[0])

    def drop(self, kept: Range) -> None:
        at = bisect_left(self._ranges, kept)
        if self._ranges[at : at + 1] == [kept]:
            del self._ranges[at]

    def holding(self, at: int) -> Range | None:
        """Of the ranges that hold byte ``at``, the one that goes furthest."""
        best: Range | None = None
        for number in range(bisect_right(self._ranges, (at, 1 << 63)) - 1, -1, -1):
            start, stop = self._ranges[number]
            if start + self._longest <= at:
                break
            if stop > at and (best is None or stop > best[1]):
                best = start, stop
        return best

    def ending(self, at: int) -> Range | None:
        """Of the ranges that hold the byte before ``at``, the one that begins first."""
        best: Range | None = None
        for number in range(bisect_right(self._ranges, (at - 1, 1 << 63)) - 1, -1, -1):
            start, stop = self._ranges[number]
            if start + self._longest < at:
                break
            if stop >= at:
                best = start, stop
        return best
