"""`names_in`: some of what lies in a folder, to say what else somebody may have meant.

It is asked only when something was not found, it takes few requests however much there is, and a
store that refuses answers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from tfio_store.storage.cache.store import CachedStore
from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.http import HTTPStore
from tfio_store.storage.local import LocalStore
from tfio_store.storage.store import Store

__all__ = ["names_in"]

_MOST = 10_000
"""Names of a folder that are looked at."""


def names_in(store: Store, folder: str, beginning: str = "") -> list[str]:
    """Names right in ``folder``; those of folders end in "/". Of a long folder only some, those
    that begin as ``beginning`` among them. Empty if there is no such folder, or it can't be
    listed."""
    try:
        return list(dict.fromkeys(islice(_names(store, folder, beginning), _MOST)))
    except (OSError, ValueError, NotImplementedError):
        return []


def _names(store: Store, folder: str, beginning: str) -> Iterable[str]:
    if isinstance(store, CachedStore):
        store = store._store
    if isinstance(store, LocalStore):
        return _local(folder)
    if isinstance(store, BucketStore):
        return _bucket(store, folder, beginning)
    if isinstance(store, HTTPStore):
        return ()
    if isinstance(store, FsspecStore):
        return _listed(store, folder)
    below = islice(store.list(folder), _MOST)
    return _firsts((found.path for found in below), f"{folder.rstrip('/')}/")


def _local(folder: str) -> Iterator[str]:
    with os.scandir(folder or "/") as entries:
        for entry in entries:
            yield f"{entry.name}/" if entry.is_dir() else entry.name


def _bucket(store: BucketStore, folder: str, beginning: str) -> Iterator[str]:
    """A page each of objects in the folder, of those below it, and of those that begin alike."""
    if not folder:
        return
    start = f"{folder.rstrip('/')}/"
    token: str | None = None
    for prefix, deep in ((start, False), (start, True), (f"{start}{beginning}", True)):
        if prefix == start or token is not None:
            found, folders, token = store._wait(prefix, store._page(prefix, deep, None))
            yield from _firsts([*(one.path for one in found), *folders], start)


def _listed(store: FsspecStore, folder: str) -> Iterator[str]:
    for info in store._call("ls", folder, folder, detail=True):
        name = str(info["name"]).rstrip("/").rpartition("/")[2]
        yield f"{name}/" if info["type"] == "directory" else name


def _firsts(paths: Iterable[str], start: str) -> Iterator[str]:
    """The first name behind ``start`` of each path."""
    for path in paths:
        name, slash, _ = path[len(start) :].partition("/")
        if path.startswith(start) and name:
            yield name + slash
