"""Checks that the store holds what was written: sizes and CRC32Cs, reported or read back."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfio_store.records.framing import crc32c
from tfio_store.storage.store import LOOKS_AT_ONCE, listed
from tfio_store.storage.threads import mapped

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import Fingerprint, ShardInfo
    from tfio_store.storage import ObjectInfo, Store

__all__ = ["WrongContentError", "check_shards", "check_stored", "read_back", "stored_crc32c"]

_RANGE = 8 << 20
_RANGES_AHEAD = 4


class WrongContentError(OSError):
    """The store does not hold what was written (errno EIO)."""


def check_stored(stored: ObjectInfo, url: str, *, nbytes: int, crc: int) -> None:
    """WrongContentError unless ``stored`` has that size, and that CRC32C if it has one."""
    if stored.size != nbytes:
        raise WrongContentError(
            errno.EIO, f"{nbytes} bytes were written, and the store holds {stored.size}", url
        )
    if stored.crc32c is not None and stored.crc32c != crc:
        raise WrongContentError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those in the store {stored.crc32c:08x}",
            url,
        )


def check_shards(
    folder: Folder,
    shards: Sequence[ShardInfo],
    *,
    among: int,
    made: Mapping[str, Fingerprint] = MappingProxyType({}),
) -> None:
    """FileNotFoundError or WrongContentError unless the store holds every shard as written.

    A listing has a thousand in one request, of the ``among`` shards that the dataset has had.
    Where that is less work than to ask for each, only what it leaves open is asked for. ``made``:
    objects that this process has seen to appear, by name.
    """
    found = listed(folder.store, [folder.join(shard.name) for shard in shards], among=among)

    def check(shard: ShardInfo, stored: ObjectInfo) -> None:
        check_stored(stored, folder.url(shard.name), nbytes=shard.nbytes, crc=shard.crc32c)

    def ask(shard: ShardInfo) -> None:
        check(shard, folder.store.info(folder.join(shard.name)))

    unknown = []
    for shard in shards:
        stored = found.get(folder.join(shard.name))
        # under a plain name, others may have written as many bytes
        own = shard.name.startswith("_") or (
            stored is not None and shard.name in made and stored.etag == made[shard.name].etag
        )
        if stored is None or (stored.crc32c is None and not own):
            unknown.append(shard)
        else:
            check(shard, stored)
    list(mapped(ask, unknown, LOOKS_AT_ONCE))


def read_back(store: Store, path: str, *, nbytes: int, crc: int) -> None:
    """Read the object's bytes. WrongContentError unless they have that CRC32C."""
    found = stored_crc32c(store, path, nbytes)
    if found != crc:
        raise WrongContentError(
            errno.EIO,
            f"the bytes written have the CRC32C {crc:08x}, those read back {found:08x}",
            store.url(path),
        )


def stored_crc32c(store: Store, path: str, nbytes: int) -> int:
    """Read an object's bytes and compute their CRC32C."""
    found = 0
    starts = range(0, nbytes, _RANGE)
    reads = (store.read(path, start, min(start + _RANGE, nbytes)) for start in starts)
    pending = deque(next(reads) for _ in range(min(_RANGES_AHEAD, len(starts))))
    while pending:
        found = crc32c(pending.popleft().result(), found)
        if (more := next(reads, None)) is not None:
            pending.append(more)
    return found
