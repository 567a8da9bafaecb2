"""Folders as an fsspec filesystem shows them."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tfio_store.storage.cloud.bucket_store import DELETES_AT_ONCE, BucketStore, at_once
from tfio_store.storage.leftovers import final_name
from tfio_store.tf.filesystem.folders.entry import Entry, by_name

__all__ = ["BucketFolders", "FsspecFolders"]

MTIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")

Call = Callable[..., Any]
"""``call(method, path, *args)``: a method of the filesystem, with retries that name ``path``."""


class FsspecFolders:
    """`Folders` by the methods that every fsspec filesystem has.

    If the filesystem shows no empty folders, this process remembers those that it has made.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._made: set[str] = set()

    def stat(self, path: str) -> Entry:
        try:
            return entry_of(self._call("info", path, path))
        except FileNotFoundError:
            if path not in self._made:
                raise
            return Entry(path.rpartition("/")[2], is_folder=True)

    def is_folder(self, path: str) -> bool:
        return path in self._made or bool(self._call("isdir", path, path))

    def entries(self, folder: str) -> list[Entry]:
        try:
            found = self._call("ls", folder, folder, detail=True)
        except FileNotFoundError:
            if folder not in self._made:
                raise
            found = []
        listed = [entry_of(info) for info in found if info["name"].strip("/") != folder.strip("/")]
        made = [
            Entry(name, is_folder=True)
            for parent, _, name in (path.rpartition("/") for path in self._made.copy())
            if parent == folder
        ]
        visible = (entry for entry in [*listed, *made] if final_name(entry.name) is None)
        return by_name(visible)

    def make(self, folder: str) -> None:
        self._call("makedirs", folder, folder, exist_ok=True)
        self._remember(folder)

    def _remember(self, folder: str) -> None:
        if not self._call("isdir", folder, folder):
            self._made.add(folder)

    def remove(self, folder: str) -> None:
        self._made.discard(folder)
        with contextlib.suppress(FileNotFoundError, NotImplementedError):
            self._call("rmdir", folder, folder)

    def remove_tree(self, folder: str) -> None:
        self._made -= set(self._made_in(folder))
        with contextlib.suppress(FileNotFoundError):
            self._call("rm", folder, folder, recursive=True)

    def copy(self, source: str, target: str) -> None:
        self._call("cp_file", source, source, target)
        size, copied = (self._call("info", path, path)["size"] for path in (source, target))
        if copied != size:  # the source is deleted next, if this is a rename
            raise OSError(errno.EIO, f"{copied} of {size} bytes were copied", target)

    def move_tree(self, source: str, target: str) -> None:
        files = self._call("find", source, source, detail=True, withdirs=True)
        self.make(target)
        for path, info in sorted(files.items()):
            if info["type"] == "directory":
                self.make(target + path[len(source) :])
            else:
                self.copy(path, target + path[len(source) :])
        for path in self._made_in(source):
            self._made.add(target + path[len(source) :])
        self.remove_tree(source)

    def _made_in(self, folder: str) -> list[str]:
        return [path for path in self._made.copy() if f"{path}/".startswith(f"{folder}/")]


class BucketFolders(FsspecFolders):
    """`Folders` on GCS and Azure, whose fsspec classes make no markers."""

    def __init__(self, store: BucketStore) -> None:
        super().__init__(self._through)
        self._store = store

    def _through(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        connection = self._store._connection
        work = getattr(connection.fs, f"_{method}")
        return connection.wait(self._store._ask(path, lambda: work(*args, **kwargs)))

    def make(self, folder: str) -> None:
        if "/" in folder:
            self._store.put(f"{folder}/", b"")
            self._remember(folder)
        else:
            self._call("mkdir", folder, folder)

    def remove(self, folder: str) -> None:
        if "/" in folder:
            self._made.discard(folder)
            self._store.delete([f"{folder}/"])
        else:
            self._call("rmdir", folder, folder)

    def remove_tree(self, folder: str) -> None:
        self._made -= set(self._made_in(folder))
        self._store.delete(list(self._keys(folder)))

    def copy(self, source: str, target: str) -> None:
        self._store._connection.wait(self._store._copy(source, target))

    def move_tree(self, source: str, target: str) -> None:
        keys = list(self._keys(source))
        copies = (self._store._copy(key, target + key[len(source) :]) for key in keys)
        self._store._connection.wait(at_once(DELETES_AT_ONCE, copies))
        self._made |= {target + path[len(source) :] for path in self._made_in(source)}
        self._made -= set(self._made_in(source))
        self._store.delete(keys)

    def _keys(self, folder: str) -> Iterator[str]:
        """Every object below the folder, markers too."""
        token = None
        while True:
            page = self._store._page(f"{folder}/", True, token)
            found, token = self._store._connection.wait(page)
            yield from (one.path for one in found)
            if token is None:
                return


def entry_of(info: Mapping[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rpartition("/")[2]
    if info["type"] == "directory" or info["name"].endswith("/"):
        return Entry(name, mtime_ns=mtime_of(info), is_folder=True)
    return Entry(name, int(info["size"] or 0), mtime_of(info))


def mtime_of(info: Mapping[str, Any]) -> int:
    """Nanoseconds since the epoch, under any name that filesystems use. 0 if unknown."""
    value = next((info[key] for key in MTIME_KEYS if info.get(key)), None)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        value = value.timestamp()
    return int(value * 1_000_000_000) if isinstance(value, (int, float)) else 0
