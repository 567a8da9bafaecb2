"""Which rows Grain's ``slice``, ``shuffle`` and ``repeat`` give, for many numbers at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.grain.index_shuffle import shuffled_numbers

__all__ = ["Order"]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Slice:
    start: int
    step: int
    length: int
    parent: int

    def __call__(self, numbers: Numbers) -> Numbers:
        epochs, inside = np.divmod(numbers, max(1, self.length))
        found: Numbers = self.start + inside * self.step + epochs * self.parent
        return found


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """Each epoch has its own order."""

    seed: int
    length: int

    def __call__(self, numbers: Numbers) -> Numbers:
        epochs, inside = np.divmod(numbers, max(1, self.length))
        found = np.empty_like(numbers)
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            seed = (self.seed + epoch) % 2**32
            found[mine] = shuffled_numbers(inside[mine], self.length, seed)
        found += epochs * self.length
        return found


@dataclass(frozen=True, slots=True)
class _SameEpoch:
    """Each epoch is the first one again."""

    length: int

    def __call__(self, numbers: Numbers) -> Numbers:
        return numbers % max(1, self.length)


@dataclass(frozen=True, slots=True)
class Order:
    """Steps over the numbers of ``size`` records, from the records on."""

    size: int
    steps: tuple[Any, ...] = ()

    @property
    def is_shuffled(self) -> bool:
        """Whether neighbours lie apart."""
        return any(isinstance(step, _Shuffle) for step in self.steps)

    def at(self, numbers: Numbers) -> Numbers:
        """The records at these places."""
        for step in reversed(self.steps):
            numbers = step(numbers)
        return numbers % max(1, self.size)

    def sliced(self, cut: slice, length: int) -> Order:
        """``length``: of what is cut."""
        kept = range(*cut.indices(length))
        return self._with(_Slice(kept.start, kept.step, len(kept), length))

    def shuffled(self, seed: int, length: int) -> Order:
        """``length``: of an epoch of what is shuffled."""
        return self._with(_Shuffle(seed, length))

    def repeated(self, length: int, reseed: bool) -> Order:
        """``length``: of an epoch of what is repeated."""
        return self if reseed else self._with(_SameEpoch(length))

    def _with(self, step: Any) -> Order:
        return replace(self, steps=(*self.steps, step))
