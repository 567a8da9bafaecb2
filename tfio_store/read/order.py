"""Decides which units a reader visits, and in which order: sharing out and shuffling.

A *unit* is handed out whole: a block, or a shard that cannot be cut. Sharing and shuffling are
functions of a list of unit numbers. So they compose in the order of the calls: shuffle-then-shard
gives every worker other units in each epoch, shard-then-shuffle always the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Numbers: TypeAlias = "Order | range"
"""Numbers of units, in the order of a reader. A range takes no memory, however many there are."""

__all__ = ["Numbers", "Order", "Share", "Shuffle", "rearrange", "record_permutation"]


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``count``-th unit from ``index`` on: workers differ by at most one unit."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count= takes 1 or more workers, not {self.count}")
        if not 0 <= self.index < self.count:
            raise ValueError(
                f"index= takes 0 to {self.count - 1} of {self.count}, not {self.index}"
            )

    def apply(self, units: Numbers, epoch: int) -> Numbers:
        return units[self.index :: self.count]

    def __str__(self) -> str:
        return f"shard({self.index}, {self.count})"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A permutation of the units that depends on nothing but seed, epoch and their number.

    Records are then shuffled in memory, among ``window`` MiB of neighbouring units of the new
    order.
    """

    seed: int
    window: int

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed= takes a number from 0 on, not {self.seed}")
        if self.window < 1:
            raise ValueError(f"window= takes 1 or more MiB, not {self.window}")

    def apply(self, units: Numbers, epoch: int) -> Order:
        found: Order = _generator(self.seed, epoch).permutation(len(units))
        if isinstance(units, range):
            found *= units.step
            found += units.start
            return found
        return units[found]

    @property
    def window_bytes(self) -> int:
        return self.window << 20

    def check_room(self, nbytes: int, budget: int) -> None:
        """ValueError if two windows of a source of ``nbytes`` do not fit into a memory budget."""
        most = min(nbytes, self.window_bytes)
        if 2 * most > budget:
            raise ValueError(
                f"window={self.window} takes up to {most >> 20} MiB of this source's records, two "
                f"at a time, and memory_budget= allows {budget >> 20} MiB in all: pass a smaller "
                "window= or a larger memory_budget="
            )

    def __str__(self) -> str:
        return f"shuffle(seed={self.seed}, window={self.window})"


def rearrange(count: int, steps: tuple[Share | Shuffle, ...], epoch: int) -> Numbers:
    """The unit numbers 0 … count-1 after every step. Only a shuffle makes an array of them."""
    units: Numbers = range(count)
    for step in steps:
        units = step.apply(units, epoch)
    return units


def record_permutation(count: int, seed: int, epoch: int, position: int, records: int) -> Order:
    """The order of the records of one window. It depends only on where the window begins, so that a
    reader which resumes there finds the same order."""
    return _generator(seed, epoch, position, records, 1).permutation(count)


def _generator(*entropy: int) -> np.random.Generator:
    # PCG64 by name: default_rng may change its generator, and then a saved position would mean
    # another record
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
