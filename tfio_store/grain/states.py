"""Which part of a dataset a host reads, where its shares stand, and which source a state is of."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grain

from tfio_store.dataset.model import Dataset
from tfio_store.loader.content import Reader
from tfio_store.loader.packed_states import reshard_states
from tfio_store.read.state import hold_to, versions_text

# Which part of a dataset a host reads, by ``shard=``.


Shard: TypeAlias = "grain.sharding.ShardOptions | tuple[int, int] | None"


@dataclass(frozen=True, slots=True)
class Hosts:
    """One host of ``count``. ``even``: all have the same number of records, and the last ones are
    left out."""

    index: int = 0
    count: int = 1
    even: bool = False

    @classmethod
    def of(cls, shard: Any) -> Hosts:
        """Read ``shard=``: Grain's options, or (index, count) as in `RecordReader.shard`.
        ValueError or TypeError for anything else."""
        if shard is None:
            return cls()
        even = False
        if isinstance(shard, grain.sharding.ShardOptions):
            pair: Any = shard.shard_index, shard.shard_count
            even = bool(shard.drop_remainder)
        else:
            pair = shard
        try:
            index, count = (operator.index(number) for number in pair)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "shard= takes (index, count) or one of grain.sharding's options, such as "
                f"ShardByJaxProcess(), not {shard!r}"
            ) from error
        if not 0 <= index < count:
            raise ValueError(
                f"shard= takes (index, count) with an index from 0 to count - 1, not {shard!r}"
            )
        return cls(index, count, even)

    def part(self, size: int) -> slice:
        """This host's run of ``size`` records: the first ``size % count`` hosts have one more."""
        each, more = divmod(size, self.count)
        if self.even:
            more = 0
        start = self.index * each + min(self.index, more)
        return slice(start, start + each + (self.index < more))


# States that say which source they are of.


_SOURCE_KEY = "tfio_store"
_VERSIONS_KEY = "tfio_store.versions"


class Identified(grain.IterDataset[Any]):  # type: ignore[misc]
    """A dataset of Grain's, whose states say what it reads."""

    def __init__(self, parent: Any, identity: str, datasets: Sequence[Dataset]) -> None:
        super().__init__(parent)
        self._identity, self._datasets = identity, datasets

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return IdentifiedIterator(iter(self.parents[0]), self._identity, self._datasets)

    def __str__(self) -> str:
        return f"Identified({self._identity})"


class IdentifiedIterator(grain.DatasetIterator[Any]):  # type: ignore[misc]
    """Gives what another iterator of Grain's gives. ValueError for a state of another source,
    ReplacedError for one of another version of its files."""

    def __init__(self, parent: Any, identity: str, datasets: Sequence[Dataset]) -> None:
        super().__init__(parent)
        self._reading = parent
        self._identity, self._datasets = identity, datasets

    def __next__(self) -> Any:
        return next(self._reading)

    def get_state(self) -> dict[str, Any]:
        versions = [versions_text(dataset) for dataset in self._datasets]
        marks = {_SOURCE_KEY: self._identity, _VERSIONS_KEY: versions}
        return {**self._reading.get_state(), **marks}

    def set_state(self, state: Mapping[str, Any]) -> None:
        found = state.get(_SOURCE_KEY) if isinstance(state, Mapping) else None
        if found != self._identity:
            whose = "no source" if found is None else found
            raise ValueError(
                f"the state is of {whose}, and the dataset reads {self._identity}: pass a state "
                "that this pipeline gave"
            )
        for versions, dataset in zip(state.get(_VERSIONS_KEY, ()), self._datasets, strict=False):
            hold_to(versions, dataset)
        marks = (_SOURCE_KEY, _VERSIONS_KEY)
        self._reading.set_state({name: state[name] for name in state if name not in marks})

    def close(self) -> None:
        super().close()
        self._reading.close()

    def _get_next_index(self) -> int:
        return int(self._reading._get_next_index())

    def _set_next_index(self, index: int) -> None:
        self._reading._set_next_index(index)


# Where the shares of a stream stand, and the same for another number of shares.


_KEY = "tfio_store.stream"
_VERSION = 1

States = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one share stands. ``count`` 0: any share, at the beginning; ``resumed`` are the states
    that this beginning was made of, if it is in the midst of an epoch.

    ``reader``: the state in this epoch; None at its beginning. ``later``: where a share begins
    epochs that others have begun before it, on another number of shares."""

    source: str
    index: int = 0
    count: int = 0
    epoch: int = 0
    reader: Mapping[str, Any] | None = None
    later: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    resumed: States = ()

    def to_json(self) -> dict[str, Any]:
        return {
            _KEY: _VERSION,
            "source": self.source,
            "share": [self.index, self.count],
            "epoch": self.epoch,
            "reader": None if self.reader is None else dict(self.reader),
            "later": {str(epoch): dict(state) for epoch, state in self.later.items()},
            "resumed": [dict(state) for state in self.resumed],
        }

    @classmethod
    def from_json(cls, state: Any) -> Standing:
        """ValueError if the state is not one of a stream."""
        if not isinstance(state, Mapping) or state.get(_KEY) != _VERSION:
            raise ValueError(f"the state is none of tfio_store.grain.stream: {state!r}")
        try:
            index, count = (int(number) for number in state["share"])
            later = {int(epoch): dict(one) for epoch, one in state["later"].items()}
            reader = state["reader"] or None
            resumed = [dict(one) for one in state["resumed"]]
            return cls(
                str(state["source"]), index, count, int(state["epoch"]), reader, later, resumed
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is none of tfio_store.grain.stream: {error!r}") from error

    def in_epoch(self, epoch: int, reader: Reader) -> Mapping[str, Any]:
        """The reader's state in an epoch. ``reader``: of this share, at the epoch's beginning."""
        if epoch == self.epoch and self.reader is not None:
            return self.reader
        begun = reader.state()
        if epoch < self.epoch:
            return {**begun, "epoch": begun["epoch"] + 1}  # has ended it
        return self.later.get(epoch, begun)


def found_states(state: Any) -> Iterator[Standing]:
    """The states of streams in what Grain keeps around them."""
    if isinstance(state, Mapping):
        if _KEY in state:
            yield Standing.from_json(state)
            return
        state = list(state.values())
    if isinstance(state, list | tuple):
        for one in state:
            yield from found_states(one)


def check_source(standing: Standing, source: str) -> None:
    """ValueError for a state of another source."""
    if standing.source != source:
        raise ValueError(
            f"the state is of source {standing.source}, and the stream reads {source}: pass a "
            "state of the same files"
        )


def resharded(
    states: States, source: str, index: int, count: int, share: Callable[..., Reader]
) -> Standing:
    """Where share ``index`` of ``count`` begins, of the states of all shares of a stream.
    ``share(epoch, index, count)`` makes a reader. ValueError if they are not just that."""
    found = [one for state in states for one in found_states(state)]
    if not found:
        raise ValueError("resume= holds no state of tfio_store.grain.stream")
    for one in found:
        check_source(one, source)
    old = _all_shares(found, source, share)
    epochs = range(min(one.epoch for one in old), _last(old) + 1)
    todo = {}
    for epoch in epochs:
        stands = [
            one.in_epoch(epoch, share(epoch, number, len(old))) for number, one in enumerate(old)
        ]
        todo[epoch] = reshard_states(stands, count)[index]
    return Standing(source, index, count, epochs.start, todo.pop(epochs.start, None), todo)


def _last(shares: Sequence[Standing]) -> int:
    """The last epoch that any share has begun. It may be before the first that all are in."""
    begun = [one.epoch if one.reader is not None else one.epoch - 1 for one in shares]
    return max([*begun, *(epoch for one in shares for epoch in one.later)])


def _all_shares(
    found: Sequence[Standing], source: str, share: Callable[..., Reader]
) -> list[Standing]:
    """The states by their shares. Those at the beginning have no number."""
    begun = {one.index: one for one in found if one.count}
    counts = sorted({one.count for one in found if one.count})
    fresh = [one for one in found if not one.count]
    if len(counts) > 1:
        raise ValueError(f"resume= holds states of different numbers of shares: {counts}")
    count = counts[0] if counts else len(fresh)
    if len(found) != count or len(begun) + len(fresh) != count:
        raise ValueError(
            f"resume= holds {len(found)} states, and {len(begun)} of them of different shares, "
            f"where a stream has {count} shares: pass one state of each host"
        )
    beginning = [one for one in range(count) if one not in begun]
    if fresh and fresh[0].resumed:
        more = {
            index: resharded(fresh[0].resumed, source, index, count, share) for index in beginning
        }
    else:
        more = {index: Standing(source, index, count) for index in beginning}
    return [(begun | more)[index] for index in range(count)]
