"""Keeps the numbers of a feature: all of them while there is room, and then a part by chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["QUANTILES", "Budget", "Held", "quantiles"]

QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)

_MOST_EACH = 1 << 20
_MOST = 4 << 20
_AT_ONCE = 1 << 20
_PART = 100_000
_LEAST_PART = 2000


class Budget:
    """How many values all features together may hold."""

    def __init__(self) -> None:
        self.room = _MOST

    def take(self, count: int) -> bool:
        """Whether there is room for so many values, which is then taken."""
        if count > self.room:
            return False
        self.room -= count
        return True


class Held:
    """Numbers, in the order in which they came while ``exact``. Moments are of all of them.

    NaN (NaT) and infinite values are counted only.
    """

    def __init__(self, budget: Budget, seed: int) -> None:
        self._budget = budget
        self._chance = np.random.default_rng([seed, 3])
        self._chunks: list[npt.NDArray[Any]] = []
        self._keys = np.zeros(0)
        self._held = 0
        self.exact = True
        self.count = 0
        """Finite values."""
        self.nans = 0
        self.infinite = 0
        self.zeros = 0
        self.least: int | float | None = None
        self.most: int | float | None = None
        self._mean = 0.0
        self._squares = 0.0
        """The sum of squared distances from the mean."""

    def add(self, values: npt.NDArray[Any]) -> None:
        values = self._finite(values)
        if not len(values):
            return
        least, most = values.min().item(), values.max().item()
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
        self.zeros += int(np.count_nonzero(values == 0))
        for start in range(0, len(values), _AT_ONCE):  # to need no copy of very many values
            self._move(values[start : start + _AT_ONCE])
        if self.exact and (self.count > _MOST_EACH or not self._budget.take(len(values))):
            self._thin()
        if self.exact:
            self._chunks.append(values.copy())
            self._held += len(values)
        else:
            self._draw_all(values)

    def _finite(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype.kind != "f":
            return values
        finite = np.isfinite(values)
        if finite.all():
            return values
        nans = int(np.count_nonzero(np.isnan(values)))
        self.nans += nans
        self.infinite += len(values) - int(np.count_nonzero(finite)) - nans
        kept: npt.NDArray[Any] = values[finite]
        return kept

    def _move(self, values: npt.NDArray[Any]) -> None:
        """Chan's update of mean and squares, by a batch."""
        wide = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(wide.mean())
            squares = float(((wide - mean) ** 2).sum())
            before, self.count = self.count, self.count + len(wide)
            step = mean - self._mean
            self._squares += squares + step * step * before * len(wide) / self.count
            self._mean += step * len(wide) / self.count

    def _thin(self) -> None:
        """There is no more room: from now on each value has the same chance to be held."""
        values = self._joined()
        self._budget.room += self._held
        self._held, self.exact = 0, False
        self._most_held = min(_PART, max(_LEAST_PART, len(values)))
        self._chunks = []
        self._draw_all(values)

    def _draw_all(self, values: npt.NDArray[Any]) -> None:
        for start in range(0, len(values), _AT_ONCE):
            self._draw(values[start : start + _AT_ONCE])

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
        """What is held, in order if it is ``exact``."""
        return self._joined()

    @property
    def moments(self) -> tuple[float | None, float | None]:
        """The mean and the standard deviation (of all, not of a sample: divided by n)."""
        if not self.count:
            return None, None
        if self.exact:
            wide = self._joined().astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                return float(wide.mean()), float(wide.std())
        return self._mean, math.sqrt(max(0.0, self._squares) / self.count)


def quantiles(ordered: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Those of `QUANTILES` of sorted values, each of them a value that is there (numpy's
    "inverted_cdf")."""
    size = len(ordered)
    if not size:
        return ()
    places = [min(max(math.ceil(part * size) - 1, 0), size - 1) for part in QUANTILES]
    return tuple(ordered[places].tolist())
