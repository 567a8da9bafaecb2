"""A mixture's traversal of its sources: the records that are due, source by source.

By default `Choices` say whose record is next. Where the weights are by a feature, it is the record
of the source that was given least of it, for its weight. Each record has a *time*: the values that
its source gave before it, over the weight. The record of the least time is next.

Each source has a traversal of its own, and gives its records in its own order. A batch of the
mixture ends where a source has to fetch. So a state can always stand between any two records of the
last batch: each source then stands inside its own last batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfio_store.dataset.checks import check_from_0, whole_number
from tfio_store.example.codec import value_counts
from tfio_store.example.feature import Feature
from tfio_store.read.choices import Choices
from tfio_store.read.cursor import Position
from tfio_store.read.marks import Mark
from tfio_store.read.state import MOST
from tfio_store.read.traversal import ReaderOptions, Shared, Traversal
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import RecordBatch
from tfio_store.records.one_thread import OneThread

__all__ = [
    "MixedPosition",
    "MixedTraversal",
    "checked_mixture",
    "first_epoch",
    "mixture_epoch",
]

_LEAST_AHEAD, _MOST_AHEAD = 64, 4096
"""Places of the mixture that are looked at together: about as many as the sources can fill."""

_PASSES = 1 << 20
"""So many epochs of a source are kept for its passes in one epoch of the mixture."""

_FORMAT = 3

_NUMBERS = ("epoch", "begin", "place")
"""The numbers of a mixture's state."""


def first_epoch(epoch: int) -> int:
    """The epoch of a source's first pass in an epoch of the mixture."""
    check_from_0("epoch", epoch)
    return epoch * _PASSES


def mixture_epoch(source_epoch: int) -> int:
    """The epoch of the mixture in which a source gives an epoch of its own."""
    return source_epoch // _PASSES


@dataclass(frozen=True, slots=True)
class MixedPosition:
    """``place`` is that of the next record among the choices of the epoch. ``ended`` says which
    sources were given whole, ``values`` how many values of the measured feature each has given, and
    ``sources`` where each stands. ``begin`` is the place at which the epoch began: other than 0 for
    the rest of an epoch that others began."""

    epoch: int
    begin: int
    place: int
    ended: tuple[bool, ...]
    values: tuple[int, ...]
    sources: tuple[Position, ...]

    @classmethod
    def at_first(cls, epoch: int, count: int) -> MixedPosition:
        """The beginning of an epoch."""
        source = Position(epoch=first_epoch(epoch))
        return cls(epoch, 0, 0, (False,) * count, (0,) * count, (source,) * count)


class _Passes(Traversal):
    """The epochs of one source, which are passes in an epoch of the mixture. All of these go by
    what was known when it began, for another share of the mixture may be in another pass."""

    def _epoch_ended(self) -> None:
        pass


class _Source:
    """One source, and what is left of its last batch."""

    def __init__(
        self, shared: Shared, options: ReaderOptions, position: Position, by: str | None
    ) -> None:
        self.traversal = _Passes(shared, options, position)
        self._by = by

    def begin(self, position: Position) -> None:
        """Go to a position."""
        self.traversal.begin(position)
        self._batch: RecordBatch | list[bytes] = []
        self._taken = 0
        self._sizes: Int64Array | None = None
        self.empty = False
        """Whether a whole epoch of it holds no record."""
        self._fresh = position == Position(epoch=position.epoch)

    @property
    def left(self) -> int:
        return len(self._batch) - self._taken

    def load(self) -> bool:
        """Fetch its next batch. False at the end of its epoch, behind which it stands then."""
        found = self.traversal.next_records()
        self._batch, self._taken, self._sizes = found or [], 0, None
        if found is None:
            self.empty, self._fresh = self._fresh, True
            return False
        self._fresh = False
        return True

    def sizes(self) -> Int64Array:
        """How many values of the measured feature each record has that was not taken, 1 at least.
        It raises again, in the same place, where that can't be said."""
        if self._sizes is None:
            assert self._by is not None
            schema = self.traversal.shared.dataset.schema
            known = None if schema is None else schema.get(self._by)
            feature = known or Feature("int64", (None,))
            (sizes,) = value_counts(self._batch, {self._by: feature}).values()
            self._sizes = np.maximum(sizes, 1)
        left: Int64Array = self._sizes[self._taken :]
        return left

    def take(self, count: int) -> list[bytes]:
        found = self._batch[self._taken : self._taken + count]
        self._taken += count
        return found if isinstance(found, list) else found.tolist()

    def position(self, unread: int) -> Position:
        """Where it stands, before so many of the records that were taken last."""
        return self.traversal.before(self.left + unread)

    def mark(self) -> tuple[Mark, int]:
        """Where its last batch lies, and how many of its records were not taken."""
        return self.traversal.mark(), self.left


