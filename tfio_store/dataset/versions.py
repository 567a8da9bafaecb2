"""The versions of a dataset's objects, learnt before anything is read of them."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from tfio_store.dataset.model import Dataset
from tfio_store.storage import ObjectInfo
from tfio_store.storage.many_looks import LOOKS_AT_ONCE, listed

__all__ = ["hold_versions", "look_at"]


def hold_versions(dataset: Dataset) -> None:
    """Learn the versions that nobody has met yet, which are those of a manifest's shards.

    A graph is read by several processes, so none of them may find out by itself. And a cache cannot
    tell what it has before the version is known. What can't be looked at is left unknown: reading
    it tells why.
    """
    look_at(dataset, [i for i, each in enumerate(dataset.shards) if each.version.etag is None])


def look_at(dataset: Dataset, shards: list[int]) -> dict[int, ObjectInfo]:
    """Ask the store about these shards' objects, if they exist. Their versions are kept."""

    told: dict[str, ObjectInfo] = {}
    found: dict[int, ObjectInfo] = {}

    def look(index: int) -> None:
        store, path = dataset.open(index)
        with contextlib.suppress(OSError):
            info = found[index] = told.get(path) or store.info(path)
            dataset.shards[index].version.hold(info.etag, store.url(path))

    remote = [i for i in shards if "://" in dataset.shards[i].url]
    if remote:
        told = _listed(dataset, remote)
    far = [i for i in remote if dataset.open(i)[1] not in told]
    for index in sorted(set(shards) - set(far)):  # a thread costs more than the answer
        look(index)
    if far:
        with ThreadPoolExecutor(min(LOOKS_AT_ONCE, len(far))) as pool:
            list(pool.map(look, far))
    return found


def _listed(dataset: Dataset, shards: list[int]) -> dict[str, ObjectInfo]:
    """What a listing tells of these shards, by path, if they lie in one place."""
    opened = [dataset.open(i) for i in shards]
    store, _ = opened[0]
    if any(one is not store for one, _ in opened):
        return {}
    return listed(store, [path for _, path in opened], among=len(dataset.shards))
