"""Writes the golden cache ``cache/``: ``python -m tests.vectors.make_cache``.

It is committed, so that later versions find what this one kept. A version that can't gives its
folder another name than ``v1``, and gets a golden cache of its own.
"""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

from tfio_store.storage import LocalCache, ObjectInfo, Store
from tfio_store.storage.cache.folder import CacheFolder
from tfio_store.storage.cache.store import CachedStore

HERE = Path(__file__).parent / "cache"

DATA = bytes(range(256)) * 400
RANGES = ((0, 70_000), (90_000, 102_400))
"""Of the object, what the cache holds: one range of more than a piece, and the object's end."""


class Shop:
    """A store of one object, that counts its reads."""

    service = "s3.example.test"
    in_flight = 16

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def url(self, path: str) -> str:
        return f"s3://{path}"

    def info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, len(DATA), etag='"5f3c1c"')

    def read(self, path: str, start: int, stop: int, *, etag: Any = None) -> Future[bytes]:
        self.reads.append((start, stop))
        answer: Future[bytes] = Future()
        answer.set_result(DATA[start:stop])
        return answer


def read(shop: Shop, folder: Path, start: int, stop: int) -> bytes:
    """A range of the shop's object, through the cache in a folder."""
    cached = CachedStore(cast(Store, shop), CacheFolder(LocalCache(folder)))
    return bytes(cached.read("bucket/train", start, stop, etag='"5f3c1c"').result(60))


def main() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    for start, stop in RANGES:
        read(Shop(), HERE, start, stop)


if __name__ == "__main__":
    main()
