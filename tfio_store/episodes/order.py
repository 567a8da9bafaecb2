"""The order in which the windows of an epoch come: at random, and each episode read about once.

Episodes are put into a random order. A window's key is the position of its episode, and a random
part of ``pool`` positions more. Sorted by the keys, the windows of about ``pool`` episodes are
mixed at any time, and an episode that has been used up does not come back. All is a function of the
seed and the epoch: nothing is kept but how many windows have been given.

Shares are runs of windows as the episodes lie in that order, of the same number of windows to one.
So two shares have at most one episode in common. The rest of an epoch that other shares have begun
is shared out anew in the same way.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.records.arrays import Int64Array

EVEN = (None, "pad", "drop")
_BATCH = 1 << 16


@dataclass(frozen=True, slots=True)
class Stage:
    """An earlier part of the epoch: how many shares there were, and how many windows each of them
    has given."""

    given: tuple[int, ...]
    even: str | None

    def to_json(self) -> dict[str, Any]:
        return {"given": list(self.given), "even": self.even}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Stage:
        """ValueError for what `to_json` does not make."""
        given = tuple(operator.index(n) for n in value["given"])
        if not given or min(given) < 0 or value["even"] not in EVEN:
            raise ValueError(f"{value!r} is no part of an epoch")
        return cls(given, value["even"])


@dataclass(frozen=True)
class Order:
    """The windows of an epoch. ``counts`` are the windows of each episode. ``pool``: episodes that
    are mixed; 0: as they are numbered."""

    counts: Int64Array = field(repr=False)
    pool: int
    seed: int = 0
    epoch: int = 0
    stages: tuple[Stage, ...] = ()

    @cached_property
    def left(self) -> Int64Array | None:
        """The numbers of the windows that are left, rising. None: all."""
        if not self.stages:
            return None
        before = replace(self, stages=self.stages[:-1])
        last = self.stages[-1]
        count = len(last.given)
        rest, gone = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for index, given in enumerate(last.given):
            share = before.share(index, count, last.even)
            at = 0
            for piece in share.numbers():
                cut = min(max(0, given - at), len(piece))
                gone.append(piece[:cut])
                rest.append(piece[cut:])
                at += len(piece)
        # of those that even shares give twice, one may have been given
        return np.setdiff1d(np.concatenate(rest), np.concatenate(gone))

    @cached_property
    def starts(self) -> Int64Array:
        """int64 [episodes + 1]: where the windows of each episode begin, among those that are
        left."""
        counts = self.counts
        if self.left is not None:
            firsts = np.append(0, np.cumsum(self.counts))
            counts = np.diff(np.searchsorted(self.left, firsts))
        return np.append(0, np.cumsum(counts))

    @cached_property
    def episodes(self) -> Int64Array:
        """Which episode stands at each position."""
        if not self.pool:
            return np.arange(len(self.counts))
        return np.random.default_rng([self.seed, self.epoch]).permutation(len(self.counts))

    @cached_property
    def bounds(self) -> Int64Array:
        """int64 [episodes + 1]: windows before each position."""
        return np.append(0, np.cumsum(np.diff(self.starts)[self.episodes]))

    def share(self, index: int, count: int, even: str | None = None) -> Share:
        """Part ``index`` of ``count``. ``even``: "drop" leaves out the last windows, and "pad"
        gives the first ones again, so that all have as many."""
        total = int(self.bounds[-1])
        if even is None:
            return Share(self, total * index // count, total * (index + 1) // count, 0)
        each = total // count if even == "drop" else -(-total // count)
        start, stop = min(total, index * each), min(total, (index + 1) * each)
        return Share(self, start, stop, each - (stop - start) if total else 0)

    def uniform(self, windows: Int64Array) -> npt.NDArray[np.float64]:
        """A number from 0 to 1 of each window, at random: splitmix64 of its number."""
        mixed = np.random.SeedSequence([self.seed, self.epoch]).generate_state(1, np.uint64)[0]
        with np.errstate(over="ignore"):
            z = windows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + mixed
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        found: npt.NDArray[np.float64] = (z >> np.uint64(11)).astype(np.float64) / float(1 << 53)
        return found


@dataclass(frozen=True)
class Share:
    """Windows ``start:stop`` of an order, as its episodes lie there, and ``again`` of the first."""

    order: Order
    start: int
    stop: int
    again: int

    def __len__(self) -> int:
        return self.stop - self.start + self.again

    def numbers(self, given: int = 0) -> Iterator[Int64Array]:
        """The numbers of the windows, from the one behind ``given`` on, in pieces."""
        for piece in self._pieces():
            if given < len(piece):
                yield piece[given:]
            given = max(0, given - len(piece))

    def _pieces(self) -> Iterator[Int64Array]:
        order = self.order
        if self.stop > self.start and order.pool:
            yield from self._mixed()
        elif self.stop > self.start:
            for at in range(self.start, self.stop, _BATCH):
                yield self._global(np.arange(at, min(at + _BATCH, self.stop)))
        if self.again:
            total = int(order.bounds[-1])
            yield self._windows_at(np.arange(self.again) % total)

    def _mixed(self) -> Iterator[Int64Array]:
        order, pool = self.order, self.order.pool
        first = int(np.searchsorted(order.bounds, self.start, side="right")) - 1
        last = int(np.searchsorted(order.bounds, self.stop, side="left"))
        for chunk in range(-(-(last - first) // pool) + 1):
            low = first + max(0, (chunk - 1) * pool)
            high = min(last, first + (chunk + 1) * pool)
            if low >= high:
                continue
            begin = max(self.start, int(order.bounds[low]))
            places = np.arange(begin, min(self.stop, int(order.bounds[high])))
            windows = self._windows_at(places)
            position = np.searchsorted(order.bounds, places, side="right") - 1 - first
            keys = position + order.uniform(windows) * pool
            here = (keys >= chunk * pool) & (keys < (chunk + 1) * pool)
            found = windows[here][np.argsort(keys[here], kind="stable")]
            if len(found):
                yield found

    def _windows_at(self, places: Int64Array) -> Int64Array:
        """The windows at these places of the order of episodes."""
        order = self.order
        position = np.searchsorted(order.bounds, places, side="right") - 1
        episode = order.episodes[position]
        return self._global(order.starts[episode] + places - order.bounds[position])

    def _global(self, numbers: Int64Array) -> Int64Array:
        left = self.order.left
        return numbers if left is None else left[numbers]
