"""`reshard`: from where a job's loaders stand to the same for other numbers of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfio_store.read.reshard import reshard_state
from tfio_store.torch.episode_windows import FORMAT as FORMAT_OF_WINDOWS, reshared
from tfio_store.torch.states import FORMAT, Saved, Standing

__all__ = ["reshard"]


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
    if old and FORMAT_OF_WINDOWS in old[0]:
        return reshared(old, count)
    return [Standing(False, state) for state in reshard_state(old, count)]


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
