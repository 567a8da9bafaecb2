"""Which ranges of one object a cache holds. No I/O."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["Span", "Spans"]

Span = tuple[int, int]
"""Bytes from and to."""


class Spans:
    """Ranges in order. They may overlap, where two processes have fetched the same."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: list[Span] = []
        self._longest = 0
        self.add(spans)

    def add(self, spans: Iterable[Span]) -> None:
        """Each costs little: an object may have as many ranges as it has records."""
        for span in spans:
            at = bisect_left(self._spans, span)
            if self._spans[at : at + 1] != [span]:
                self._spans.insert(at, span)
                self._longest = max(self._longest, span[1] - span[0])

    def drop(self, span: Span) -> None:
        at = bisect_left(self._spans, span)
        if self._spans[at : at + 1] == [span]:
            del self._spans[at]

    def holding(self, at: int) -> Span | None:
        """Of the ranges that hold byte ``at``, the one that goes furthest."""
        best: Span | None = None
        for number in range(bisect_right(self._spans, (at, 1 << 63)) - 1, -1, -1):
            start, stop = self._spans[number]
            if start + self._longest <= at:
                break
            if stop > at and (best is None or stop > best[1]):
                best = start, stop
        return best

    def ending(self, at: int) -> Span | None:
        """Of the ranges that hold the byte before ``at``, the one that begins first."""
        best: Span | None = None
        for number in range(bisect_right(self._spans, (at - 1, 1 << 63)) - 1, -1, -1):
            start, stop = self._spans[number]
            if start + self._longest < at:
                break
            if stop >= at:
                best = start, stop
        return best
