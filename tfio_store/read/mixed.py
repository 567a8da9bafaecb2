"""A mixture's way through its sources: the records that are due, source by source.

Each source is a way of its own, and gives its records in its own order. A batch of the mixture ends
where a source has to fetch. So a state can always stand between any two records of the last batch:
each source then stands inside its own last batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfio_store.dataset.source import Source
from tfio_store.read.choices import Choices
from tfio_store.read.order import check_from_0
from tfio_store.read.pieces import Order
from tfio_store.read.position import Position
from tfio_store.read.traversal import ReaderOptions, Shared, Traversal
from tfio_store.records.framing import RecordBatch

__all__ = ["MixedPosition", "MixedWay", "Part", "first_epoch", "mixture_epoch"]

_LEAST_AHEAD, _MOST_AHEAD = 64, 4096
"""Places of the mixture that are looked at together: about as many as the sources can fill."""

_PASSES = 1 << 20
"""So many epochs of a source are kept for its passes in one epoch of the mixture."""


def first_epoch(epoch: int) -> int:
    """The epoch of a source's first pass in an epoch of the mixture."""
    check_from_0("epoch", epoch)
    return epoch * _PASSES


def mixture_epoch(source_epoch: int) -> int:
    """The epoch of the mixture in which a source gives an epoch of its own."""
    return source_epoch // _PASSES


@dataclass(frozen=True, slots=True)
class Part:
    """One source: what it is called, its dataset, and its reader's arguments."""

    source: Source
    shared: Shared
    options: ReaderOptions


@dataclass(frozen=True, slots=True)
class MixedPosition:
    """``place`` is that of the next record among the choices of the epoch. ``ended`` tells which
    sources were given whole, ``sources`` where each stands. ``begin`` is the place at which the
    epoch began: other than 0 for the rest of an epoch that others began."""

    epoch: int
    begin: int
    place: int
    ended: tuple[bool, ...]
    sources: tuple[Position, ...]

    @classmethod
    def at_first(cls, epoch: int, count: int) -> MixedPosition:
        """The beginning of an epoch."""
        source = Position(epoch=first_epoch(epoch))
        return cls(epoch, 0, 0, (False,) * count, (source,) * count)


class _Source:
    """One source, and what is left of its last batch."""

    def __init__(self, part: Part, position: Position) -> None:
        self.way = Traversal(part.shared, part.options, position, None)
        self.begin(position)

    def begin(self, position: Position) -> None:
        """Go to a position."""
        self.way.stop()
        self.way.position = position
        self._batch: RecordBatch | list[bytes] = []
        self._taken = 0
        self.empty = False
        """Whether a whole epoch of it holds no record."""
        self._fresh = position == Position(epoch=position.epoch)

    @property
    def left(self) -> int:
        return len(self._batch) - self._taken

    def load(self) -> bool:
        """Fetch its next batch. False at the end of its epoch, behind which it stands then."""
        found = self.way.next_records()
        self._batch, self._taken = found or [], 0
        if found is None:
            self.empty, self._fresh = self._fresh, True
            return False
        self._fresh = False
        return True

    def take(self, count: int) -> list[bytes]:
        found = self._batch[self._taken : self._taken + count]
        self._taken += count
        return found if isinstance(found, list) else found.tolist()

    def position(self, unread: int) -> Position:
        """Where it stands, before so many of the records that were taken last."""
        current, given = self.way.current, self._taken - unread
        return self.way.position if current is None else self.way.position.at(current, given)


