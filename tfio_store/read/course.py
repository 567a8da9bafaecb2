"""What a reader gives in one epoch: pieces of units, or windows of these, in its order."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from tfio_store.read.order import Share, Shuffle
from tfio_store.read.pieces import ArrayCounts, Counts, Cut, Pieces
from tfio_store.read.plan import Units
from tfio_store.read.shuffle import Windows

__all__ = ["Course", "course_of"]


@dataclass(frozen=True)
class Course:
    """``pieces`` of ``units``, or, if it is shuffled, of windows of these.

    A *place* counts pieces. A *position*, which a state holds, counts units in the order in which
    they are read.
    """

    units: Units
    pieces: Pieces
    table: Windows | None = None
    """The windows of which the pieces are."""

    def __len__(self) -> int:
        """How many positions there are."""
        return len(self.read)

    @cached_property
    def windows(self) -> Windows | None:
        """The windows, in the order in which they are given."""
        return None if self.table is None else self.table.chosen(self.pieces.numbers)

    @property
    def read(self) -> Pieces:
        """Pieces of units, in the order in which they are read."""
        return self.pieces if self.windows is None else self.windows.pieces

    @property
    def given(self) -> dict[int, Cut]:
        """By position, which records of a shuffled window are given. Elsewhere, all are."""
        if self.windows is None:
            return {}
        return {int(self.windows.starts[at]): cut for at, cut in self.pieces.cuts.items()}

    @property
    def counts(self) -> Counts:
        """How many records the items hold of which the pieces are."""
        if self.table is None:
            return self.units
        return ArrayCounts(self.table.counts(self.units.counts))

    def num_records(self) -> int | None:
        """How many records the epoch has. None if one of its units is a stream. Of blocks that are
        not in their natural order the tables are read."""
        if self.table is None:
            return self.units.total(self.pieces)
        counts = self.pieces.counts(self.table.counts(self.units.counts))
        return None if (counts < 0).any() else int(counts.sum())

    def records_at(self, position: int) -> int | None:
        """How many records lie between a position and the next one, as far as is known. None if a
        reader can't stand there."""
        if not 0 <= position < len(self):
            return None
        if self.windows is None:
            return self._count(self.read[position : position + 1], (0, None))
        number = self.windows.number(position)
        if int(self.windows.starts[number]) != position:
            return None
        pieces = self.read[position : self.windows.stop(number)]
        return self._count(pieces, self.pieces.cuts.get(number, (0, None)))

    def _count(self, pieces: Pieces, cut: Cut) -> int:
        total = 0
        for at, count in enumerate(self.units.records(pieces.numbers)):
            start, stop = pieces.cuts.get(at, (0, None))
            if stop is None:
                stop = sys.maxsize if count is None else count
            total += stop - start
        return (total if cut[1] is None else cut[1]) - cut[0]

    def tail(self, position: int, records: int) -> Course:
        """What lies behind so many records of a position. ValueError if there is no such place."""
        if position == records == 0:
            return self
        if position == len(self) and not records:
            return self.empty()
        most = self.records_at(position)
        if most is None or records > most:
            raise ValueError(f"state= holds cursor [{position}, {records}], which is no position")
        place = position if self.windows is None else self.windows.number(position)
        if records == most:
            return replace(self, pieces=self.pieces[place + 1 :])
        rest = self.pieces[place:]
        return replace(self, pieces=rest.trimmed(0, records, None) if records else rest)

    def empty(self) -> Course:
        """Nothing of it."""
        return replace(self, pieces=self.pieces[:0])

    def share(self, step: Share, epoch: int) -> Course:
        """The share of a worker, in pieces of the same items."""
        return replace(self, pieces=step.apply(self.pieces, self.counts, epoch))

    @staticmethod
    def joined(courses: Sequence[Course]) -> Course:
        """All courses, of the same units, one behind the other."""
        first = courses[0]
        parts = [course.pieces for course in courses]
        tables = [course.table for course in courses if course.table is not None]
        if first.table is None or all(table is first.table for table in tables):
            return replace(first, pieces=Pieces.joined(parts))
        begins = accumulate((len(table) for table in tables), initial=0)
        moved = [
            Pieces(np.asarray(part.numbers, np.int64) + begin, part.cuts)
            for begin, part in zip(begins, parts, strict=False)
        ]
        return replace(first, pieces=Pieces.joined(moved), table=Windows.joined(tables))


def course_of(units: Units, pieces: Pieces, shuffle: Shuffle | None) -> Course:
    """The course of pieces of units, in windows if it is shuffled."""
    if shuffle is None:
        return Course(units, pieces)
    windows = Windows.of(pieces, units.costs, shuffle.window_bytes)
    return Course(units, Pieces(range(len(windows))), windows)