@dataclass(frozen=True, slots=True)
class MixedMark:
    """A mixture's place behind the records that it gave last. It stays what it is when the mixture
    goes on."""

    marks: str
    """Those of the mixture."""
    position: MixedPosition
    """Without its sources."""
    places: Int64Array
    chosen: Int64Array
    sizes: Int64Array
    """The place of each record, the number of its source, and the values that it counts for."""
    sources: tuple[tuple[Mark, int], ...]

    def state(self, unread: int) -> dict[str, Any]:
        """See `AnyMark`."""
        position, first = self.position, len(self.chosen) - unread
        if unread:
            values = _less(position.values, self.chosen[first:], self.sizes[first:])
            position = replace(position, place=int(self.places[first]), values=values)
        behind = np.bincount(self.chosen[first:], minlength=len(self.sources)).tolist()
        sources = [
            mark.state(left + count)
            for (mark, left), count in zip(self.sources, behind, strict=True)
        ]
        return mixed_state(self.marks, position, sources)


def _less(values: Sequence[int], chosen: Int64Array, sizes: Int64Array) -> tuple[int, ...]:
    """What the sources had given before some records."""
    less = np.zeros(len(values), np.int64)
    np.add.at(less, chosen, sizes)
    return tuple((np.array(values) - less).tolist())


