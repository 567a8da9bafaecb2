"""Which source the next record of a mixture comes from: a function of seed, epoch and place alone.

Places come in blocks of 256. In each block every source has its weight's share of the places, give
or take one. Where a share is no whole number, the blocks take turns with the rest, so that the sums
keep to the weights however long the epoch is. The places of a block are then shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite

import numpy as np

from tfio_store.read.order import generator
from tfio_store.read.pieces import Order

__all__ = ["Choices"]

_BLOCK = 256
_PAGE = 4096
_BITS = 32
_ONE = 1 << _BITS
_TURN = 0x9E3779B9
"""The golden section of `_ONE`: its multiples spread evenly over all remainders."""

_BLOCKS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Choices:
    """``weights`` are positive numbers, of which only the ratios count."""

    seed: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed= takes a number from 0 on, not {self.seed}")
        for weight in self.weights:
            if not isfinite(weight) or weight <= 0:
                raise ValueError(f"weights are positive numbers, and one is {weight!r}")
        if min(np.diff(self._bounds, prepend=0), default=1) < 1:
            raise ValueError(
                f"weights= {self.weights}: the smallest is too small beside the others"
            )

    @cached_property
    def _bounds(self) -> Order:
        """Where the part of each source ends of the numbers below `_ONE`."""
        total = sum(self.weights)
        ends = np.cumsum([weight / total for weight in self.weights])
        bounds = np.round(ends * _ONE).astype(np.int64)
        bounds[-1:] = _ONE
        return bounds

    def between(self, epoch: int, start: int, stop: int) -> Order:
        """int64 [stop - start]: the sources of these places."""
        first, last = start // _PAGE, -(-stop // _PAGE)
        pages = [_page(self, epoch, number) for number in range(first, last)]
        found: Order = np.concatenate([np.zeros(0, np.int64), *pages])
        return found[start - first * _PAGE : stop - first * _PAGE]

    def _page(self, epoch: int, number: int) -> Order:
        """The sources of a page, which holds several blocks: numpy's calls cost more than that."""
        blocks = np.arange(_PAGE // _BLOCK) + number * (_PAGE // _BLOCK)
        points = (np.arange(_BLOCK, dtype=np.int64) << _BITS) + self._phases(epoch, blocks)[:, None]
        chosen = np.searchsorted(self._bounds, points // _BLOCK, side="right")
        keys = generator(self.seed, epoch, number, 2).bit_generator.random_raw(_PAGE)
        order = np.argsort(keys.reshape(chosen.shape), axis=1, kind="stable")
        return np.take_along_axis(chosen, order, axis=1).astype(np.int64).reshape(-1)

    def _phases(self, epoch: int, blocks: Order) -> Order:
        phases: Order = (blocks * _TURN + _first_phase(self.seed, epoch)) % _ONE
        return phases

    def _counts(self, epoch: int, numbers: Order) -> Order:
        """int64 [n_blocks, n_sources]: the places of each source in these blocks."""
        phases = self._phases(epoch, numbers)[:, None]
        below = np.clip(-((phases - self._bounds * _BLOCK) >> _BITS), 0, _BLOCK)
        counts: Order = np.diff(below, axis=1, prepend=0)
        return counts

    def place(self, epoch: int, source: int, count: int) -> int:
        """The place of a source behind so many others of the same source."""
        for numbers, counts in self._all_counts(epoch):
            ends = np.cumsum(counts[:, source])
            if ends[-1] <= count:
                count -= int(ends[-1])
                continue
            at = int(np.searchsorted(ends, count, side="right"))
            before = int(ends[at] - counts[at, source])
            first = int(numbers[at]) * _BLOCK
            block = self.between(epoch, first, first + _BLOCK)
            return first + int(np.flatnonzero(block == source)[count - before])
        raise AssertionError("there is always another block")

    def count(self, epoch: int, source: int, stop: int) -> int:
        """How many of the first ``stop`` places are a source's."""
        last = stop // _BLOCK
        total = int((self.between(epoch, last * _BLOCK, stop) == source).sum())
        for numbers, counts in self._all_counts(epoch):
            total += int(counts[numbers < last, source].sum())
            if numbers[-1] >= last:
                break
        return total

    def _all_counts(self, epoch: int) -> Iterator[tuple[Order, Order]]:
        first = 0
        while True:
            numbers = np.arange(first, first + _BLOCKS_AT_ONCE, dtype=np.int64)
            yield numbers, self._counts(epoch, numbers)
            first += _BLOCKS_AT_ONCE

    def __str__(self) -> str:
        total = sum(self.weights)
        return "/".join(f"{weight / total:.9g}" for weight in self.weights)


@lru_cache(maxsize=16)
def _page(choices: Choices, epoch: int, number: int) -> Order:
    return choices._page(epoch, number)


@lru_cache(maxsize=16)
def _first_phase(seed: int, epoch: int) -> int:
    return int(generator(seed, epoch, 3).bit_generator.random_raw()) % _ONE