class MixedWay:
    """Lists of records from a position on, epoch after epoch."""

    def __init__(
        self, choices: Choices, stop: str, parts: Sequence[Part], position: MixedPosition
    ) -> None:
        self.choices = choices
        self.stop_at = stop
        self.parts = tuple(parts)
        self.passes = 0
        """How many epochs have ended."""
        self.closed = False
        self.last: RecordBatch | list[bytes] | None = None
        """The records that were given last."""
        self._ahead = _LEAST_AHEAD
        self._counted: tuple[int, int | None] | None = None
        self._sources = [
            _Source(part, at) for part, at in zip(parts, position.sources, strict=True)
        ]
        self.begin(position)

    def begin(self, position: MixedPosition) -> None:
        """Go to a position."""
        for source, at in zip(self._sources, position.sources, strict=True):
            source.begin(at)
        self._epoch, self._begin, self._place = position.epoch, position.begin, position.place
        self._ended = list(position.ended)
        self._settle()

    def _settle(self) -> None:
        self.last = None
        self._places = self._chosen = np.zeros(0, np.int64)

    @property
    def ways(self) -> list[Traversal]:
        """Those of the sources."""
        return [source.way for source in self._sources]

    def position(self, unread: int = 0) -> MixedPosition:
        """Where it stands, before so many of the last records."""
        first = len(self._chosen) - unread
        place = int(self._places[first]) if unread else self._place
        behind = np.bincount(self._chosen[first:], minlength=len(self._sources)).tolist()
        sources = [
            source.position(count) for source, count in zip(self._sources, behind, strict=True)
        ]
        return MixedPosition(self._epoch, self._begin, place, tuple(self._ended), tuple(sources))

    def next_records(self) -> list[bytes] | None:
        """The next records; None at the end of the epoch. ValueError once closed."""
        self.check_open()
        self._settle()
        while True:
            places, chosen = self._due()
            records = self._take(places, chosen)
            if records:
                self.last = records
                return records
            if len(places):
                self._place = int(places[0])
                if not self._load(int(chosen[0])):
                    self._end()
                    return None

    def next_batch(self) -> RecordBatch | None:
        """The same, as a batch."""
        records = self.next_records()
        if records is None:
            return None
        self.last = batch = RecordBatch.from_records(records)
        return batch

    def _due(self) -> tuple[Order, Order]:
        """The next places, without those of empty sources, and their sources."""
        stop = self._place + self._ahead
        chosen = self.choices.between(self._epoch, self._place, stop)
        places = np.arange(self._place, stop)
        self._place = stop
        empty = np.array([source.empty for source in self._sources])
        if empty.any():
            live = ~empty[chosen]
            places, chosen = places[live], chosen[live]
        return places, chosen

    def _take(self, places: Order, chosen: Order) -> list[bytes]:
        """The records of these places, as far as the sources have them."""
        left = np.array([source.left for source in self._sources])
        rows = np.argsort(chosen, kind="stable")  # of the first source, then of the second, …
        counts = np.bincount(chosen, minlength=len(left))
        short = counts > left
        stop = int(min(rows[(np.cumsum(counts) - counts + left)[short]], default=len(chosen)))
        self._places, self._chosen = places[:stop], chosen[:stop]
        if stop < len(places):
            self._place = int(places[stop])
        self._ahead = min(max(2 * stop, _LEAST_AHEAD), _MOST_AHEAD)
        found: list[bytes] = []
        for number, count in enumerate(np.bincount(self._chosen).tolist()):
            if count:
                found += self._sources[number].take(count)
        records = [b""] * stop
        for row, record in zip(rows[rows < stop].tolist(), found, strict=True):
            records[row] = record
        return records

    def _load(self, number: int) -> bool:
        """Have the source fetch whose turn it is. False if that ends the epoch."""
        source = self._sources[number]
        while not source.load():
            self._ended[number] = True
            over = all(self._ended)
            if self.stop_at == "first":
                over = not source.empty or all(source.empty for source in self._sources)
            if over:
                return False
            if source.empty:
                break
        return True

    def _end(self) -> None:
        self.begin(MixedPosition.at_first(self._epoch + 1, len(self._sources)))
        self.passes += 1

    def num_records(self) -> int | None:
        """How many records the epoch has, if that is known in advance."""
        if self._begin:
            return None
        if self._counted is None or self._counted[0] != self._epoch:
            self._counted = self._epoch, self._count()
        return self._counted[1]

    def _count(self) -> int | None:
        counts = []
        for part in self.parts:
            way = Traversal(part.shared, part.options, Position(first_epoch(self._epoch)), None)
            counts.append(way.num_records())
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return None
        turns = [self.choices.place(self._epoch, i, count) for i, count in enumerate(known)]
        if not any(known):
            return 0
        if self.stop_at == "first":
            end = min(turn for turn, count in zip(turns, known, strict=True) if count)
        else:
            end = max(turns)
        empty = [i for i, count in enumerate(known) if not count]
        return end - sum(self.choices.count(self._epoch, i, end) for i in empty)

    def close(self) -> None:
        """Stop for good. Idempotent."""
        self.begin(self.position())
        for way in self.ways:
            way.close()
        self.closed = True

    def check_open(self) -> None:
        if self.closed:
            raise ValueError("the mixture is closed")
