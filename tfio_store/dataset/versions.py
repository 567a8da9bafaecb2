"""The versions of a dataset's objects, learnt before anything is read of them."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from tfio_store.dataset.model import Dataset
from tfio_store.storage import ObjectInfo

__all__ = ["hold_versions", "look_at"]

_LOOKUPS_AT_ONCE = 32


def hold_versions(dataset: Dataset) -> None:
    """Learn the versions that nobody has met yet, which are those of a manifest's shards.

    A graph is read by several processes, so none of them may find out by itself. And a cache cannot
    tell what it has before the version is known. What can't be looked at is left unknown: reading
    it tells why.
    """
    look_at(dataset, [i for i, each in enumerate(dataset.shards) if each.version.etag is None])


def look_at(dataset: Dataset, shards: list[int]) -> dict[int, ObjectInfo]:
    """Ask the store about these shards' objects, if they exist. Their versions are kept."""

    def look(index: int) -> None:
        store, path = dataset.open(index)
        with contextlib.suppress(OSError):
            info = found[index] = store.info(path)
            dataset.shards[index].version.hold(info.etag, store.url(path))

    found: dict[int, ObjectInfo] = {}
    remote = [i for i in shards if "://" in dataset.shards[i].url]
    for index in sorted(set(shards) - set(remote)):  # a thread costs more than the answer
        look(index)
    if remote:
        with ThreadPoolExecutor(min(_LOOKUPS_AT_ONCE, len(remote))) as pool:
            list(pool.map(look, remote))
    return found
