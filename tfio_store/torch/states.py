"""Where the shares of a dataset stand in an epoch, and `reshard`: the same for other numbers of
ranks and workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfio_store.dataset.checks import whole_number
from tfio_store.loader.packed_states import reshard_states
from tfio_store.read.state import differing, together

FORMAT = "TFRecordIterable"
WINDOWS = "EpisodeWindows"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one share stands. ``ended``: it has nothing left in the epoch."""

    ended: bool
    reader: dict[str, Any]
    size: int | None = None
    """The batch size, if a loader may have counted batches since it asked for the state."""

    def check_size(self, size: int | None) -> None:
        """ValueError if batches of another size would be counted."""
        if self.size not in (None, size):
            raise ValueError(
                f"state= is of a loader that counts batches of batch_size={self.size}, and the "
                f"dataset has batch_size={size}: make a state for the dataset by "
                "tfio_store.torch.reshard, which goes on with any batch_size"
            )

    def to_json(self) -> dict[str, Any]:
        size = {} if self.size is None else {"size": self.size}
        return {"ended": self.ended, "reader": self.reader, **size}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Standing:
        size = state.get("size")
        return cls(bool(state["ended"]), dict(state["reader"]), None if size is None else int(size))


@dataclass(frozen=True, slots=True)
class Saved:
    """Where shares of ``count`` stand in an epoch; without ``shares``, all at its beginning."""

    epoch: int
    count: int
    shares: Mapping[int, Standing]

    def to_json(self) -> dict[str, Any]:
        shares = {str(index): one.to_json() for index, one in self.shares.items()}
        return {FORMAT: _VERSION, "epoch": self.epoch, "count": self.count, "shares": shares}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Saved:
        """ValueError if the state is not one of a dataset."""
        if not isinstance(state, Mapping) or state.get(FORMAT) != _VERSION:
            raise ValueError(f"state= is no state of a TFRecordIterable: {state!r}")
        try:
            shares = {int(at): Standing.from_json(one) for at, one in state["shares"].items()}
            epoch, count = int(state["epoch"]), int(state["count"])
            if min(epoch, count) < 0:
                raise ValueError(f"it has epoch {epoch} and {count} shares")
            return cls(epoch, count, shares)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"state= is no state of a TFRecordIterable: {error!r}") from error

    def share(self, index: int, count: int) -> Standing | None:
        """Where one share stands; None at the beginning. ValueError if others are here."""
        if not self.shares:
            return None
        if self.count != count or index not in self.shares:
            raise ValueError(
                f"state= holds shares {sorted(self.shares)} of {self.count}, and this is share "
                f"{index} of {count}; make states for another number of ranks or workers by "
                "tfio_store.torch.reshard"
            )
        return self.shares[index]


def reshard(
    states: Sequence[Mapping[str, Any]], *, world_size: int = 1, num_workers: int = 0
) -> list[dict[str, Any]]:
    """Make states for another number of ranks or workers, in mid-epoch.

    Each record of the epoch that the old ranks have not given comes once from the new ones.

    Args:
        states (list[dict]): What ``StatefulDataLoader.state_dict()`` gave on each of the old ranks,
            after the same step; or what `TFRecordIterable.state_dict` did.
        world_size (int): The new number of ranks. Default 1.
        num_workers (int): The new number of workers of each rank's loader. Default 0.

    Returns:
        list[dict]: One state for each new rank. Its `TFRecordIterable.load_state_dict` takes it,
        before a new loader begins.

    Raises:
        ValueError: A rank's state is missing or there twice, or the states are of other epochs, or
            a loader's state lies behind its last snapshot (``snapshot_every_n_steps``).

    Example:
        >>> from tfio_store.torch import TFRecordIterable, reshard
        >>> _ = tfs.write_table({"x": list(range(6))}, "train", max_shard_bytes=1)
        >>> dataset = TFRecordIterable("train", batch_size=2)
        >>> next(iter(dataset))["x"]
        tensor([0, 1])
        >>> parts = reshard([dataset.state_dict()], world_size=2)
        >>> for rank in range(2):
        ...     other = TFRecordIterable("train", batch_size=2, rank=rank, world_size=2)
        ...     other.load_state_dict(parts[rank])
        ...     print([batch["x"].tolist() for batch in other])
        [[2, 4]]
        [[3, 5]]
    """
    if world_size < 1 or num_workers < 0:
        raise ValueError(
            f"world_size= takes 1 or more and num_workers= 0 or more, not {world_size} and "
            f"{num_workers}"
        )
    each = max(1, num_workers)
    saved = _together([found for state in states for found in _found(state)])
    if all(one.ended for one in saved.shares.values()):
        begins = Saved(saved.epoch + bool(saved.shares), world_size * each, {})
        return [begins.to_json() for _ in range(world_size)]
    new = _resharded(saved, world_size * each)
    return [
        Saved(
            saved.epoch,
            world_size * each,
            {index: new[index] for index in range(rank * each, (rank + 1) * each)},
        ).to_json()
        for rank in range(world_size)
    ]


