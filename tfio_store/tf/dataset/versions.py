"""The version of each file that a dataset's graph must read. Knows no TensorFlow."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from tfio_store.dataset.model import Dataset
from tfio_store.errors import DataLossWarning, TruncatedRecordError
from tfio_store.records.warning import warn
from tfio_store.storage import ObjectInfo

__all__ = ["check_sizes", "hold_versions"]

_LOOKUPS_AT_ONCE = 32


def hold_versions(dataset: Dataset) -> None:
    """Learn the versions that nobody has met yet, which are those of a manifest's shards.

    A graph is read by several processes, so none of them may find out by itself. What can't be
    looked at is left unknown: reading it tells why.
    """
    _look_at(dataset, [i for i, each in enumerate(dataset.shards) if each.version.etag is None])


def _look_at(dataset: Dataset, shards: list[int]) -> dict[int, ObjectInfo]:
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


def check_sizes(dataset: Dataset, *, skip_corrupt: bool) -> None:
    """Check that a manifest's shards are as long as it tells, because a stream ends where its file
    does. TruncatedRecordError for the first shorter one. With ``skip_corrupt`` a warning for each.
    """
    counted = [i for i, shard in enumerate(dataset.shards) if shard.records is not None]
    for index, info in _look_at(dataset, counted).items():
        shard = dataset.shards[index]
        if info.size >= shard.nbytes:
            continue
        error = TruncatedRecordError(
            f"the file ends before the byte {shard.nbytes} that its manifest tells of",
            path=shard.url,
            offset=info.size,
        )
        if not skip_corrupt:
            raise error
        warn(f"{error}: skipped", DataLossWarning)
