"""Pieces of numbered units, and the order in which a reader visits them: sharing out and
shuffling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np

from tfio_store.dataset.checks import check_from_0, check_whole
from tfio_store.records.arrays import Int64Array

__all__ = [
    "ArrayCounts",
    "Counts",
    "Cut",
    "Numbers",
    "Pieces",
    "Running",
    "Share",
    "Shuffle",
    "Step",
    "generator",
    "last_shuffle",
    "parse_steps",
    "place_of",
    "rearrange",
    "record_permutation",
    "steps_at",
    "steps_text",
]


# A sequence of pieces: numbered items in some order, of which a few give a part of their records.
#
# The items are units, or windows of units that are shuffled together. Cuts are kept for the pieces
# that have one, which are few. So a sequence takes no memory for each record, and none for each
# item that stands in its natural order.


Numbers: TypeAlias = "Int64Array | range"
"""Numbers of items, in the order of a reader. A range takes no memory, however many there are."""

Cut: TypeAlias = "tuple[int, int | None]"
"""First and last record of an item. None: to its end, where its records are unknown."""


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

    def take(self, places: Int64Array) -> Pieces:
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

    def counts(self, held: Int64Array) -> Int64Array:
        """int64 [n]: how many records each piece gives, by how many each item holds. -1 where
        it is unknown."""
        among = self.numbers
        if isinstance(among, range):
            counts: Int64Array = held[among.start : among.stop : among.step].copy()
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

    def total(self, pieces: Pieces) -> int | None:
        """How many records pieces give. None where a count is not known."""


@dataclass(frozen=True, slots=True)
class ArrayCounts:
    """The counts of all items, in an array."""

    held: Int64Array

    def running(self, pieces: Pieces) -> Running:
        """Who calls has seen that all counts of the pieces are known."""
        counts = pieces.counts(self.held)
        return _Totals(counts, np.cumsum(counts))

    def total(self, pieces: Pieces) -> int | None:
        counts = pieces.counts(self.held)
        return None if (counts < 0).any() else int(counts.sum())


@dataclass(frozen=True, slots=True)
class _Totals:
    counts: Int64Array
    ends: Int64Array

    @property
    def total(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def find(self, record: int) -> tuple[int, int]:
        place = int(np.searchsorted(self.ends, record, side="right"))
        return place, record - int(self.ends[place]) + self.count(place)

    def count(self, place: int) -> int:
        return int(self.counts[place])


# Decides which units a reader visits, and in which order: sharing out and shuffling.
#
# A *unit* is a block, or a shard that cannot be cut. Sharing and shuffling are functions of a
# sequence of pieces, which are units, whole or cut. So they compose in the order of the calls:
# shuffle-then-shard gives every worker other units in each epoch, shard-then-shuffle always the
# same.


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``count``-th unit from ``index`` on: workers differ by at most one unit.

    With ``even`` it is a run of records instead, as many for each worker: units are cut where it
    begins and ends. "drop" leaves out the last records of the order, less than ``count``. "pad"
    repeats the first ones. "split" does neither: workers differ by at most one record.
    """

    index: int
    count: int
    even: str | None = None

    def __post_init__(self) -> None:
        check_whole("index", self.index)
        check_whole("count", self.count)
        if self.count < 1:
            raise ValueError(f"count= takes 1 or more workers, not {self.count}")
        if not 0 <= self.index < self.count:
            raise ValueError(
                f"index= takes 0 to {self.count - 1} of {self.count}, not {self.index} (the index "
                "comes before the count, unlike in tf.data)"
            )
        if self.even not in (None, "drop", "pad", "split"):
            raise ValueError(f'even= takes "drop", "pad", "split" or None, not {self.even!r}')

    def apply(self, pieces: Pieces, counts: Counts, epoch: int) -> Pieces:
        if self.even is None:
            return pieces[self.index :: self.count]
        running = counts.running(pieces)
        total = running.total
        if self.even == "split":
            start, stop = (total * index // self.count for index in (self.index, self.index + 1))
            return pieces.span(running, start, stop)
        size = -(-total // self.count) if self.even == "pad" else total // self.count
        start = self.index * size % max(total, 1)
        found = [pieces.span(running, start, min(start + size, total))]
        if start + size > total:
            found.append(pieces.span(running, 0, start + size - total))
        return Pieces.joined(found)

    def __str__(self) -> str:
        even = "" if self.even is None else f", even={self.even}"
        return f"shard({self.index}, {self.count}{even})"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A permutation of the units that depends on nothing but seed, epoch and their number.

    Records are then shuffled in memory, among ``window`` MiB of neighbouring units of the new
    order.
    """

    seed: int
    window: int

    def __post_init__(self) -> None:
        check_from_0("seed", self.seed)
        check_whole("window", self.window)
        if self.window < 1:
            raise ValueError(f"window= takes 1 or more MiB, not {self.window}")

    def apply(self, pieces: Pieces, counts: Counts, epoch: int) -> Pieces:
        return pieces.take(generator(self.seed, epoch).permutation(len(pieces)))

    @property
    def window_bytes(self) -> int:
        return self.window << 20

    def check_room(self, nbytes: int, budget: int) -> None:
        """ValueError if two windows of a source of ``nbytes`` do not fit into a memory budget."""
        most = min(nbytes, self.window_bytes)
        if 2 * most > budget:
            raise ValueError(
                f"window={self.window} takes up to {most:,} bytes of this source's records, two "
                f"at a time, and memory_budget= allows {budget:,} bytes in all: pass a smaller "
                "window= or a larger memory_budget="
            )

    def __str__(self) -> str:
        return f"shuffle(seed={self.seed}, window={self.window})"


Step: TypeAlias = "Share | Shuffle"
"""The steps that a reader applies to the order."""


def rearrange(pieces: Pieces, counts: Counts, steps: tuple[Step, ...], epoch: int) -> Pieces:
    """The pieces after every step. Only a shuffle makes an array of their numbers."""
    for step in steps:
        pieces = step.apply(pieces, counts, epoch)
    return pieces


def last_shuffle(steps: tuple[Step, ...]) -> Shuffle | None:
    """The step that shuffles records: the last of the shuffling steps."""
    return next((step for step in reversed(steps) if isinstance(step, Shuffle)), None)


def steps_text(steps: tuple[Step, ...]) -> str:
    """The steps as text, such as "shuffle(seed=3, window=16).shard(0, 2)"."""
    return ".".join(map(str, steps)) or _NO_STEPS


def parse_steps(text: str) -> tuple[Step, ...]:
    """The steps that `steps_text` made a text of. ValueError if it did not."""
    steps: list[Step] = []
    for found in () if text == _NO_STEPS else _STEP.finditer(text):
        index, count, even, seed, window = found.groups()
        if seed is None:
            steps.append(Share(int(index), int(count), even))
        else:
            steps.append(Shuffle(int(seed), int(window)))
    if steps_text(tuple(steps)) != text:
        raise ValueError(f"{text!r} is no order of a reader")
    return tuple(steps)


_NO_STEPS = "in order"

_STEP = re.compile(
    r"shard\((\d+), (\d+)(?:, even=(drop|pad|split))?\)|shuffle\(seed=(\d+), window=(\d+)\)"
)


def place_of(steps: tuple[Step, ...]) -> tuple[int, int]:
    """Which of how many workers has these steps: shares of shares are counted through."""
    index, count = 0, 1
    for step in steps:
        if isinstance(step, Share):
            index, count = index * step.count + step.index, count * step.count
    return index, count


def steps_at(steps: tuple[Step, ...], index: int) -> tuple[Step, ...]:
    """The steps of another one of the workers that `place_of` counts."""
    found: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Share):
            index, mine = divmod(index, step.count)
            step = replace(step, index=mine)
        found.append(step)
    return tuple(reversed(found))


def record_permutation(
    count: int, seed: int, epoch: int, position: int, records: int
) -> Int64Array:
    """The order of the records of one window. It depends only on where the window begins, so that a
    reader which resumes there finds the same order."""
    return generator(seed, epoch, position, records, 1).permutation(count)


def generator(*entropy: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these."""
    # PCG64 by name: default_rng may change its generator, and then a saved position would mean
    # another record
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
