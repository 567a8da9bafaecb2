"""`Windows`: short runs of steps of one episode, as policies are trained on."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from tfio_store.dataset.checks import check_positive, whole_number
from tfio_store.dataset.model import Dataset
from tfio_store.episodes.decoding import Episode, Images, context_of, stacked
from tfio_store.episodes.features import Leaf, Tree, nested
from tfio_store.episodes.order import Order
from tfio_store.read.record_source import is_number, record_numbers
from tfio_store.records.arrays import Int64Array

Pad = Literal["repeat", "zero", "drop"]

_PADS = ("repeat", "zero", "drop")
_OBSERVATION = "observation"
_OWN = ("mask", "episode_index", "step_index")
"""The keys of a window beside its features."""

_LONGEST = 1 << 20
_POOL_SHARE = 0.75
"""The share of the cache that the mixed episodes may fill."""


class EpisodeSource(Protocol):
    """What `Episodes` has for those who make something of its episodes."""

    @property
    def features(self) -> Tree: ...
    @property
    def lengths(self) -> Int64Array: ...
    @property
    def _episode_bytes(self) -> int: ...
    @property
    def _dataset(self) -> Dataset: ...

    _cache_bytes: int
    _images: Images

    def _load(self, numbers: Int64Array) -> dict[int, Episode]: ...
    def _gather(
        self, leaf: Leaf, picks: Sequence[tuple[Episode, Int64Array]], threads: int | None
    ) -> Any: ...


class Windows(Sequence[dict[str, Any]]):
    """Windows of the episodes of a dataset: a map-style source. `Episodes.windows` makes it.

    A window is a nested dict, as a step is. Each feature has a further first dimension, its steps:
    ``past + 1`` of those below "observation", and ``length`` of all others. ``["mask"]`` is nested
    in the same way; bools say which of the steps the episode has. ``["episode_index"]`` and
    ``["step_index"]`` are the window's place. Features of the episode itself come once, without
    steps.

    ``windows[[i, j]]`` gives a batch: each array has a dimension more in front. Each record is
    fetched once for all windows of a batch, and each image is decoded once. PyTorch's DataLoader
    and Grain take windows as they are.

    Args:
        source (Episodes): The episodes.
        length (int): See `Episodes.windows`.
        stride (int): See `Episodes.windows`.
        past (int): See `Episodes.windows`.
        pad (str): See `Episodes.windows`.
        keys (list[str] | dict | None): See `Episodes.windows`.

    Raises:
        ValueError: An argument is not as described.

    Example:
        >>> features = {"steps": {"action": ("float32", (1,))}}
        >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
        ...     writer.write({"steps": [{"action": [t]} for t in range(4)]})
        >>> windows = tfs.Episodes("arm/1.0.0").windows(length=3, pad="drop")
        >>> len(windows), windows[[0, 1]]["action"].reshape(2, 3).tolist()
        (2, [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    """

    def __init__(
        self,
        source: EpisodeSource,
        *,
        length: int = 16,
        stride: int = 1,
        past: int = 0,
        pad: Pad = "repeat",
        keys: Iterable[str] | Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        check_positive("length=", length)
        check_positive("stride=", stride)
        if not _is_count(past):
            raise ValueError(f"past= takes a number of steps from 0 on, not {past!r}")
        if max(length, past, stride) > _LONGEST:
            raise ValueError(f"length=, past= and stride= take at most {_LONGEST} steps")
        if pad not in _PADS:
            raise ValueError(f'pad= takes "repeat", "zero" or "drop", not {pad!r}')
        self._source, self._stride, self._pad = source, int(stride), pad
        self._spans, self._context = _chosen(source.features, keys, int(length), int(past))
        low = min((start for start, _ in self._spans.values()), default=0)
        high = max((stop for _, stop in self._spans.values()), default=1)
        lengths = source.lengths
        if pad == "drop":
            self._first = -(-max(0, -low) // self._stride) * self._stride
            room = lengths - max(1, high) - self._first
            self._counts = np.where(room < 0, 0, room // self._stride + 1)
        else:
            self._first = 0
            self._counts = -(-lengths // self._stride)

    @cached_property
    def _bounds(self) -> Int64Array:
        return np.append(0, np.cumsum(self._counts))

    @property
    def counts(self) -> Int64Array:
        """How many windows each episode has (int64 array)."""
        return self._counts

    @property
    def source(self) -> Any:
        """The episodes that they are cut from (Episodes)."""
        return self._source

    def __len__(self) -> int:
        return int(self._counts.sum())

    def place(self, number: int) -> tuple[int, int]:
        """Where a window lies.

        Args:
            number (int): A window's number.

        Returns:
            tuple[int, int]: The episode's number, and that of the window's step.

        Raises:
            IndexError: There is no such window.
        """
        episodes, steps = self._places(record_numbers([number], len(self)))
        return int(episodes[0]), int(steps[0])

    def _places(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        episodes = np.searchsorted(self._bounds, numbers, side="right") - 1
        steps = self._first + (numbers - self._bounds[episodes]) * self._stride
        return episodes, steps

    def __getitem__(self, index: Any) -> Any:
        if is_number(index):
            batch = self.batch(record_numbers([index], len(self)))
            return _row(batch, 0)
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        return self.batch(record_numbers(index, len(self)))

    def __getitems__(self, indices: Any) -> list[dict[str, Any]]:
        """The windows of ``indices``, which PyTorch's DataLoader makes a batch of."""
        numbers = record_numbers(indices, len(self))
        batch = self.batch(numbers)
        return [_row(batch, i) for i in range(len(numbers))]

    _getitems = __getitems__
    """The method that Grain calls with a batch."""

    def batch(self, numbers: Int64Array, threads: int | None = None) -> dict[str, Any]:
        """The windows of these numbers as nested arrays. ``threads`` decode images; None: as many
        as there are cores."""
        episodes, steps = self._places(numbers)
        loaded = self._source._load(episodes)
        picked = [loaded[number] for number in episodes.tolist()]
        lengths = self._source.lengths[episodes]
        rows: dict[tuple[int, int], tuple[Any, Any]] = {}
        for span in set(self._spans.values()):
            at = steps[:, None] + np.arange(*span)
            real = (at >= 0) & (at < lengths[:, None])
            rows[span] = np.clip(at, 0, lengths[:, None] - 1), real
        found: dict[tuple[str, ...], Any] = {}
        masks: dict[tuple[str, ...], Any] = {}
        for leaf, span in self._spans.items():
            at, real = rows[span]
            picks = list(zip(picked, at, strict=True))
            values = self._source._gather(leaf, picks, threads)
            values = values.reshape(*at.shape, *values.shape[1:])
            if self._pad == "zero" and not real.all():
                values = _zeroed(values, ~real)
            found[leaf.within] = values
            masks[leaf.within] = real
        for leaf, values in self._of_episodes(picked).items():
            found[leaf.path] = values
        batch = nested(found)
        batch["mask"] = nested(masks)
        batch["episode_index"], batch["step_index"] = episodes, steps
        return batch

    def _of_episodes(self, picked: Sequence[Episode]) -> dict[Leaf, Any]:
        if not self._context:
            return {}
        tree = Tree(self._context, {})
        images = self._source._images
        known: dict[int, dict[tuple[str, ...], Any]] = {}
        for episode in picked:
            number = episode.place.episode
            if number not in known:
                known[number] = context_of(episode, tree, images)
        return {
            leaf: stacked([known[e.place.episode][leaf.path] for e in picked])
            for leaf in self._context
        }

    def order(self, *, seed: int | None = None, epoch: int = 0, pool: int | None = None) -> Order:
        """The order of an epoch: at random by ``seed``, or as numbered."""
        if seed is None:
            return Order(self._counts, 0, 0, epoch)
        return Order(self._counts, self.pool if pool is None else pool, seed, epoch)

    @property
    def pool(self) -> int:
        """How many episodes a shuffle mixes, so that they fit into the cache (int)."""
        room = self._source._cache_bytes * _POOL_SHARE / self._source._episode_bytes
        return max(1, min(len(self._counts), int(room)))

    def shuffle_by_episode(self, seed: int = 0, *, batch_size: int | None = None) -> EpisodeShuffle:
        """Make a sampler of the windows at random that reads each episode about once in an epoch.

        Episodes come in a random order, and the windows of as many of them are mixed as fit into
        three quarters of the cache. So a larger ``cache_bytes`` of `Episodes` mixes more. Pass it
        to a DataLoader as ``sampler=``, or with ``batch_size`` as ``batch_sampler=``.

        Args:
            seed (int): The same seed gives the same orders. Default 0.
            batch_size (int | None): How many numbers come at a time. Default None: single ones.

        Returns:
            EpisodeShuffle: Each pass over it is the next epoch.

        Raises:
            ValueError: An argument is not as described.

        Example:
            >>> features = {"steps": {"action": ("float32", (1,))}}
            >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
            ...     for _ in range(3):
            ...         writer.write({"steps": [{"action": [t]} for t in range(4)]})
            >>> windows = tfs.Episodes("arm/1.0.0").windows(length=2)
            >>> shuffle = windows.shuffle_by_episode(seed=1)
            >>> sorted(shuffle) == list(range(12)), len(shuffle)
            (True, 12)
        """
        return EpisodeShuffle(self, seed, batch_size)

    @property
    def dataset(self) -> Dataset:
        """The files that hold the episodes."""
        return self._source._dataset

    @cached_property
    def digest(self) -> str:
        """A text that identifies these windows: of which episodes, and how they are cut."""
        cut = f"{sorted((leaf.name, span) for leaf, span in self._spans.items())}"
        text = f"{self._stride} {self._pad} {cut} {len(self._counts)}"
        crc = zlib.crc32(self._source.lengths.astype("<i8").tobytes(), zlib.crc32(text.encode()))
        return f"{self._source!r} {crc:08x}"

    def __repr__(self) -> str:
        return f"<Windows: {len(self)} of {self.digest}>"


class EpisodeShuffle:
    """A sampler of the numbers of windows. `Windows.shuffle_by_episode` makes it.

    Each pass gives the next epoch. It pickles with the number of that.

    Args:
        windows (Windows): Whose numbers it gives.
        seed (int): See `Windows.shuffle_by_episode`. Default 0.
        batch_size (int | None): See `Windows.shuffle_by_episode`. Default None.

    Raises:
        ValueError: An argument is not as described.
    """

    def __init__(self, windows: Windows, seed: int = 0, batch_size: int | None = None) -> None:
        if not _is_count(seed):
            raise ValueError(f"seed= takes an integer from 0 on, not {seed!r}")
        if batch_size is not None:
            check_positive("batch_size=", batch_size, also=" of windows, or None")
        self._windows, self._seed, self._batch_size = windows, int(seed), batch_size
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Have the next pass give this epoch.

        Args:
            epoch (int): From 0 on.

        Raises:
            ValueError: It is negative, or no integer.
        """
        if not _is_count(epoch):
            raise ValueError(f"epoch= takes an integer from 0 on, not {epoch!r}")
        self._epoch = int(epoch)

    def __len__(self) -> int:
        count = len(self._windows)
        return count if self._batch_size is None else -(-count // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        epoch = self._epoch
        self._epoch += 1
        share = self._windows.order(seed=self._seed, epoch=epoch).share(0, 1)
        if self._batch_size is None:
            for piece in share.numbers():
                yield from piece.tolist()
            return
        for batch in batches(share.numbers(), self._batch_size):
            yield batch.tolist()


def _is_count(value: object) -> bool:
    """Whether it is an integer from 0 on."""
    number = whole_number(value)
    return number is not None and number >= 0


def batches(pieces: Iterable[Int64Array], size: int) -> Iterator[Int64Array]:
    """The numbers of pieces of any size, ``size`` at a time, and what is left."""
    waiting: list[Int64Array] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece)
        if count < size:
            continue
        joined = np.concatenate(waiting)
        whole = count - count % size
        for at in range(0, whole, size):
            yield joined[at : at + size]
        waiting, count = [joined[whole:]], count - whole
    if count:
        yield np.concatenate(waiting)


def _chosen(
    tree: Tree,
    keys: Iterable[str] | Mapping[str, tuple[int, int]] | None,
    length: int,
    past: int,
) -> tuple[dict[Leaf, tuple[int, int]], tuple[Leaf, ...]]:
    """The leaves of the steps with the steps that are wanted of each, and those of the episode."""
    own = {}
    if isinstance(keys, Mapping):
        for key, span in keys.items():
            checked = _span(key, span)
            for leaf in tree.select([key]).leaves:
                own[leaf.name] = checked
    leaves = tree.steps if keys is None else tree.select(keys).leaves
    spans = {}
    for leaf in leaves:
        if not leaf.of_steps:
            continue
        if leaf.within[0] in _OWN:
            raise ValueError(
                f"the feature {leaf.short!r} has the name of what windows have themselves: leave "
                "it out by keys="
            )
        ahead = (-past, 1) if leaf.within[0] == _OBSERVATION else (0, length)
        spans[leaf] = own.get(leaf.name, ahead)
    if not spans:
        raise ValueError("keys= names no feature of the steps")
    return spans, tuple(leaf for leaf in leaves if not leaf.of_steps)


def _span(key: str, span: Any) -> tuple[int, int]:
    try:
        start, stop = (whole_number(each) for each in span)
    except (TypeError, ValueError):
        start = stop = None
    if start is None or stop is None or not start < stop or stop - start > _LONGEST:
        raise ValueError(
            f"keys= of {key!r} takes (start, stop), the first step and the one behind the last "
            f"beside the window's, not {span!r}"
        )
    return start, stop


def _zeroed(values: Any, where: Any) -> Any:
    if values.dtype != object:
        values[where] = 0
        return values
    for at in zip(*np.nonzero(where), strict=True):
        values[at] = _empty(values[at])
    return values


def _empty(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.zeros_like(value) if value.dtype != object else value[:0]
    if isinstance(value, np.generic):
        return value.dtype.type(0)
    return type(value)()


def _row(batch: Mapping[str, Any], i: int) -> dict[str, Any]:
    return {
        name: _row(column, i) if isinstance(column, Mapping) else column[i]
        for name, column in batch.items()
    }
