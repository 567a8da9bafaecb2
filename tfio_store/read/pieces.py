"""A sequence of pieces: numbered items in some order, of which a few give a part of their records.

The items are units, or windows of units that are shuffled together. Cuts are kept for the pieces
that have one, which are few. So a sequence takes no memory for each record, and none for each item
that stands in its natural order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = ["ArrayCounts", "Counts", "Cut", "Numbers", "Order", "Pieces", "Running"]

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Numbers: TypeAlias = "Order | range"
"""Numbers of items, in the order of a reader. A range takes no memory, however many there are."""

Cut: TypeAlias = "tuple[int, int | None]"
"""From which record of an item to which one. None: to its end, where nobody knows its records."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """``numbers`` of items, and by their place the ``cuts`` of those that are not given whole."""

    numbers: Numbers
    cuts: Mapping[int, Cut] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, places: slice) -> Pieces:
        chosen = range(*places.indices(len(self)))
        cuts = {chosen.index(at): cut for at, cut in self.cuts.items() if at in chosen}
        return Pieces(self.numbers[places], cuts)

    def take(self, places: Order) -> Pieces:
        """The pieces at these places, in this order."""
        if not isinstance(self.numbers, range):
            numbers = self.numbers[places]
        elif self.numbers[:1] == range(1) and self.numbers.step == 1:
            numbers = places
        else:
            numbers = places * self.numbers.step + self.numbers.start
        if not self.cuts:
            return Pieces(numbers)
        found = np.flatnonzero(np.isin(places, list(self.cuts))).tolist()
        return Pieces(numbers, {at: self.cuts[int(places[at])] for at in found})

    def trimmed(self, place: int, start: int, stop: int | None) -> Pieces:
        """These pieces, with records ``start`` to ``stop`` of what the one at ``place`` gives."""
        first, last = self.cuts.get(place, (0, None))
        end = last if stop is None else first + stop
        return Pieces(self.numbers, {**self.cuts, place: (first + start, end)})

    def span(self, running: Running, start: int, stop: int) -> Pieces:
        """The pieces that hold records ``start`` to ``stop`` of all that these give."""
        if start >= stop:
            return self[:0]
        first, skipped = running.find(start)
        last, kept = running.find(stop - 1)
        found = self[first : last + 1]
        if kept + 1 < running.count(last):
            found = found.trimmed(last - first, 0, kept + 1)
        if skipped:
            rest = (kept + 1 if first == last else running.count(first)) - skipped
            found = found.trimmed(0, skipped, skipped + rest)
        return found

    def counts(self, held: Order) -> Order:
        """int64 [n]: how many records each piece gives, by how many each item holds. -1 where
        nobody knows."""
        among = self.numbers
        if isinstance(among, range):
            counts: Order = held[among.start : among.stop : among.step].copy()
        else:
            counts = held[among]
        for place, (start, stop) in self.cuts.items():
            if stop is not None:
                counts[place] = stop - start
            elif counts[place] >= 0:
                counts[place] -= start
        return counts

    @staticmethod
    def joined(parts: Sequence[Pieces]) -> Pieces:
        """The pieces of all parts, one part behind the other."""
        if len(parts) == 1:
            return parts[0]
        begins = accumulate((len(part) for part in parts), initial=0)
        cuts = {
            begin + place: cut
            for begin, part in zip(begins, parts, strict=False)
            for place, cut in part.cuts.items()
        }
        arrays = [np.asarray(part.numbers, np.int64) for part in parts]
        return Pieces(np.concatenate([np.zeros(0, np.int64), *arrays]), cuts)


class Running(Protocol):
    """The running totals of the records of some pieces."""

    @property
    def total(self) -> int: ...

    def find(self, record: int) -> tuple[int, int]:
        """The place of the piece that gives a record, and how many it gives before that one."""

    def count(self, place: int) -> int:
        """How many records the piece at a place gives."""


class Counts(Protocol):
    """How many records items hold."""

    def running(self, pieces: Pieces) -> Running:
        """The running totals of pieces. ValueError where a count is not known."""


@dataclass(frozen=True, slots=True)
class ArrayCounts:
    """The counts of all items, in an array."""

    held: Order

    def running(self, pieces: Pieces) -> Running:
        counts = pieces.counts(self.held)
        return _Totals(counts, np.cumsum(counts))


@dataclass(frozen=True, slots=True)
class _Totals:
    counts: Order
    ends: Order

    @property
    def total(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def find(self, record: int) -> tuple[int, int]:
        place = int(np.searchsorted(self.ends, record, side="right"))
        return place, record - int(self.ends[place]) + self.count(place)

    def count(self, place: int) -> int:
        return int(self.counts[place])
