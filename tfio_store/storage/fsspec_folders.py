"""Folders as an fsspec filesystem shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tfio_store.storage.folders import Entry, by_name
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.leftovers import final_name

__all__ = ["FsspecFolders"]

MTIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


class FsspecFolders:
    """`Folders` over an `FsspecStore`.

    Where the filesystem keeps no empty folders (GCS, Azure), those made here are remembered by this
    process.
    """

    def __init__(self, store: FsspecStore) -> None:
        self._store = store
        self._made: set[str] = set()

    def stat(self, path: str) -> Entry:
        try:
            return entry_of(self._store._call("info", path, path))
        except FileNotFoundError:
            if path not in self._made:
                raise
            return Entry(path.rpartition("/")[2], is_folder=True)

    def is_folder(self, path: str) -> bool:
        return path in self._made or bool(self._store._call("isdir", path, path))

    def entries(self, folder: str) -> list[Entry]:
        try:
            found = self._store._call("ls", folder, folder, detail=True)
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
        self._store._call("makedirs", folder, folder, exist_ok=True)
        if not self._store._call("isdir", folder, folder):
            self._made.add(folder)

    def remove(self, folder: str) -> None:
        self._made.discard(folder)
        with contextlib.suppress(FileNotFoundError, NotImplementedError):
            self._store._call("rmdir", folder, folder)

    def remove_tree(self, folder: str) -> None:
        self._made -= {path for path in self._made if f"{path}/".startswith(f"{folder}/")}
        with contextlib.suppress(FileNotFoundError):
            self._store._call("rm", folder, folder, recursive=True)

    def copy(self, source: str, target: str) -> None:
        self._store._call("cp_file", source, source, target)

    def move_tree(self, source: str, target: str) -> None:
        moved = {path for path in self._made if f"{path}/".startswith(f"{source}/")}
        files = self._store._call("find", source, source, detail=True, withdirs=True)
        self.make(target)
        for path, info in sorted(files.items()):
            copied = target + path[len(source) :]
            if info["type"] == "directory":
                self.make(copied)
            else:
                self.copy(path, copied)
        self._made |= {target + path[len(source) :] for path in moved}
        self.remove_tree(source)


def entry_of(info: Mapping[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rpartition("/")[2]
    if info["type"] == "directory":
        return Entry(name, mtime_ns=mtime_of(info), is_folder=True)
    return Entry(name, int(info["size"] or 0), mtime_of(info))


def mtime_of(info: Mapping[str, Any]) -> int:
    """Nanoseconds since the epoch, whatever the filesystem calls it; 0: it does not say."""
    value = next((info[key] for key in MTIME_KEYS if info.get(key)), None)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        value = value.timestamp()
    return int(value * 1_000_000_000) if isinstance(value, (int, float)) else 0
