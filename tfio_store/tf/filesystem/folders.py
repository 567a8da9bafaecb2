"""Stores as folders, for callers that think in directories."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tfio_store.storage.cloud.azure import ONCE, AzureStore
from tfio_store.storage.cloud.bucket_store import DELETES_AT_ONCE, BucketStore, at_once
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.local import final_name
from tfio_store.storage.store import Store

__all__ = ["Entry", "Folders", "folders_of"]


# What a folder holds: files, and folders.


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder: its last path segment, bytes, nanoseconds since the epoch (0: unknown)."""

    name: str
    size: int = 0
    mtime_ns: int = 0
    is_folder: bool = False


def by_name(entries: Iterable[Entry]) -> list[Entry]:
    """Each name once, a file before a folder of its name, sorted."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.name not in found or not entry.is_folder:
            found[entry.name] = entry
    return [found[name] for name in sorted(found)]


# Folders as an fsspec filesystem shows them.


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


# Folders on Azure: adlfs, shown a marker, lists nothing else of its folder.


class AzureFolders(BucketFolders):
    """`Folders` over an `AzureStore`; paths are ``container/name``."""

    def __init__(self, store: AzureStore) -> None:
        super().__init__(store)
        self._azure = store

    def entries(self, folder: str) -> list[Entry]:
        found = self._azure._connection.wait(self._azure._ask(folder, lambda: self._level(folder)))
        if not found and "/" in folder and folder not in self._made:
            raise FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), self._azure.url(folder)
            )
        return by_name(entry for entry in found if entry.name)  # less the folder's own marker

    async def _level(self, folder: str) -> list[Entry]:
        prefix = f"{folder}/".partition("/")[2]
        entries = []
        async for one in self._azure._container(folder).walk_blobs(prefix, **ONCE):
            name, size = one.name[len(prefix) :], getattr(one, "size", None)
            if size is None:
                entries.append(Entry(name.rstrip("/"), is_folder=True))
            else:
                when = mtime_of({"last_modified": one.last_modified})
                entries.append(Entry(name, size, when))
        return entries


# Folders on S3: common prefixes of keys, and markers.


class S3Folders:
    """`Folders` over an `S3Store`; paths are ``bucket/key``."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    def stat(self, path: str) -> Entry:
        name = path.rpartition("/")[2]
        if "/" not in path:
            self._run(path, "head_bucket")
            return Entry(name, is_folder=True)
        try:
            found = self._run(path, "head_object", key=True)
        except FileNotFoundError:
            if not self.is_folder(path):
                raise
            return Entry(name, is_folder=True)
        return Entry(name, found["ContentLength"], nanoseconds(found["LastModified"]))

    def is_folder(self, path: str) -> bool:
        return bool(self._page(path, MaxKeys=1).get("KeyCount"))

    def entries(self, folder: str) -> list[Entry]:
        start = len(self._prefix(folder))
        found: list[Entry] = []
        seen = "/" not in folder  # a bucket is there even when it is empty
        for page in self._pages(folder, Delimiter="/"):
            seen = seen or bool(page.get("KeyCount"))
            for below in page.get("CommonPrefixes", ()):
                found.append(Entry(below["Prefix"][start:-1], is_folder=True))
            for item in page.get("Contents", ()):
                when = nanoseconds(item["LastModified"])
                found.append(Entry(item["Key"][start:], item["Size"], when))
        if not seen:
            raise self._missing(folder)
        return by_name(entry for entry in found if entry.name)  # less the folder's own marker

    def make(self, folder: str) -> None:
        if "/" in folder:
            self._run(f"{folder}/", "put_object", key=True, Body=b"")
        else:
            self._run(folder, "create_bucket")

    def remove(self, folder: str) -> None:
        if "/" in folder:
            self._store.delete([f"{folder}/"])
        else:
            self._run(folder, "delete_bucket")

    def remove_tree(self, folder: str) -> None:
        bucket = folder.partition("/")[0]
        # a page at a time: what is listed is deleted before more is listed
        for page in self._pages(folder):
            self._store.delete(f"{bucket}/{item['Key']}" for item in page.get("Contents", ()))

    def copy(self, source: str, target: str) -> None:
        self._store._client.connection.wait(self._store._copy(source, target))

    def move_tree(self, source: str, target: str) -> None:
        bucket = source.partition("/")[0]
        keys = [
            f"{bucket}/{item['Key']}"
            for page in self._pages(source)
            for item in page.get("Contents", ())
        ]
        copies = (self._store._copy(key, target + key[len(source) :]) for key in keys)
        self._store._client.connection.wait(at_once(DELETES_AT_ONCE, copies))
        self._store.delete(keys)

    def _prefix(self, folder: str) -> str:
        key = self._store._client.split(folder)[1]
        return f"{key}/" if key else ""

    def _page(self, folder: str, **params: Any) -> dict[str, Any]:
        return self._run(folder, "list_objects_v2", Prefix=self._prefix(folder), **params)

    def _pages(self, folder: str, **params: Any) -> Iterator[dict[str, Any]]:
        while True:
            page = self._page(folder, **params)
            yield page
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    def _run(self, path: str, method: str, *, key: bool = False, **params: Any) -> dict[str, Any]:
        params["Bucket"], found = self._store._client.split(path)
        if key:
            params["Key"] = found
        return self._store._client.connection.wait(self._store._call(path, method, **params))

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._store.url(path))


def nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000_000


# The folder view of a store, for callers that think in directories.
#
# Object stores have keys and no folders. A folder exists if a key below it exists, or a *marker*:
# an empty object whose key ends in "/". Consoles, Hadoop and this module make markers for empty
# folders. Elsewhere folders are what the filesystem says.


SPECIAL = {
    "S3Store": ("tfio_store.tf.filesystem.folders", "S3Folders"),
    "AzureStore": ("tfio_store.tf.filesystem.folders", "AzureFolders"),
}
"""Stores whose folders need more than their fsspec class offers."""


class Folders(Protocol):
    """Paths are the store's. Failures are OSErrors that name the URL."""

    def stat(self, path: str) -> Entry:
        """FileNotFoundError when there is neither a file nor a folder. A file comes first."""

    def is_folder(self, path: str) -> bool:
        """Whether the folder, or anything below it, exists."""

    def entries(self, folder: str) -> list[Entry]:
        """The entries directly in ``folder``, sorted by name. FileNotFoundError if there is no
        folder."""

    def make(self, folder: str) -> None:
        """Make ``folder``. Its parent exists."""

    def remove(self, folder: str) -> None:
        """Remove an empty folder."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all that is in it, at any depth."""

    def copy(self, source: str, target: str) -> None:
        """Make ``target`` an equal file, within the store where it can."""

    def move_tree(self, source: str, target: str) -> None:
        """Rename a folder: copy everything, then delete everything."""


def folders_of(store: Store) -> Folders:
    """The folders of a store that `open_store` has opened. ValueError for a plugin's store."""
    if isinstance(store, FsspecStore):
        return FsspecFolders(store._call)
    if isinstance(store, BucketStore):
        special = SPECIAL.get(type(store).__name__)
        if special is None:
            return BucketFolders(store)
        module, name = special  # which imports the client that the store has imported already
        found: Folders = getattr(importlib.import_module(module), name)(store)
        return found
    raise ValueError(f"{store!r} has no folder view; open it with an fsspec scheme")
