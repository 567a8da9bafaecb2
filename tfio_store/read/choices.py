"""Which source the next record of a mixture comes from: a function of seed, epoch and place alone.

Places come in blocks of 256. In each block every source has its weight's share of the places, give
or take one. Where a share is no whole number, the blocks take turns with the rest, so that the sums
keep to the weights however long the epoch is. The places of a block are then shuffled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from tfio_store.dataset.checks import check_from_0
from tfio_store.read.order import generator
from tfio_store.records.arrays import Int64Array

__all__ = ["BLOCK", "GOLDEN", "MIXING", "ONE", "PAGE", "TURN", "Choices", "weighted"]

BLOCK = 256
PAGE = 4096
_BITS = 32
ONE = 1 << _BITS
TURN = 0x9E3779B9
"""The golden section of `ONE`: its multiples spread evenly over all remainders."""

GOLDEN = 0x9E3779B97F4A7C15
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))

Keys: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"


def weighted(argument: str, given: Any) -> list[tuple[Any, float]]:
    """The mixed sources, and their weights. TypeError or ValueError unless they are pairs."""
    takes = f"{argument}= takes pairs of what is mixed and its weight"
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{takes}, not a {type(given).__name__}")
    pairs = list(given.items() if isinstance(given, Mapping) else given)
    if not pairs:
        raise ValueError(f"{argument}= holds nothing to mix")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{takes}, and holds a {type(pair).__name__} that is none")
        weight = pair[1]
        if isinstance(weight, bool) or not hasattr(weight, "__float__"):
            raise TypeError(f"{argument}= holds the weight {weight!r}, which is no number")
    return [(each, float(weight)) for each, weight in pairs]


@dataclass(frozen=True)
class Choices:
    """``weights`` are positive numbers, of which only the ratios count."""

    seed: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        check_from_0("seed", self.seed)
        for weight in self.weights:
            if not isfinite(weight) or weight <= 0:
                raise ValueError(f"weights are positive numbers, and one is {weight!r}")
        if min(np.diff(self.bounds, prepend=0), default=1) < 1:
            raise ValueError(
                f"weights= {self.weights}: the smallest is too small beside the others"
            )

    @cached_property
    def bounds(self) -> Int64Array:
        """Where the part of each source ends of the numbers below `ONE`."""
        total = sum(self.weights)
        ends = np.cumsum([weight / total for weight in self.weights])
        bounds = np.round(ends * ONE).astype(np.int64)
        bounds[-1:] = ONE
        return bounds

    def between(self, epoch: int, start: int, stop: int) -> Int64Array:
        """int64 [stop - start]: the sources of these places."""
        first, last = start // PAGE, -(-stop // PAGE)
        pages = [_page(self, epoch, number) for number in range(first, last)]
        found: Int64Array = np.concatenate([np.zeros(0, np.int64), *pages])
        return found[start - first * PAGE : stop - first * PAGE]

    def salts(self, epoch: int) -> tuple[int, int]:
        """The numbers of 32 and 64 bits that make one epoch's choices others than another's."""
        return _salts(self.seed, epoch)

    def _given(self, epoch: int, source: int, blocks: int) -> int:
        """How many places a source has in so many first blocks, however many these are."""
        ends = [0, *self.bounds.tolist()][source : source + 2]
        first, last = (self._below(epoch, end, blocks) for end in ends)
        return last - first

    def _below(self, epoch: int, bound: int, blocks: int) -> int:
        """How many points of these blocks lie below a bound. In each block that is the whole part
        of ``BLOCK * bound / ONE``, and one more where the block's phase is less than the rest."""
        whole, rest = divmod(BLOCK * bound, ONE)
        salt = self.salts(epoch)[0]
        more = _sum_of_wholes(blocks, salt) - _sum_of_wholes(blocks, salt - rest)
        return blocks * whole + more

    def place(self, epoch: int, source: int, count: int) -> int:
        """The place of a source behind so many others of the same source."""
        given = partial(self._given, epoch, source)
        most = 1
        while given(most) <= count:
            most *= 2
        block = bisect_right(range(most), count, key=given) - 1
        first = block * BLOCK
        chosen = self.between(epoch, first, first + BLOCK)
        return first + int(np.flatnonzero(chosen == source)[count - given(block)])

    def count(self, epoch: int, source: int, stop: int) -> int:
        """How many of the first ``stop`` places are a source's."""
        last = stop // BLOCK
        rest = int((self.between(epoch, last * BLOCK, stop) == source).sum())
        return self._given(epoch, source, last) + rest

    def __str__(self) -> str:
        total = sum(self.weights)
        return "/".join(f"{weight / total:.9g}" for weight in self.weights)


def _sum_of_wholes(count: int, first: int) -> int:
    """The sum of ``(first + i * TURN) // ONE`` for i below ``count``, in a few steps, as Euclid's
    algorithm goes: what is left of it is the same sum with the two numbers exchanged."""
    total, step, unit = 0, TURN, ONE
    while True:
        total += count * (count - 1) // 2 * (step // unit) + count * (first // unit)
        step, first = step % unit, first % unit
        last = step * count + first
        if last < unit:
            return total
        count, first, step, unit = last // unit, last % unit, unit, step


@lru_cache(maxsize=16)
def _page(choices: Choices, epoch: int, number: int) -> Int64Array:
    """The sources of a page, which holds several blocks: numpy's calls cost more than that."""
    phase, salt = choices.salts(epoch)
    blocks = np.arange(PAGE // BLOCK) + number * (PAGE // BLOCK)
    phases = (blocks * TURN + phase) % ONE
    points = (np.arange(BLOCK, dtype=np.int64) << _BITS) + phases[:, None]
    chosen = np.searchsorted(choices.bounds, points // BLOCK, side="right")
    places = np.arange(number * PAGE, (number + 1) * PAGE, dtype=np.uint64)
    keys = _mixed(places, salt).reshape(chosen.shape)
    order = np.argsort(keys, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1).astype(np.int64).reshape(-1)


@lru_cache(maxsize=16)
def _salts(seed: int, epoch: int) -> tuple[int, int]:
    first, second = generator(seed, epoch, 3).bit_generator.random_raw(2).tolist()
    return first % ONE, second


def _mixed(places: Keys, salt: int) -> Keys:
    """Random numbers of 63 bits, one for each place: SplitMix64 (Steele, Lea and Flood, 2014)."""
    keys = (places + np.uint64(1)) * np.uint64(GOLDEN) + np.uint64(salt)
    for shift, factor in MIXING:
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    found: Keys = (keys ^ (keys >> np.uint64(31))) >> np.uint64(1)
    return found
