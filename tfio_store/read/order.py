"""Decides which units a reader visits, and in which order: sharing out and shuffling.

A *unit* is a block, or a shard that cannot be cut. Sharing and shuffling are functions of a
sequence of pieces, which are units, whole or cut. So they compose in the order of the calls:
shuffle-then-shard gives every worker other units in each epoch, shard-then-shuffle always the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tfio_store.dataset.checks import whole_number
from tfio_store.read.pieces import Counts, Order, Pieces

__all__ = [
    "Share",
    "Shuffle",
    "Step",
    "check_from_0",
    "generator",
    "last_shuffle",
    "parse_steps",
    "place_of",
    "rearrange",
    "record_permutation",
    "steps_at",
    "steps_text",
]


def check_whole(argument: str, value: object) -> None:
    """TypeError unless it is a whole number."""
    if whole_number(value) is None:
        raise TypeError(f"{argument}= takes a whole number, not {value!r}")


def check_from_1(argument: str, value: int) -> None:
    """TypeError or ValueError unless it is a whole number from 1 on."""
    check_whole(argument, value)
    if value < 1:
        raise ValueError(f"{argument}= takes 1 or more, not {value}")


def check_from_0(argument: str, value: int) -> None:
    """TypeError or ValueError unless it is a whole number from 0 on."""
    check_whole(argument, value)
    if value < 0:
        raise ValueError(f"{argument}= takes a number from 0 on, not {value}")


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``count``-th unit from ``index`` on: workers differ by at most one unit.

    With ``even`` it is a run of records instead, as many for each worker: units are cut where it
    begins and ends. "drop" leaves out the last records of the order, less than ``count``. "pad"
    repeats the first ones.
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
                f"index= takes 0 to {self.count - 1} of {self.count}, not {self.index}"
            )
        if self.even not in (None, "drop", "pad"):
            raise ValueError(f'even= takes "drop", "pad" or None, not {self.even!r}')

    def apply(self, pieces: Pieces, counts: Counts, epoch: int) -> Pieces:
        if self.even is None:
            return pieces[self.index :: self.count]
        running = counts.running(pieces)
        total = running.total
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
"""What a reader does to the order."""


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
    r"shard\((\d+), (\d+)(?:, even=(drop|pad))?\)|shuffle\(seed=(\d+), window=(\d+)\)"
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


def record_permutation(count: int, seed: int, epoch: int, position: int, records: int) -> Order:
    """The order of the records of one window. It depends only on where the window begins, so that a
    reader which resumes there finds the same order."""
    return generator(seed, epoch, position, records, 1).permutation(count)


def generator(*entropy: int) -> np.random.Generator:
    """Random numbers that depend on nothing but these."""
    # PCG64 by name: default_rng may change its generator, and then a saved position would mean
    # another record
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
