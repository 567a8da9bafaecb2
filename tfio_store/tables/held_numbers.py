"""Keeps the numbers of a feature: all of them while there is room, and then a part by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)

_MOST_EACH = 1 << 20
_MOST = 4 << 20
_MOST_DISTINCT = 400_000
_MOST_CHUNKS = 64
_AT_ONCE = 1 << 20
_PART = 100_000
_LEAST_PART = 2000


class Budget:
    """How many values all features together may hold, and how many distinct ones they may
    count."""

    def __init__(self) -> None:
        self.room = _MOST
        self.distinct = _MOST_DISTINCT

    def take(self, count: int) -> bool:
        """Whether there is room for so many values, which is then taken."""
        if count > self.room:
            return False
        self.room -= count
        return True

    def take_distinct(self, count: int, before: int) -> bool:
        """Whether so many distinct values may be counted, where there were fewer ``before``."""
        self.distinct -= count - before
        return self.distinct >= 0


class Held:
    """Numbers, in the order in which they came while ``exact``. The figures are of all of
    them, but for `values`.

    NaN (NaT) is counted only, and so are infinite values unless they are kept too.
    """

    def __init__(self, budget: Budget, seed: int, *, tells_infinite: bool = False) -> None:
        self._budget = budget
        self._tells_infinite = tells_infinite
        self._chance = np.random.default_rng([seed, 3])
        self._chunks: list[npt.NDArray[Any]] = []
        self._keys = np.zeros(0)
        self._most_held = 0
        self.exact = True
        self.count = 0
        """Finite values."""
        self.nans = 0
        self.infinite = 0
        self._passed = _Moments()
        """Figures of all numbers, once they are not held any more."""
        self._known: _Moments | None = None

    def add(self, values: npt.NDArray[Any]) -> None:
        values = self._finite(values)
        if not len(values):
            return
        if self.exact:
            if self.count + len(values) <= _MOST_EACH and self._budget.take(len(values)):
                self._chunks.append(values.copy())
                self.count += len(values)
                if len(self._chunks) > _MOST_CHUNKS:
                    self._joined()
                return
            self._thin()
        self.count += len(values)
        self._pass_on(values)

    def _thin(self) -> None:
        """There is no more room: from now on each value has the same chance to be held."""
        values = self._joined()
        self._budget.room += len(values)
        self._most_held = min(_PART, max(_LEAST_PART, len(values)))
        self.exact, self._chunks = False, []
        self._pass_on(values)

    def _pass_on(self, values: npt.NDArray[Any]) -> None:
        for start in range(0, len(values), _AT_ONCE):  # to need no copy of very many values
            part = values[start : start + _AT_ONCE]
            self._passed.add(part)
            self._draw(part)

    def _finite(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype.kind != "f":
            return values
        finite = np.isfinite(values)
        if finite.all():
            return values
        nans = int(np.count_nonzero(np.isnan(values)))
        self.nans += nans
        self.infinite += len(values) - int(np.count_nonzero(finite)) - nans
        kept: npt.NDArray[Any] = values[~np.isnan(values) if self._tells_infinite else finite]
        return kept

    def _draw(self, values: npt.NDArray[Any]) -> None:
        # each value draws a number, and those of the smallest numbers are a fair sample
        held = self._chunks[0] if self._chunks else values[:0]
        if len(self._keys) < self._most_held:
            new = self._chance.random(len(values))
        else:  # the same, without a number for each value that goes at once
            limit = float(self._keys.max())
            count = int(self._chance.binomial(len(values), limit))
            values = values[self._chance.choice(len(values), count, replace=False)]
            new = self._chance.random(count) * limit
        keys, both = np.concatenate([self._keys, new]), np.concatenate([held, values])
        if len(keys) > self._most_held:
            kept = np.argpartition(keys, self._most_held)[: self._most_held]
            keys, both = keys[kept], both[kept]
        self._keys, self._chunks = keys, [both]

    def _joined(self) -> npt.NDArray[Any]:
        if not self._chunks:
            return np.zeros(0)
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0]

    @property
    def values(self) -> npt.NDArray[Any]:
        """The numbers that are held, in order if ``exact``."""
        return self._joined()

    @property
    def least(self) -> int | float | None:
        return self._told.least

    @property
    def most(self) -> int | float | None:
        return self._told.most

    @property
    def zeros(self) -> int:
        return self._told.zeros

    @property
    def moments(self) -> tuple[float | None, float | None]:
        """The mean and the standard deviation (of all, not of a sample: divided by n)."""
        if not self.count:
            return None, None
        found = self._told
        return found.mean, math.sqrt(max(0.0, found.squares) / self.count)

    @property
    def _told(self) -> _Moments:
        if not self.exact:
            return self._passed
        if self._known is None or self._known.count != self.count:
            self._known = _Moments()
            self._known.add(self._joined())
        return self._known


@dataclass
class _Moments:
    """Numbers of values that came in batches."""

    count: int = 0
    zeros: int = 0
    least: int | float | None = None
    most: int | float | None = None
    mean: float = 0.0
    squares: float = 0.0
    """The sum of squared distances from the mean."""

    def add(self, values: npt.NDArray[Any]) -> None:
        if not len(values):
            return
        least, most = values.min().item(), values.max().item()
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
        self.zeros += int(np.count_nonzero(values == 0))
        wide = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(wide.mean())
            squares = float(((wide - mean) ** 2).sum())
        before, self.count = self.count, self.count + len(wide)
        step = mean - self.mean  # Chan's update
        self.squares += squares + step * step * before * len(wide) / self.count
        self.mean = mean if not before else self.mean + step * len(wide) / self.count


def quantiles(ordered: npt.NDArray[Any], parts: Sequence[float] = QUANTILES) -> tuple[Any, ...]:
    """Those of sorted values, each of them a value that is there (numpy's "inverted_cdf")."""
    size = len(ordered)
    if not size:
        return ()
    places = [min(max(math.ceil(part * size) - 1, 0), size - 1) for part in parts]
    return tuple(ordered[places].tolist())