def _resharded(saved: Saved, count: int) -> list[Standing]:
    old = [saved.shares[index].reader for index in range(saved.count)]
    if old and WINDOWS in old[0]:
        return _windows_resharded(old, count)
    return [Standing(False, state) for state in reshard_states(old, count)]


def _found(state: Any) -> Iterator[Saved]:
    """The states of this library in a loader's, whatever that keeps around them."""
    if isinstance(state, Mapping):
        if FORMAT in state:
            yield Saved.from_json(state)
            return
        late = state.get("_steps_since_snapshot", 0)
        if late:
            raise ValueError(
                f"states= holds a loader's state that lies {late} steps behind its last snapshot; "
                "pass snapshot_every_n_steps=1, or save at a multiple of it"
            )
        for value in state.values():
            yield from _found(value)


def _together(found: Sequence[Saved]) -> Saved:
    """The states of all shares. ValueError if they are not just that."""
    if not found:
        raise ValueError("states= holds no state of a TFRecordIterable")
    for name in ("epoch", "count"):
        kinds = sorted({getattr(one, name) for one in found})
        if len(kinds) > 1:
            what = "epochs" if name == "epoch" else "numbers of shares"
            raise ValueError(f"states= holds states of different {what}: {kinds}")
    shares: dict[int, Standing] = {}
    for one in found:
        twice = shares.keys() & one.shares.keys()
        if twice:
            raise ValueError(f"states= holds share {min(twice)} of {one.count} twice")
        shares.update(one.shares)
    missing = sorted(set(range(found[0].count)) - shares.keys())
    if missing and any(one.shares for one in found):
        raise ValueError(
            f"states= lacks share {missing[0]} of {found[0].count}: pass the states of all ranks"
        )
    return Saved(found[0].epoch, found[0].count, shares)


def _windows_resharded(states: Sequence[Mapping[str, Any]], count: int) -> list[Standing]:
    """Shares of what the readers of windows, of these states in the order of their shares, have
    left."""
    first = states[0]
    same = ("source", "seed", "epoch", "pool", "even", "count", "stages")
    for state in states:
        odd = [name for name in same if state.get(name) != first.get(name)]
        if odd:
            raise ValueError(f"states= holds states of different {odd[0]}: they go apart")
    versions = str(first.get("versions", ""))
    for number, state in enumerate(states):
        theirs = str(state.get("versions", ""))
        if differing(theirs, versions) is not None:
            raise ValueError(f"states[{number}] was taken of another version of its files")
        versions = together(theirs, versions)
    given = [whole_number(state.get("given")) for state in states]
    if any(each is None for each in given):
        raise ValueError("states= holds a state that does not say how much was given")
    stage = {"given": given, "even": first["even"]}
    made = {
        **first,
        "versions": versions,
        "given": 0,
        "count": count,
        "stages": [*first["stages"], stage],
    }
    return [Standing(False, {**made, "index": index}) for index in range(count)]