def mixed_state(
    marks: str, position: MixedPosition, sources: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The state of a mixture of these marks, with those of its sources."""
    return {
        "format": _FORMAT,
        "mixture": marks,
        **{name: getattr(position, name) for name in _NUMBERS},
        "ended": [int(ended) for ended in position.ended],
        "values": list(position.values),
        "sources": list(sources),
    }


class MixedTraversal:
    """Lists of records from a position on, epoch after epoch."""

    def __init__(
        self,
        choices: Choices,
        stop: str,
        shared: Sequence[Shared],
        options: ReaderOptions,
        position: MixedPosition,
        by: str | None = None,
    ) -> None:
        self.choices = choices
        self.stop_at = stop
        self.by = by
        self.options = options
        self.passes = 0
        """How many epochs have ended."""
        self.turn = OneThread("the mixture")
        self.closed = False
        self.last: RecordBatch | list[bytes] | None = None
        """The records that were given last."""
        self._ahead = _LEAST_AHEAD
        self._counted: tuple[int, int | None] | None = None
        self._sources = [
            _Source(one, options, at, by) for one, at in zip(shared, position.sources, strict=True)
        ]
        self.begin(position)

    @property
    def shared(self) -> tuple[Shared, ...]:
        """The datasets of the sources."""
        return tuple(source.traversal.shared for source in self._sources)

    def begin(self, position: MixedPosition) -> None:
        """Go to a position."""
        for source, at in zip(self._sources, position.sources, strict=True):
            source.begin(at)
        self._epoch, self._begin, self._place = position.epoch, position.begin, position.place
        self._ended, self._values = list(position.ended), position.values
        self._settle()

    def _settle(self) -> None:
        self.last = None
        self._places = self._chosen = self._sizes = np.zeros(0, np.int64)

    def mark(self) -> MixedMark:
        """Where it stands behind the last records."""
        position = MixedPosition(
            self._epoch, self._begin, self._place, tuple(self._ended), self._values, ()
        )
        sources = tuple(source.mark() for source in self._sources)
        return MixedMark(self._marks, position, self._places, self._chosen, self._sizes, sources)

    def before(self, unread: int) -> MixedPosition:
        """Where it stands, before so many of the last records."""
        first = len(self._chosen) - unread
        place = int(self._places[first]) if unread else self._place
        behind = np.bincount(self._chosen[first:], minlength=len(self._sources)).tolist()
        sources = [
            source.position(count) for source, count in zip(self._sources, behind, strict=True)
        ]
        values = _less(self._values, self._chosen[first:], self._sizes[first:])
        ended = tuple(self._ended)
        return MixedPosition(self._epoch, self._begin, place, ended, values, tuple(sources))

    @property
    def room(self) -> int:
        """Bytes of the budget that may be held behind it, made of records that it gave."""
        return sum(source.traversal.room for source in self._sources)

    @property
    def waits(self) -> bool:
        """Whether one of them waits."""
        return any(source.traversal.waits for source in self._sources)

    def hold(self, nbytes: int) -> None:
        """Take so many bytes of the budget for what is held behind it."""
        for source in self._sources:
            source.traversal.hold(nbytes // len(self._sources))

    def limit(self, threads: int) -> None:
        """Use no more than so many threads from now on."""
        for source in self._sources:
            source.traversal.limit(threads)

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

    def _due(self) -> tuple[Int64Array, Int64Array]:
        """The next places, without those of empty sources, and their sources."""
        if self.by is not None:
            return self._due_by_values()
        stop = self._place + self._ahead
        chosen = self.choices.between(self._epoch, self._place, stop)
        places = np.arange(self._place, stop)
        self._place = stop
        empty = np.array([source.empty for source in self._sources])
        if empty.any():
            live = ~empty[chosen]
            places, chosen = places[live], chosen[live]
        return places, chosen

    def _due_by_values(self) -> tuple[Int64Array, Int64Array]:
        """The records that the sources have, in the order of their times, up to the one that a
        source has to fetch; or, if that one is next, its place alone."""
        times, numbers, sizes = [], [], []
        for number, source in enumerate(self._sources):
            if source.empty:
                continue
            each = source.sizes()
            given = np.concatenate([[self._values[number]], each]).cumsum()
            times.append(given / self.choices.weights[number])
            numbers.append(np.full(len(given), number))
            sizes.append(np.append(each, 0))  # of the one to fetch nothing is known
        chosen = np.concatenate(numbers)
        order = np.lexsort((chosen, np.concatenate(times)))
        chosen, found = chosen[order], np.concatenate(sizes)[order]
        stop = min(int(np.flatnonzero(found == 0)[0]), _MOST_AHEAD)
        if not stop:
            return np.array([self._place]), chosen[:1]
        chosen, self._sizes = chosen[:stop], found[:stop]
        self._values = _less(self._values, chosen, -self._sizes)
        places = np.arange(self._place, self._place + len(chosen))
        self._place += len(chosen)
        return places, chosen

    def _take(self, places: Int64Array, chosen: Int64Array) -> list[bytes]:
        """The records of these places, as far as the sources have them."""
        left = np.array([source.left for source in self._sources])
        rows = np.argsort(chosen, kind="stable")  # of the first source, then of the second, …
        counts = np.bincount(chosen, minlength=len(left))
        short = counts > left
        stop = int(min(rows[(np.cumsum(counts) - counts + left)[short]], default=len(chosen)))
        self._places, self._chosen = places[:stop], chosen[:stop]
        if self.by is None:
            self._sizes = np.zeros(stop, np.int64)
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
        for source in self._sources:
            source.traversal.learn()
        self.begin(MixedPosition.at_first(self._epoch + 1, len(self._sources)))
        self.passes += 1

    def metrics(self) -> dict[str, float]:
        """Those of all sources together. See `Iterated.metrics`."""
        found: Counter[str] = Counter()
        for source in self._sources:
            found.update(source.traversal.metrics())
        return dict(found)

    def num_records(self) -> int | None:
        """How many records the epoch has, if that is known in advance."""
        if self._begin or self.by is not None:
            return None
        if self._counted is None or self._counted[0] != self._epoch:
            self._counted = self._epoch, self._count()
        return self._counted[1]

    def _count(self) -> int | None:
        first = Position(first_epoch(self._epoch))
        counts = [Traversal(one, self.options, first).num_records() for one in self.shared]
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

    def check_open(self) -> None:
        if self.closed:
            raise ValueError("the mixture is closed")

    # Its state: its position as JSON, with the state of each source

    @property
    def _marks(self) -> str:
        by = "" if self.by is None else f", by={self.by}"
        how = f"seed={self.choices.seed}, stop={self.stop_at}{by}"
        return f"mix({how}, weights={self.choices})"

    def state(self, position: MixedPosition) -> dict[str, Any]:
        """The state of the mixture when it stands at a position."""
        sources = [
            source.traversal.state(at)
            for source, at in zip(self._sources, position.sources, strict=True)
        ]
        return mixed_state(self._marks, position, sources)

    def find(self, state: Mapping[str, Any]) -> MixedPosition:
        """The position of a state. ValueError if it is none of this mixture's."""
        checked_mixture(state)
        if state["mixture"] != self._marks:
            raise ValueError(
                f"state= was taken of another mixture, {state['mixture']}; this is {self._marks}"
            )
        states = state["sources"]
        if len(states) != len(self._sources):
            raise ValueError(
                f"state= holds {len(states)} sources, and the mixture has {len(self._sources)}"
            )
        traversals = [source.traversal for source in self._sources]
        found = list(map(_source_position, states, traversals, range(len(states))))
        sources = tuple(at for at, _ in found)
        for number, at in enumerate(sources):
            if mixture_epoch(at.epoch) != state["epoch"]:
                raise ValueError(
                    f"state= holds another epoch of source {number} than of the mixture"
                )
        ended = tuple(map(bool, state["ended"]))
        epoch, begin, place = (state[name] for name in _NUMBERS)
        for traversal, (_, shared) in zip(traversals, found, strict=True):
            traversal.go_on(shared)  # now that no source refuses its state
        return MixedPosition(epoch, begin, place, ended, tuple(state["values"]), sources)


def _source_position(
    state: Mapping[str, Any], traversal: Traversal, number: int
) -> tuple[Position, Shared]:
    try:
        return traversal.find(state)
    except ValueError as error:
        raise ValueError(f"source {number} of the mixture: {error}") from error


def checked_mixture(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state. ValueError if it is none of a mixture."""
    found = isinstance(state, Mapping) and state.get("format") == _FORMAT
    if not found or not isinstance(state.get("mixture"), str):
        raise ValueError(f"state= is no mixture's state of format {_FORMAT}: {state!r}")
    for name in _NUMBERS:
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise ValueError(f"state= holds {name}={value!r}, which is no position")
    if state["begin"] > state["place"]:
        raise ValueError(f"state= holds place={state['place']!r}, before its begin=")
    ended, sources = state.get("ended"), state.get("sources")
    if not isinstance(ended, list | tuple) or not all(one in (0, 1) for one in ended):
        raise ValueError(f"state= holds ended={ended!r}, which is no list of 0 and 1")
    if not isinstance(sources, list | tuple) or len(sources) != len(ended):
        raise ValueError("state= holds no list of as many sources")
    values = state.get("values")
    if not isinstance(values, list | tuple) or len(values) != len(ended):
        raise ValueError("state= holds no list of as many counts of values")
    if not all(whole_number(one) is not None and 0 <= one <= MOST for one in values):
        raise ValueError(f"state= holds values={values!r}, which are no counts")
    return state
