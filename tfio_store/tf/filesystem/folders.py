"""Stores as folders, for callers that think in directories; globs in them, and what a listing said
about names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tfio_store.storage.cloud.bucket_store import DELETES_AT_ONCE, BucketStore, at_once
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.local import final_name
from tfio_store.storage.store import ObjectInfo, Store, seconds_of

# The contents of a folder: files, and folders.


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


# Folders as an fsspec filesystem shows them, and those of buckets.


MTIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")

T = TypeVar("T")
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


class BucketFolders:
    """`Folders` over a `BucketStore`: common prefixes of keys, and markers."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store

    def stat(self, path: str) -> Entry:
        name = path.rpartition("/")[2]
        if "/" not in path:
            self._some(path)
            return Entry(name, is_folder=True)
        try:
            found = self._store.info(path)
        except IsADirectoryError:
            return Entry(name, is_folder=True)
        return Entry(name, found.size, nanoseconds(found.modified))

    def is_folder(self, path: str) -> bool:
        try:
            return self._some(path) or "/" not in path
        except FileNotFoundError:  # no such bucket
            return False

    def entries(self, folder: str) -> list[Entry]:
        start = len(folder) + 1
        found: list[Entry] = []
        seen = "/" not in folder  # a bucket is there even when it is empty
        for objects, folders in self._pages(folder, deep=False):
            seen = seen or bool(objects or folders)
            found += [Entry(path[start:-1], is_folder=True) for path in folders]
            found += [Entry(o.path[start:], o.size, nanoseconds(o.modified)) for o in objects]
        if not seen:
            raise FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), self._store.url(folder)
            )
        return by_name(entry for entry in found if entry.name)  # less the folder's own marker

    def make(self, folder: str) -> None:
        if "/" in folder:
            self._store.put(f"{folder}/", b"")
        else:
            self._of_bucket("_mkdir", folder)

    def remove(self, folder: str) -> None:
        if "/" in folder:
            self._store.delete([f"{folder}/"])
        else:
            self._of_bucket("_rmdir", folder)

    def remove_tree(self, folder: str) -> None:
        # a page at a time: what is listed is deleted before more is listed
        for objects, _ in self._pages(folder, deep=True):
            self._store.delete(one.path for one in objects)

    def copy(self, source: str, target: str) -> None:
        self._wait(self._store._copy(source, target))

    def move_tree(self, source: str, target: str) -> None:
        keys = [one.path for objects, _ in self._pages(source, deep=True) for one in objects]
        copies = (self._store._copy(key, target + key[len(source) :]) for key in keys)
        self._wait(at_once(DELETES_AT_ONCE, copies))
        self._store.delete(keys)

    def _some(self, folder: str) -> bool:
        """Whether anything is below. FileNotFoundError if there is no such bucket."""
        found, _, _ = self._wait(self._store._page(f"{folder}/", True, None, 1))
        return bool(found)

    def _pages(self, folder: str, *, deep: bool) -> Iterator[tuple[list[ObjectInfo], list[str]]]:
        token = None
        while True:
            found, folders, token = self._wait(self._store._page(f"{folder}/", deep, token))
            yield found, folders
            if token is None:
                return

    def _of_bucket(self, method: str, bucket: str) -> None:
        work = getattr(self._store._connection.fs, method)
        self._wait(self._store._ask(bucket, lambda: work(bucket)))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._store._connection.wait(work)


def entry_of(info: Mapping[str, Any]) -> Entry:
    name = info["name"].rstrip("/").rpartition("/")[2]
    if info["type"] == "directory" or info["name"].endswith("/"):
        return Entry(name, mtime_ns=nanoseconds(seconds_in(info)), is_folder=True)
    return Entry(name, int(info["size"] or 0), nanoseconds(seconds_in(info)))


def seconds_in(info: Mapping[str, Any]) -> float | None:
    """Under any name that filesystems use."""
    return seconds_of(next((info[key] for key in MTIME_KEYS if info.get(key)), None))


def nanoseconds(seconds: float | None) -> int:
    """Since the epoch. 0 if unknown."""
    return int((seconds or 0) * 1_000_000_000)


# The folder view of a store, for callers that think in directories.
#
# Object stores have keys and no folders. A folder exists if a key below it exists, or a *marker*:
# an empty object whose key ends in "/". Consoles, Hadoop and this module make markers for empty
# folders. Elsewhere folders are what the filesystem says.


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
        return BucketFolders(store)
    raise ValueError(f"{store!r} has no folder view; open it with an fsspec scheme")


# Globs as TensorFlow has them.


WILD = re.compile(r"[*?\[\\]")


def is_pattern(segment: str) -> bool:
    return WILD.search(segment) is not None


def segment_matcher(segment: str) -> re.Pattern[str]:
    r"""``*`` any run, ``?`` any one, ``[a-z]`` one of, ``[^a-z]`` none of, ``\x`` x itself."""
    found, at = [], 0
    while at < len(segment):
        char = segment[at]
        close = closing(segment, at) if char == "[" else -1
        if close > 0:
            found.append(charset(segment[at + 1 : close]))
            at = close
        elif char == "\\" and at + 1 < len(segment):
            at += 1
            found.append(re.escape(segment[at]))
        else:
            found.append({"*": ".*", "?": "."}.get(char, re.escape(char)))
        at += 1
    return re.compile("".join(found), re.DOTALL)


def closing(segment: str, at: int) -> int:
    """Where the set that begins at ``at`` ends. -1 if it does not end: then "[" stands for
    itself."""
    first = at + 2 if segment[at + 1 : at + 2] in ("^", "!") else at + 1
    return segment.find("]", first + 1)


def charset(body: str) -> str:
    negated = body[0] in "^!"
    inner = re.sub(r"([\[\]&~|^])", r"\\\1", body[1:] if negated else body)
    return f"[{'^' if negated else ''}{inner}]"


def expand(
    root: str,
    segments: list[str],
    names: Callable[[list[str], bool], list[list[str]]],
    exists: Callable[[str], bool],
) -> list[str]:
    """Paths below ``root`` that match ``segments``, sorted.

    ``names(folders, last)`` gives the names in each folder, all or (not ``last``) those of its
    folders; ``exists`` is asked for a path that ends in segments without a wildcard.
    """
    found, listed = [root], True
    for index, segment in enumerate(segments):
        last = index + 1 == len(segments)
        listed = is_pattern(segment)
        if listed:
            matches = segment_matcher(segment).fullmatch
            below = zip(found, names(found, last), strict=True)
            found = [f"{folder}/{name}" for folder, has in below for name in has if matches(name)]
        else:
            found = [f"{folder}/{segment}" for folder in found]
    return sorted(path for path in found if listed or exists(path))


# Remembers what a listing said about names, for the questions that follow it.


SECONDS = 5.0


class Hints:
    """Whether listed paths are folders, remembered for a few seconds.

    ``tf.io.gfile.walk`` asks ``isdir`` about every name of a listing. Without the memory, 10,000
    keys would take 10,000 requests. Only ``isdir`` uses it, and any change made here clears it. So
    at worst somebody else's change is seen a few seconds late.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, bool] = {}
        self._until = 0.0

    def learn(self, listed: Iterable[tuple[str, bool]]) -> None:
        now = time.monotonic()
        with self._lock:
            if now > self._until:
                self._known.clear()
                self._until = now + SECONDS
            self._known.update(listed)

    def is_folder(self, path: str) -> bool | None:
        """None: not known."""
        with self._lock:
            return self._known.get(path) if time.monotonic() <= self._until else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
