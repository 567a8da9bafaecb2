"""`EpisodeWindows`: windows of robots' episodes, which ranks and workers share out."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import whole_number
from tfio_store.episodes.features import nested
from tfio_store.episodes.order import Share, Stage
from tfio_store.episodes.windows import Windows, batches
from tfio_store.errors import DataLossError, DataLossWarning, SchemaError
from tfio_store.read.state import hold_to, versions_text
from tfio_store.storage.threads import pool
from tfio_store.torch.iterable import Steps, TFRecordIterable, WholeColumns
from tfio_store.torch.states import WINDOWS
from tfio_store.torch.tensors import tensors, transformed
from tfio_store.torch.workers import Lent, threads_here

Int64Array = npt.NDArray[np.int64]

_VERSION = 1
_AHEAD = 2
"""So many further batches are made while one is used."""
_ROWS_AT_ONCE = 16


class EpisodeWindows(TFRecordIterable):
    """A PyTorch dataset of whole batches of windows, which ranks and workers read in shares.

    All workers of all ranks together give each window once in an epoch. Each pass gives the next
    epoch. Use it with ``DataLoader(dataset, batch_size=None)``, or with torchdata's
    ``StatefulDataLoader``, which saves and restores where its workers stand; `reshard` makes states
    for another number of them.

    A batch is a nested dict of tensors, as `Windows` gives arrays; texts come as lists. The windows
    themselves are a map-style dataset: ``DataLoader(windows, batch_size=64,
    sampler=windows.shuffle_by_episode(seed=1))``.

    With ``shuffle=True`` the windows of as many episodes are mixed as fit into three quarters of
    the cache. Each worker has a cache of its own, of the ``cache_bytes`` of `Episodes`, and makes
    the next batches while one is used.

    Args:
        windows (Windows): What `Episodes.windows` made.
        transform (Callable | None): Called with each batch, a nested dict (without ``batch_size=``:
            with each window). What it returns is given. Default None.
        batch_size (int | None): The windows of a batch. Default None: single windows, for a loader
            that makes the batches, which is slower.
        shuffle (bool): Give the windows in another random order in each epoch. Default False.
        seed (int): The same seed gives the same orders. All ranks need the same. Default 0.
        even (str | None): "pad" or "drop" gives each share the same number of windows, as
            DistributedDataParallel needs: some once more, or the last ones not at all. Default
            None: each window once.
        rank (int | None): See `TFRecordIterable`. Default None.
        world_size (int | None): See `TFRecordIterable`. Default None.
        drop_last (bool): Leave out the last batch of a worker, if it is smaller. Default False.
        num_workers (int | None): The loader's number of workers, for ``len()``. Default None:
            ``len()`` is an error.
        on_corrupt (str): "raise", or "skip": windows of a damaged episode, or with a damaged image,
            are left out, with a `DataLossWarning` that names episode and step. Default "raise".

    Raises:
        ValueError: An argument is not as described.
        TypeError: ``windows`` are none.
        DataLossError: While iterating: an episode is damaged. It names it in the training process
            too.
        SchemaError: While iterating: an episode does not hold what the features say.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from tfio_store.torch import EpisodeWindows
        >>> features = {"steps": {"action": ("float32", (2,))}}
        >>> with tfs.EpisodeWriter("arm/1.0.0", features) as writer:
        ...     for _ in range(3):
        ...         writer.write({"steps": [{"action": [t, 0]} for t in range(4)]})
        >>> windows = tfs.Episodes("arm/1.0.0").windows(length=2)
        >>> dataset = EpisodeWindows(windows, batch_size=6, shuffle=True)
        >>> [tuple(batch["action"].shape) for batch in DataLoader(dataset, batch_size=None)]
        [(6, 2, 2), (6, 2, 2)]
    """

    def __init__(
        self,
        windows: Windows,
        *,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        even: Literal["pad", "drop"] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        num_workers: int | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
    ) -> None:
        if not isinstance(windows, Windows):
            raise TypeError(
                "windows= takes what tfio_store.Episodes(url).windows(...) made, not "
                f"{type(windows).__name__}"
            )
        self._set_up(
            batch_size=batch_size,
            drop_last=drop_last,
            even=even,
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            of="windows",
        )
        if transform is not None and not callable(transform):
            raise TypeError(f"transform= takes a function, not {transform!r}")
        if even not in (None, "pad", "drop"):
            raise ValueError(f'even= takes "pad", "drop" or None, not {even!r}')
        if on_corrupt not in ("raise", "skip"):
            raise ValueError(f'on_corrupt= takes "raise" or "skip", not {on_corrupt!r}')
        if whole_number(seed) is None or seed < 0:
            raise ValueError(f"seed= takes an integer from 0 on, not {seed!r}")
        if shuffle:
            windows.pool  # noqa: B018 - looks at an episode, here and not in each worker
        self._windows = Lent(windows)
        self._made = _Made(transform, batch_size, drop_last, on_corrupt == "skip")
        self._seed = int(seed) if shuffle else None

    @property
    def schema(self) -> None:
        """None: what a batch holds is said by the features of the episodes."""
        return None

    def _as_many_in_each_epoch(self, count: int) -> bool:
        return True

    def _rows_of(self, index: int, count: int) -> int:
        return len(self._windows_of(self._epochs.next, index, count).share)

    def _windows_of(self, epoch: int, index: int, count: int) -> _Standing:
        windows = self._windows.value
        pool = 0 if self._seed is None else windows.pool
        return _Standing(windows, self._seed, epoch, pool, self._even, index, count)

    def _begin(self, epoch: int, index: int, count: int, state: Mapping[str, Any] | None) -> Steps:
        at = self._windows_of(epoch, index, count)
        return _WindowSteps(at if state is None else at.restored(state), self._made)

    def __repr__(self) -> str:
        return f"<EpisodeWindows of {self._windows.value!r}>"


@dataclass(frozen=True, slots=True)
class _Made:
    """How windows become batches."""

    transform: Callable[[Any], Any] | None
    batch_size: int | None
    drop_last: bool
    skips: bool


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where a share of an epoch stands."""

    windows: Windows
    seed: int | None
    epoch: int
    pool: int
    even: str | None
    index: int
    count: int
    given: int = 0
    stages: tuple[Stage, ...] = ()

    @property
    def share(self) -> Share:
        order = self.windows.order(seed=self.seed, epoch=self.epoch, pool=self.pool)
        return replace(order, stages=self.stages).share(self.index, self.count, self.even)

    def to_json(self, given: int) -> dict[str, Any]:
        return {
            WINDOWS: _VERSION,
            "source": self.windows.digest,
            "versions": versions_text(self.windows.dataset),
            "seed": self.seed,
            "epoch": self.epoch,
            "pool": self.pool,
            "even": self.even,
            "index": self.index,
            "count": self.count,
            "given": given,
            "stages": [stage.to_json() for stage in self.stages],
        }

    def restored(self, state: Mapping[str, Any]) -> _Standing:
        """ValueError where the state is of other windows, of another order, or is none."""
        wanted = self.to_json(0)
        try:
            for name in (WINDOWS, "source", "seed", "epoch", "even", "index", "count"):
                if state[name] != wanted[name]:
                    raise ValueError(
                        f"it has {name} {state[name]!r}, and the dataset has {wanted[name]!r}"
                    )
            given, mixed = whole_number(state["given"]), whole_number(state["pool"])
            stages = tuple(Stage.from_json(stage) for stage in state["stages"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"state= is not of this EpisodeWindows: {error}") from error
        if given is None or mixed is None or min(given, mixed) < 0:
            raise ValueError("state= is not of this EpisodeWindows: a count is no number from 0 on")
        hold_to(state.get("versions", ""), self.windows.dataset)
        return replace(self, given=given, pool=mixed, stages=stages)


class _WindowSteps(Steps):
    """One pass over a share."""

    def __init__(self, at: _Standing, made: _Made) -> None:
        super().__init__()
        self._at, self._made = at, made
        self._given = at.given
        size = made.batch_size or _ROWS_AT_ONCE
        self._numbers = batches(at.share.numbers(at.given), size)
        self._size = size
        self._ahead: deque[tuple[Int64Array, Future[tuple[Any, float]]]] = deque()
        self._rows: deque[Any] = deque()
        self._warned: set[str] = set()
        self._waited = self._seconds = 0.0
        self.ended = False

    def state(self) -> dict[str, Any]:
        return self._at.to_json(self._given)

    def metrics(self) -> dict[str, float]:
        took = {"waited_s": self._waited, "decode_s": self._seconds}
        return {"windows": self._given - self._at.given, **took}

    def _step(self) -> Any:
        if self._made.batch_size is None:
            return self._row()
        while True:
            self._fill()
            if not self._ahead:
                self.ended = True
                raise StopIteration
            numbers, making = self._ahead[0]
            if len(numbers) < self._size and self._made.drop_last:
                self._ahead.popleft()
                self._given += len(numbers)
                continue
            batch, _ = self._batch(numbers, making)
            if batch is not None:
                batch = transformed(self._made.transform, _nested_tensors(batch))
            # An error above leaves the batch: the state stands before it, and it is met again.
            self._ahead.popleft()
            self._given += len(numbers)
            if batch is not None:
                self._told()
                return WholeColumns(batch) if type(batch) is dict else batch

    def _row(self) -> Any:
        while not self._rows:
            self._fill()
            if not self._ahead:
                self.ended = True
                raise StopIteration
            numbers, making = self._ahead[0]
            batch, good = self._batch(numbers, making)
            self._ahead.popleft()
            rows = [] if batch is None else _rows(_nested_tensors(batch))
            # those that were left out count with the row before them
            behind = [*good[1:], len(numbers)] if rows else []
            if rows:
                counts = np.diff([0, *behind]).tolist()
                self._rows.extend(zip(rows, counts, strict=True))
            else:
                self._given += len(numbers)
        row, count = self._rows[0]
        row = transformed(self._made.transform, row)
        self._rows.popleft()
        self._given += count
        return row

    def _fill(self) -> None:
        while len(self._ahead) <= _AHEAD:
            numbers = next(self._numbers, None)
            if numbers is None:
                return
            work = partial(_batch_of, self._at.windows, numbers, threads_here())
            making = pool("episodes", _AHEAD).submit(work)
            self._ahead.append((numbers, making))

    def _batch(
        self, numbers: Int64Array, making: Future[tuple[Any, float]]
    ) -> tuple[Any, list[int]]:
        """The arrays of a batch, and the places of its windows among ``numbers``: without the
        damaged ones, if these are to be skipped. None if none is left."""
        begun = perf_counter()
        try:
            batch, seconds = making.result()
            self._waited += perf_counter() - begun
            self._seconds += seconds
            return batch, list(range(len(numbers)))
        except (DataLossError, SchemaError):
            if not self._made.skips:
                raise
        good = [i for i, number in enumerate(numbers.tolist()) if self._is_good(number)]
        return self._at.windows.batch(numbers[good], threads_here()) if good else None, good

    def _is_good(self, number: int) -> bool:
        try:
            self._at.windows.batch(np.array([number]), 1)
        except (DataLossError, SchemaError) as error:
            text = str(error)
            if text not in self._warned:
                self._warned.add(text)
                warnings.warn(
                    f"{text}; the windows that need it are left out", DataLossWarning, stacklevel=2
                )
            return False
        return True


def _batch_of(windows: Windows, numbers: Int64Array, threads: int | None) -> tuple[Any, float]:
    """The arrays of the windows of these numbers, whose episodes are fetched; and how long that
    took."""
    begun = perf_counter()
    return windows.batch(numbers, threads), perf_counter() - begun


def _nested_tensors(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A nested batch of tensors."""
    flat = dict(_flat(batch, ()))
    names: dict[str, Any] = {"/".join(path): column for path, column in flat.items()}
    made = tensors(names)
    return nested({path: made["/".join(path)] for path in flat})


def _flat(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*path, key))
        else:
            yield (*path, key), value


def _rows(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    flat = dict(_flat(batch, ()))
    columns = [column if isinstance(column, list) else column.unbind(0) for column in flat.values()]
    return [nested(dict(zip(flat, row, strict=True))) for row in zip(*columns, strict=True)]
