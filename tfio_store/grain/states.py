"""Where the shares of a stream stand, and the same for another number of shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfio_store.read.reshard import reshard_state
from tfio_store.tools.loader_source import Reader

__all__ = ["Standing", "check_source", "found_states", "resharded"]

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
        todo[epoch] = reshard_state(stands, count)[index]
    return Standing(source, index, count, epochs.start, todo.pop(epochs.start, None), todo)


def _last(shares: Sequence[Standing]) -> int:
    """The last epoch that any share has begun. It may be before the first that all are in."""
    begun = [one.epoch if one.reader is not None else one.epoch - 1 for one in shares]
    return max([*begun, *(epoch for one in shares for epoch in one.later)])


def _all_shares(
    found: Sequence[Standing], source: str, share: Callable[..., Reader]
) -> list[Standing]:
    """The states by their shares. Those at the beginning tell no number."""
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
