"""The records of one epoch, and the rest of an epoch that other readers began."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from tfio_store.read.order import (
    ArrayCounts,
    Counts,
    Cut,
    Pieces,
    Share,
    Shuffle,
    Step,
    last_shuffle,
    parse_steps,
    place_of,
    rearrange,
    steps_at,
    steps_text,
)
from tfio_store.read.plan import Units
from tfio_store.read.shuffle import Windows

__all__ = [
    "Cursor",
    "EpochOrder",
    "Rest",
    "Stage",
    "epoch_order_of",
    "epoch_order_of_rest",
    "parse_rest",
    "rest_text",
]


# One epoch of a reader: pieces of units, or windows of these, in its order.


@dataclass(frozen=True)
class EpochOrder:
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

    def tail(self, position: int, records: int) -> EpochOrder:
        """The place so many records behind a position. ValueError if there is no such place."""
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

    def empty(self) -> EpochOrder:
        """Nothing of it."""
        return replace(self, pieces=self.pieces[:0])

    def share(self, step: Share, epoch: int) -> EpochOrder:
        """The share of a worker, in pieces of the same items."""
        return replace(self, pieces=step.apply(self.pieces, self.counts, epoch))

    @staticmethod
    def joined(courses: Sequence[EpochOrder]) -> EpochOrder:
        """All courses, of the same units, one behind the other."""
        first = courses[0]
        parts = [epoch_order.pieces for epoch_order in courses]
        tables = [epoch_order.table for epoch_order in courses if epoch_order.table is not None]
        if first.table is None or all(table is first.table for table in tables):
            return replace(first, pieces=Pieces.joined(parts))
        begins = accumulate((len(table) for table in tables), initial=0)
        moved = [
            Pieces(np.asarray(part.numbers, np.int64) + begin, part.cuts)
            for begin, part in zip(begins, parts, strict=False)
        ]
        return replace(first, pieces=Pieces.joined(moved), table=Windows.joined(tables))


def epoch_order_of(units: Units, pieces: Pieces, shuffle: Shuffle | None) -> EpochOrder:
    """The epoch_order of pieces of units, in windows if it is shuffled."""
    if shuffle is None:
        return EpochOrder(units, pieces)
    windows = Windows.of(pieces, units.costs, shuffle.window_bytes)
    return EpochOrder(units, Pieces(range(len(windows))), windows)


# The rest of an epoch that other readers began: what their shares had not given yet.
#
# When states are resharded, nothing is known but where each reader stood. That is what the new
# states hold, as a `Stage`. A reader that restores one finds the old orders again, for they depend
# on the data and the steps alone. What lies behind the old readers' places are pieces like others:
# they are shared out by the new reader's own steps. A window of which a part was given goes on in
# its own permutation. Readers of a rest can be resharded too, which is one more stage.


Cursor: TypeAlias = "tuple[int, int] | None"
"""Position and records of a reader; None if it has given all of its share."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where all readers of one layout stood. ``steps`` are those of the first of them."""

    steps: tuple[Step, ...]
    cursors: tuple[Cursor, ...]


Rest: TypeAlias = "tuple[Stage, ...]"
"""The stages by which an epoch came to its rest. Without any, nothing had been given."""


def rest_text(rest: Rest | None) -> str:
    """The stages as JSON. "" if the epoch was not resharded."""
    if rest is None:
        return ""
    return json.dumps([[steps_text(one.steps), one.cursors] for one in rest], separators=(",", ":"))


def parse_rest(text: Any) -> Rest | None:
    """The stages that `rest_text` made a text of. ValueError for any other."""
    if text == "":
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            raise ValueError("it is no list")
        return tuple(_stage(*one) for one in found)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"state= holds rest={text!r}, which is none: {error}") from error


def _stage(order: str, cursors: list[Any]) -> Stage:
    steps = parse_steps(order)
    if len(cursors) != place_of(steps)[1]:
        raise ValueError(f"{order!r} is not the order of {len(cursors)} readers")
    return Stage(steps, tuple(_cursor(one) for one in cursors))


def _cursor(found: Any) -> Cursor:
    if found is None:
        return None
    position, records = found
    if not all(type(number) is int and number >= 0 for number in (position, records)):
        raise ValueError(f"{found!r} is no place of a reader")
    return position, records


def epoch_order_of_rest(
    units: Units, steps: tuple[Step, ...], rest: Rest, epoch: int
) -> EpochOrder:
    """The share of the rest of an epoch that a reader of these steps gives. ValueError for a cursor
    that stands nowhere."""
    epoch_order = _first(units, rest[0], epoch)
    for stage in rest[1:]:
        epoch_order = _later(epoch_order, stage, epoch)
    return _shared(epoch_order, steps, epoch)


def _first(units: Units, stage: Stage, epoch: int) -> EpochOrder:
    """The records that the readers of a dataset had not given."""
    shuffle = last_shuffle(stage.steps)
    pieces, alike = Pieces(range(len(units))), 0
    while alike < len(stage.steps) and isinstance(stage.steps[alike], Shuffle):
        alike += 1  # the steps before the first share are the same for all: they are taken once
    pieces = rearrange(pieces, units, stage.steps[:alike], epoch)
    courses = []
    for index, cursor in enumerate(stage.cursors):
        own = steps_at(stage.steps, index)[alike:]
        epoch_order = epoch_order_of(units, rearrange(pieces, units, own, epoch), shuffle)
        if not stage.steps and cursor is not None:
            cursor = _in_blocks(units, cursor)
        courses.append(_tail(epoch_order, cursor))
    return EpochOrder.joined(courses)


def _in_blocks(units: Units, cursor: tuple[int, int]) -> tuple[int, int]:
    """The place of a reader in order, which reads raw shards as streams, in blocks."""
    position, records = cursor
    streams = Units(units.dataset, streams=True)
    if position >= len(streams):
        return len(units), records
    shard, block = streams[position]
    first = units.first(shard)
    if block is not None or units.is_stream(shard):
        return first + position - streams.first(shard), records
    (table,) = units.dataset.tables([shard])
    found = int(np.searchsorted(table.records, records, side="right")) - 1
    found = max(min(found, len(table) - 1), 0)
    return first + found, records - int(table.records[found])


def _later(epoch_order: EpochOrder, stage: Stage, epoch: int) -> EpochOrder:
    """The records that the readers of a rest had not given."""
    shares = enumerate(stage.cursors)
    return EpochOrder.joined(
        [
            _tail(_shared(epoch_order, steps_at(stage.steps, i), epoch), cursor)
            for i, cursor in shares
        ]
    )


def _tail(epoch_order: EpochOrder, cursor: Cursor) -> EpochOrder:
    return epoch_order.empty() if cursor is None else epoch_order.tail(*cursor)


def _shared(epoch_order: EpochOrder, steps: tuple[Step, ...], epoch: int) -> EpochOrder:
    for step in steps:
        if isinstance(step, Share):
            epoch_order = epoch_order.share(step, epoch)
    return epoch_order
