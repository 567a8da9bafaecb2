"""A reader's order through the epochs of a dataset, and the position at which it stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from tfio_store.dataset.model import Dataset
from tfio_store.read.decode import NO_OFFSET, Located, LocatedList
from tfio_store.read.order import (
    ArrayCounts,
    Counts,
    Cut,
    Pieces,
    Running,
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
    "Position",
    "ReaderOrder",
    "Rest",
    "Stage",
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

    @classmethod
    def of(cls, units: Units, pieces: Pieces, shuffle: Shuffle | None) -> EpochOrder:
        """Pieces of units in their order, in windows if they are shuffled."""
        if shuffle is None:
            return cls(units, pieces)
        windows = Windows.of(pieces, units.costs, shuffle.window_bytes)
        return cls(units, Pieces(range(len(windows))), windows)

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
        return _WindowCounts(self.units, self.table)

    def num_records(self) -> int | None:
        """How many records the epoch has. None if one of its units is a stream. Of blocks that are
        not in their natural order the tables are read."""
        return self.counts.total(self.pieces)

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

    def tail(self, cursor: Cursor) -> EpochOrder:
        """What a reader has not given that stands there. ValueError if there is no such place."""
        nothing = replace(self, pieces=self.pieces[:0])
        if cursor is None:
            return nothing
        position, records = cursor
        if position == records == 0:
            return self
        if position == len(self) and not records:
            return nothing
        most = self.records_at(position)
        if most is None or records > most:
            raise ValueError(f"state= holds cursor [{position}, {records}], which is no position")
        place = position if self.windows is None else self.windows.number(position)
        if records == most:
            return replace(self, pieces=self.pieces[place + 1 :])
        rest = self.pieces[place:]
        return replace(self, pieces=rest.trimmed(0, records, None) if records else rest)

    def shared(self, steps: tuple[Step, ...], epoch: int) -> EpochOrder:
        """The share of a worker of these steps, in pieces of the same items."""
        pieces = self.pieces
        for step in steps:
            if isinstance(step, Share):
                pieces = step.apply(pieces, self.counts, epoch)
        return replace(self, pieces=pieces)

    @staticmethod
    def joined(orders: Sequence[EpochOrder]) -> EpochOrder:
        """All of these, which are of the same units, one behind the other."""
        first = orders[0]
        parts = [order.pieces for order in orders]
        tables = [order.table for order in orders if order.table is not None]
        if first.table is None or all(table is first.table for table in tables):
            return replace(first, pieces=Pieces.joined(parts))
        begins = accumulate((len(table) for table in tables), initial=0)
        moved = [
            Pieces(np.asarray(part.numbers, np.int64) + begin, part.cuts)
            for begin, part in zip(begins, parts, strict=False)
        ]
        return replace(first, pieces=Pieces.joined(moved), table=Windows.joined(tables))


@dataclass(frozen=True)
class _WindowCounts:
    """How many records windows of units hold."""

    units: Units
    table: Windows

    @cached_property
    def _counts(self) -> ArrayCounts:
        return ArrayCounts(self.table.counts(self.units.counts))

    def running(self, pieces: Pieces) -> Running:
        unknown = pieces.counts(self._counts.held) < 0
        for window in np.asarray(pieces.numbers, np.int64)[unknown][:1]:
            # a stream is a window of its own
            self.units.refuse_stream(int(self.table.pieces.numbers[self.table.starts[window]]))
        return self._counts.running(pieces)

    def total(self, pieces: Pieces) -> int | None:
        return self._counts.total(pieces)


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


def _order_of_rest(units: Units, steps: tuple[Step, ...], rest: Rest, epoch: int) -> EpochOrder:
    """The share of the rest of an epoch that a reader of these steps gives. ValueError for a cursor
    that stands nowhere."""
    left = _left_at_first(units, rest[0], epoch)
    for stage in rest[1:]:
        shares = [left.shared(steps_at(stage.steps, i), epoch) for i in range(len(stage.cursors))]
        left = EpochOrder.joined(list(map(EpochOrder.tail, shares, stage.cursors)))
    return left.shared(steps, epoch)


def _left_at_first(units: Units, stage: Stage, epoch: int) -> EpochOrder:
    """The records that the readers of a dataset had not given."""
    shuffle = last_shuffle(stage.steps)
    pieces, alike = Pieces(range(len(units))), 0
    while alike < len(stage.steps) and isinstance(stage.steps[alike], Shuffle):
        alike += 1  # the steps before the first share are the same for all: they are taken once
    pieces = rearrange(pieces, units, stage.steps[:alike], epoch)
    left = []
    for index, cursor in enumerate(stage.cursors):
        own = steps_at(stage.steps, index)[alike:]
        order = EpochOrder.of(units, rearrange(pieces, units, own, epoch), shuffle)
        if not stage.steps and cursor is not None:
            cursor = _in_blocks(units, cursor)
        left.append(order.tail(cursor))
    return EpochOrder.joined(left)


def _in_blocks(units: Units, cursor: tuple[int, int]) -> tuple[int, int]:
    """The place of a reader in order, which reads raw shards as streams, in blocks."""
    position, records = cursor
    streams = Units.of(units.dataset, streams=True)
    if position >= len(streams):
        return len(units), records
    shard, block = streams[position]
    first = units.first(shard)
    if block is not None or units.is_stream(shard):
        return first + position - streams.first(shard), records
    (table,) = units.dataset.shards.tables([shard])
    found = int(np.searchsorted(table.records, records, side="right")) - 1
    found = max(min(found, len(table) - 1), 0)
    return first + found, records - int(table.records[found])


# The place where a reader stands, and how it gets back to it.


@dataclass(frozen=True, slots=True)
class Position:
    """``records`` behind the start of the unit (or shuffled window) at ``position`` of an epoch's
    order.

    ``offset`` is the next frame's byte in a stream of raw records: going there needs no reading
    of what lies before. Elsewhere it is `NO_OFFSET`, a number all the same, so that all states have
    one shape.
    """

    epoch: int = 0
    position: int = 0
    records: int = 0
    offset: int = NO_OFFSET
    rest: Rest | None = None
    """If other readers began this epoch, what they left of it: the order is that of this rest."""

    def at(self, located: Located | LocatedList, index: int) -> Position:
        """The position of record ``index`` of a batch of the same epoch."""
        return Position(  # replace() takes several times as long
            self.epoch,
            located.position,
            located.records + index,
            located.offset(index),
            self.rest,
        )

    def resume(self, batches: Iterator[Located]) -> Iterator[Located]:
        """Drop what comes before this position. ``batches`` starts with its unit, or at
        ``offset``. ValueError if there is no such position."""
        ahead = self.records
        with closing(batches):  # type: ignore[type-var]
            if self.offset != NO_OFFSET:
                batches, ahead = self._counted_on(batches), 0
            for located in batches:
                if located.position > self.position and ahead:
                    break
                if ahead:
                    cut = ahead - located.records
                    if cut >= len(located.batch):
                        ahead = 0 if cut == len(located.batch) else ahead
                        continue
                    located = replace(located, batch=located.batch[cut:], records=ahead)
                    ahead = 0
                yield located
            if ahead:
                raise ValueError(
                    f"state= stands behind record {self.records} of a file or block that has fewer"
                )

    def _counted_on(self, batches: Iterator[Located]) -> Iterator[Located]:
        """The batches from ``offset`` on, with the records before it counted."""
        for located in batches:
            if located.position == self.position:
                located = replace(located, records=located.records + self.records)
            yield located


# A reader's order through a dataset: its units, and marks that identify the order.


class ReaderOrder:
    """The units of a dataset after sharing and shuffling.

    ``streams``: see `Units`.
    """

    def __init__(self, dataset: Dataset, steps: tuple[Step, ...], *, streams: bool) -> None:
        self.dataset = dataset
        self.steps = steps
        self.shuffle = last_shuffle(steps)
        """The step that shuffles records."""
        self.units = Units.of(dataset, streams=streams)
        self._last: tuple[tuple[int, Rest | None], EpochOrder] | None = None

    def epoch_order(self, epoch: int, rest: Rest | None = None) -> EpochOrder:
        """The records of an epoch, or of the rest of one. The last one is kept."""
        if self._last is not None and self._last[0] == (epoch, rest):
            return self._last[1]
        units = self.units
        if rest:
            found = _order_of_rest(units, self.steps, rest, epoch)
        else:
            pieces = rearrange(Pieces(range(len(units))), units, self.steps, epoch)
            found = EpochOrder.of(units, pieces, self.shuffle)
        self._last = (epoch, rest), found
        return found

    def window_most(self) -> int:
        """The most bytes of memory that windows are meant to take: the last block of one may be
        larger. 0 without any."""
        if self.shuffle is None:
            return 0
        return min(int(self.units.most().sum()), self.shuffle.window_bytes)

    # Checks of a state

    @cached_property
    def source(self) -> str:
        """What tells the files, and which parts of them are meant; see `Shards.digest`."""
        return f"{len(self.dataset.shards)}-{self.dataset.shards.digest:08x}"

    def blocks(self, rest: Rest | None = None) -> str:
        """A digest of the units' bounds: another index cuts the same files at other places. Of a
        rest, those in which the first readers counted."""
        return self._stream_blocks if rest and not rest[0].steps else self._own_blocks

    @cached_property
    def _own_blocks(self) -> str:
        return self._cut_as(self.units)

    @cached_property
    def _stream_blocks(self) -> str:
        return self._cut_as(Units.of(self.dataset, streams=True))

    @staticmethod
    def _cut_as(units: Units) -> str:
        return f"{len(units)}-{units.digest:08x}"

    def offsets_to(self, position: int, epoch_order: EpochOrder) -> int:
        """The largest offset from which a reader can go on in a unit, or `NO_OFFSET`."""
        index, block = self.units[int(epoch_order.read.numbers[position])]
        shard = self.dataset.shard(index)
        if self.shuffle is not None or block is not None or position in epoch_order.read.cuts:
            return NO_OFFSET
        if shard.compression not in ("auto", None):
            return NO_OFFSET
        return shard.nbytes or sys.maxsize  # the size of a file object is unknown
