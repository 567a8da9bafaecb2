"""Which rows Grain's ``slice``, ``shuffle`` and ``repeat`` give, for many numbers at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import grain
import numpy as np
import numpy.typing as npt

# Grain's shuffle of numbers, for many numbers at once.
#
# Grain permutes numbers by a Simon cipher whose result is taken again until it is small enough
# (``index_shuffle.cc`` of google/grain). It does so for one number at a time, in 2.4 us, which is
# longer than reading and decoding a small record takes. Here numpy does it for all numbers of a
# batch: of a million rows, 256 take 0.3 us each (``source(url).shuffle(seed)``). The order is
# Grain's, so that a pipeline gives the same rows in the same order either way.
#
# One thing differs. Where the largest number is 2**16, 2**18 or so on, Grain's cipher has one bit
# too few: it gives one row twice, and never gives the last one. Here the cipher has that bit.


_ROUNDS = 4
"""As in Grain's ``shuffle``."""

_FEW = 4
"""So few numbers are faster one by one."""

_TABLE_BITS = 16
"""The cipher's smallest block. The whole order of so few numbers is kept."""

Numbers = npt.NDArray[np.int64]


def shuffled_numbers(numbers: Numbers, size: int, seed: int) -> Numbers:
    """Where Grain's ``shuffle(seed)`` of ``size`` elements puts each of ``numbers``."""
    if size <= 1:
        return np.zeros_like(numbers)
    lacks_a_bit = _lacks_a_bit(size)
    if not lacks_a_bit and (len(numbers) <= _FEW or not _is_grains(size, seed)):
        return _one_by_one(numbers, size, seed)
    return _at_once(numbers, size, seed)


def _at_once(numbers: Numbers, size: int, seed: int) -> Numbers:
    bits = _block_bits(size)
    if bits == _TABLE_BITS:
        return _table(size, seed)[numbers]
    keys = _keys(seed)
    found = _encrypted(numbers.astype(np.uint64), bits, keys)
    _walk(found, size, lambda beyond: _encrypted(beyond, bits, keys))
    signed: Numbers = found.astype(np.int64)
    return signed


def _one_by_one(numbers: Numbers, size: int, seed: int) -> Numbers:
    shuffle = grain.experimental.index_shuffle
    found = [shuffle(int(i), max_index=size - 1, seed=seed, rounds=_ROUNDS) for i in numbers]
    return np.array(found, np.int64)


@lru_cache(64)
def _is_grains(size: int, seed: int) -> bool:
    """Whether the Grain at hand shuffles so. Another one may do it otherwise one day."""
    some = np.unique(np.linspace(0, size - 1, 3).astype(np.int64))
    return bool((_at_once(some, size, seed) == _one_by_one(some, size, seed)).all())


def _lacks_a_bit(size: int) -> bool:
    largest = size - 1
    bits = largest.bit_length() - 1
    return largest == 1 << bits and bits >= _TABLE_BITS and bits % 2 == 0


def _block_bits(size: int) -> int:
    bits = (size - 1).bit_length()
    return max(bits + bits % 2, _TABLE_BITS)


@lru_cache(4)
def _table(size: int, seed: int) -> Numbers:
    """Where each of few numbers goes."""
    everything = _encrypted(np.arange(1 << _TABLE_BITS, dtype=np.uint64), _TABLE_BITS, _keys(seed))
    found = everything[:size].copy()
    _walk(found, size, lambda beyond: everything[beyond])
    signed: Numbers = found.astype(np.int64)
    return signed


def _walk(found: npt.NDArray[np.uint64], size: int, step: Any) -> None:
    """Go on from each number that is too large, until none is."""
    beyond = np.flatnonzero(found >= size)
    while len(beyond):
        found[beyond] = step(found[beyond])
        beyond = beyond[found[beyond] >= size]


def _encrypted(values: npt.NDArray[np.uint64], bits: int, keys: tuple[int, ...]) -> Any:
    """The Simon cipher of blocks of ``bits`` bits."""
    word = bits // 2
    mask = np.uint64((1 << word) - 1)
    left, right = values >> np.uint64(word), values & mask
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        left ^= _mixed(right, word, mask) ^ (np.uint64(first) & mask)
        right ^= _mixed(left, word, mask) ^ (np.uint64(second) & mask)
    return (left << np.uint64(word)) | right


def _mixed(half: npt.NDArray[np.uint64], word: int, mask: np.uint64) -> Any:
    def turned(by: int) -> Any:
        return (half << np.uint64(by)) | (half >> np.uint64(word - by))

    return ((turned(1) & turned(8)) ^ turned(2)) & mask


@lru_cache(64)
def _keys(seed: int) -> tuple[int, ...]:
    """The numbers that C++'s ``std::seed_seq{seed}`` generates for the rounds."""
    keys, count, limit = [0x8B8B8B8B] * _ROUNDS, _ROUNDS, 1 << 32

    def mixed(value: int) -> int:
        return value ^ (value >> 27)

    for k in range(count):
        here, near, far, last = k % count, (k + 1) % count, (k + 2) % count, (k - 1) % count
        one = 1664525 * mixed(keys[here] ^ keys[near] ^ keys[last]) % limit
        two = (one + (1 if k == 0 else here + (seed if k == 1 else 0))) % limit
        keys[near] = (keys[near] + one) % limit
        keys[far] = (keys[far] + two) % limit
        keys[here] = two
    for k in range(count, 2 * count):
        here, near, far, last = k % count, (k + 1) % count, (k + 2) % count, (k - 1) % count
        one = 1566083941 * mixed((keys[here] + keys[near] + keys[last]) % limit) % limit
        two = (one - here) % limit
        keys[near] ^= one
        keys[far] ^= two
        keys[here] = two
    return tuple(keys)


# Which rows Grain's ``slice``, ``shuffle`` and ``repeat`` give, for many numbers at once.


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
