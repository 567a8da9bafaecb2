"""The `Store` protocol: what the library needs of a place that keeps objects.

A store is bound to one scheme and one set of storage options. Its *paths* are
what `open_store` gives beside it (``bucket/key``, ``/folder/file``); `Store.url` turns one
back into what a person would type. Failures are ``OSError`` subclasses that
name the URL: ``FileNotFoundError``, ``PermissionError``, ``IsADirectoryError``,
``FileExistsError`` for a lost condition, ``TimeoutError`` and ``ConnectionError`` once the
retries of a passing fault are used up.
"""

from __future__ import annotations

import builtins  # because `Store.list` hides the type within the class
import contextlib
import errno
import glob
import io
import math
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import islice, takewhile
from typing import Any, ParamSpec, Protocol, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import ReplacedError
from tfio_store.storage.aside import ASIDE, hidden
from tfio_store.storage.threads import begun

__all__ = [
    "DISTANT",
    "LOOKS_AT_ONCE",
    "ConditionRefusedError",
    "ObjectInfo",
    "Output",
    "OutputFile",
    "PendingUpload",
    "Store",
    "StoredFile",
    "Version",
    "copied_through",
    "early",
    "first_names",
    "listed",
    "names_in",
    "seconds_of",
]


# The version of an object that a reader reads, and the check that an answer is of it.


class ConditionRefusedError(PermissionError):
    """The store would not replace an object although it is the very one that was asked for."""

    @classmethod
    def of(cls, url: str) -> ConditionRefusedError:
        return cls(
            errno.EPERM,
            "the store refuses to replace this object, although no one else has: it is leased or "
            "locked, or the store's conditions do not hold here (Ceph's versioned buckets)",
            url,
        )


class Version:
    """One version of an object, known by its etag. The first answer has the etag, and from then
    on it stays. All ranges that belong together share one Version, so that none has to wait: the
    first answer decides, and the others must agree. It pickles with what is known. That may be the
    mark of an etag only, of which a state was taken: the first answer must have that one.
    """

    __slots__ = ("_known", "end", "now")

    def __init__(self, etag: str | None = None, mark: str | None = None) -> None:
        known = {"etag": etag, "mark": mark}
        self._known = {name: value for name, value in known.items() if value is not None}
        self.end: int | None = None
        """Where the object ended, if a reader found it shorter than expected."""
        self.now: tuple[str, Version] | None = None
        """Where the object was found to be, if it has left its name, and what is there."""

    @classmethod
    def of(cls, etag: str | Version | None) -> Version:
        return etag if isinstance(etag, Version) else cls(etag)

    @property
    def etag(self) -> str | None:
        return self._known.get("etag")

    @property
    def known(self) -> tuple[Any, ...]:
        """What makes the same Version in another process."""
        return self.etag, self._known.get("mark")

    def move(self, store: Store, path: str, missing: FileNotFoundError) -> None:
        """The object has left ``path``: find out where it is ``now``. Raises the error of one that
        is nowhere. It was there if its version is known."""
        if self.etag is None:
            try:
                raise missing
            finally:
                del missing  # else it and this frame would hold each other
        kept: builtins.list[ObjectInfo] = []
        with contextlib.suppress(OSError):
            kept = store.glob(f"{glob.escape(hidden(path))}.*{ASIDE}")
        if len(kept) != 1:  # no name is that of two generations
            raise self.replaced(store.url(path)) from missing
        self.now = kept[0].path, Version()

    def mark(self, url: str) -> str | None:
        """Eight digits that tell the version, or None while nothing is known of it."""
        return self._known.get("mark") if self.etag is None else mark_of(self.etag, url)

    def expect(self, mark: str) -> None:
        """Take only the version of this `mark`, if none is known yet."""
        self._known.setdefault("mark", mark)

    def hold(self, etag: str | None, url: str) -> None:
        """Take the etag of an answer. Raises ReplacedError if another one is known or expected. An
        answer without an etag is no evidence."""
        if etag is None:
            return
        expected = self._known.get("mark")
        if expected is not None and self.etag is None and mark_of(etag, url) != expected:
            raise self.replaced(url)
        if self._known.setdefault("etag", etag) != etag:  # setdefault: atomic
            raise self.replaced(url)

    def replaced(self, url: str) -> ReplacedError:
        return ReplacedError(
            errno.ESTALE,
            "the object was replaced since reading began; open it again to read the new one",
            url,
        )

    def __repr__(self) -> str:
        return f"Version({self.etag!r})"


def mark_of(etag: str, url: str) -> str:
    """Eight digits of an etag, which a state keeps."""
    if "://" not in url:  # without the inode, which other mounts of a filesystem number anew
        etag = etag.partition("-")[2]
    return f"{zlib.crc32(etag.encode()):08x}"


MOST_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One stored object. ``crc32c`` is what the store computed or checked; None if it says
    none. ``modified`` is when it was last written, in seconds since 1970, if `Store.info` asked
    and the store tells."""

    path: str
    size: int
    etag: str | None = None
    crc32c: int | None = None
    modified: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # compiled code counts in 64 bits with a sign, and a lying server may claim any size
        if not 0 <= self.size <= MOST_BYTES:
            raise OSError(errno.EFBIG, "the store claims a size that no object has")


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that was begun and neither committed nor aborted."""

    path: str
    token: str
    begun: float | None = None
    """When, in Unix time. None if unknown."""


class Output(Protocol):
    """A new object being written. Nobody sees it before `commit`."""

    def write(self, data: BytesLike) -> None:
        """Take ``data``, in order. The caller must not change it afterwards. The upload may run in
        the background. A failure is raised here or at `commit`, with its cause."""

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        """Make the object visible, whole, at once. ``if_absent``: FileExistsError when the path is
        taken (where the store can tell; see `Store.conditional`). ``crc32c`` of all bytes is sent
        along where the store verifies it."""

    def abort(self) -> None:
        """Leave nothing behind. Idempotent; does nothing after `commit`."""


class Store(Protocol):
    """Ranged reads, listing, and transactional writing. Safe to use from several threads."""

    @property
    def conditional(self) -> bool:
        """Whether ``if_absent`` and ``if_match`` of `put` are decided by the store, atomically."""

    @property
    def asks_once(self) -> bool:
        """Whether nothing below this store sends a request again by itself. HTTP clients do
        (aiohttp repeats a PUT if a kept connection breaks), and so do proxies. Then a refusal is
        not final: an earlier copy of the request may still be carried out. A store that does not
        tell counts as one that may repeat."""

    @property
    def range_bytes(self) -> int:
        """How many bytes one request should ask for, if there is much to read."""

    @property
    def in_flight(self) -> int:
        """How many such requests at a time are usually fastest."""

    @property
    def most_in_flight(self) -> int:
        """How many requests at a time there may be, if more are faster still."""

    @property
    def lists_cheaply(self) -> bool:
        """Whether a listing is one small request, which costs little, and which does not keep
        other requests waiting."""

    @property
    def service(self) -> str | None:
        """A mark of this service, as another may have the same URLs; not to show. None if the
        store has none, or has no versions: then nothing of it is cached."""

    def address(self, path: str) -> str:
        """The URL that `open_store` turns into this path and this place, whatever account or host
        the first URL named. It may hold a password or signature: do not show it."""

    def url(self, path: str) -> str:
        """The address without credentials, to show."""

    def info(self, path: str) -> ObjectInfo:
        """FileNotFoundError, IsADirectoryError, PermissionError."""

    def look(self, path: str) -> ObjectInfo | None:
        """The answer of `info`, or None if there is no object: one request, where `info` may make a
        second one to tell a folder from nothing."""

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        """Read a small object whole by one request, with the size and etag of exactly these bytes.
        FileNotFoundError, also of a folder where that would be a second question, and else
        IsADirectoryError; OSError if it has more than ``most`` bytes. (If only the fsspec class of
        a filesystem is known, a look is a request of its own.)"""

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        """Begin to read bytes [start, stop). The result has exactly that many, and fewer only if
        the object is known to end there. Cancelling the future gives the request up: it is not made
        again, and ends at once where the client can. Passing faults are retried; a short answer is
        one. With ``etag`` the bytes are of that version, or ReplacedError is raised. A `Version`
        that knows no etag yet takes that of the first answer."""

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        """Every object below ``folder``, at any depth, sorted by path. An empty folder is no
        error."""

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        """The objects that match, sorted by path."""

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> Output:
        """Begin an object. With ``if_match`` it replaces only the object of that etag. If that is
        gone, or another is there, `Output.commit` raises FileExistsError."""

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        """Write a small object in one atomic request. FileExistsError if ``if_absent`` finds an
        object, or if no object has the etag ``if_match`` any more. PermissionError if it still has
        that etag, and the store refuses all the same."""

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Make ``target`` an object of the same bytes, whole and at once. The service copies by
        itself, if it can. FileExistsError when the path is taken (where the store can tell; see
        `Store.conditional`). If an answer was lost, the object may be this copy."""

    def delete(self, paths: Iterable[str]) -> None:
        """Missing ones are no error."""

    def delete_version(self, path: str, etag: str | None) -> None:
        """Delete the object if it still has this etag, and leave it otherwise. If the service can't
        compare, look first. With None, delete any version."""

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        """Uploads under ``folder`` that a dead writer left (multipart uploads, temporary files).
        Those of folders in it may be left out unless ``deep``."""

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None: ...


# Questions that are asked before anybody knows whether their answers are needed.
#
# Asked one after the other, each costs a distant store's whole round trip. Asked at once, all of
# them cost one.


P = ParamSpec("P")
T = TypeVar("T")

DISTANT = 8
"""A store that is fastest with this many requests at a time is far away."""


def early(
    store: Store, ask: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> Callable[[], T]:
    """Begin to call ``ask``, a single request to ``store``. Call the result for the answer, or drop
    it. A store that is near is asked only then. So is one that is no store of buckets: there a
    listing may fetch a whole page, and a connection may take one request at a time.
    """
    later = partial(ask, *args, **kwargs)
    if store.in_flight < DISTANT or not store.lists_cheaply:
        return later
    try:
        # no one waits for an answer that was dropped, not even at exit
        return begun(later, "tfio_store-early").result
    except RuntimeError:  # the interpreter is on its way out
        return later


# Metadata of many objects: by listing them, where that takes less time than to ask for
# each.


LOOKS_AT_ONCE = 32
"""How many objects a caller asks for at a time."""

_LISTED_AT_ONCE = 1000
"""Objects that one request lists."""


def listed(store: Store, paths: Sequence[str], *, among: int) -> dict[str, ObjectInfo]:
    """The metadata that a listing of their folder has of these objects, by path. It may lack some.

    ``among``: about how many objects such a listing has. Nothing comes where to ask for each,
    `LOOKS_AT_ONCE` at a time, is faster, where a listing has its price, or where it is refused.
    """
    pages, rounds = among // _LISTED_AT_ONCE + 1, -(-len(paths) // LOOKS_AT_ONCE)
    first, last = min(paths, default=""), max(paths, default="")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    begin = "".join(letter for letter, _ in same)
    if not store.lists_cheaply or pages >= rounds or "/" not in begin:
        return {}
    with contextlib.suppress(OSError):
        return {info.path: info for info in store.glob(f"{glob.escape(begin)}*")}
    return {}


# Some of what lies in a folder, to say what else somebody may have meant.
#
# It is asked only when something was not found, it takes few requests however much there is, and a
# store that refuses answers nothing.


_MOST_NAMES = 10_000
"""Names of a folder that are looked at."""


def names_in(store: Store, folder: str, beginning: str = "") -> list[str]:
    """Names right in ``folder``; those of folders end in "/". Of a long folder only some, those
    that begin as ``beginning`` among them. Empty if there is no such folder, or it can't be
    listed."""
    ask = getattr(store, "some_names", None)  # the library's own stores have it
    try:
        if ask is None:
            below = islice(store.list(folder), _MOST_NAMES)
            names = first_names((found.path for found in below), f"{folder.rstrip('/')}/")
        else:
            names = ask(folder, beginning)
        return list(dict.fromkeys(islice(names, _MOST_NAMES)))
    except (OSError, ValueError, NotImplementedError):
        return []


def first_names(paths: Iterable[str], start: str) -> Iterator[str]:
    """The first name behind ``start`` of each path."""
    for path in paths:
        name, slash, _ = path[len(start) :].partition("/")
        if path.startswith(start) and name:
            yield name + slash


# When an object was last written: stores and filesystems give a date, seconds, or a text.


def seconds_of(given: object) -> float | None:
    """Seconds since 1970, UTC. None for what is no time."""
    if isinstance(given, str):
        given = _read(given)
    if isinstance(given, datetime):
        known = given if given.tzinfo is not None else given.replace(tzinfo=timezone.utc)
        return known.timestamp()
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        return None
    return float(given)


def _read(text: str) -> datetime | None:
    """ISO 8601, or the date of an HTTP header."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None


# Copies of objects where the store itself makes none.


_AHEAD = 4


def copied_through(store: Store, source: str, target: str) -> ObjectInfo:
    """Read an object, and write it to ``target`` if that is free: what `Store.copy` promises."""
    info, step = store.info(source), store.range_bytes
    ranges = ((start, min(start + step, info.size)) for start in range(0, info.size, step))
    output = store.open_output(target)
    try:
        begun = deque(store.read(source, *each, etag=info.etag) for each in islice(ranges, _AHEAD))
        while begun:
            output.write(begun.popleft().result())
            begun.extend(store.read(source, *each, etag=info.etag) for each in islice(ranges, 1))
        return output.commit(if_absent=True)
    finally:
        output.abort()


# Objects of a store as files: for libraries that read and write nothing else.


class StoredFile(io.RawIOBase):
    """Reads ranges of one version of an object."""

    def __init__(
        self, store: Store, path: str, nbytes: int, version: Version | None = None
    ) -> None:
        super().__init__()
        self._store, self._path, self._nbytes = store, path, nbytes
        self._version = version
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._nbytes}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._store.url(self._path)}: seek to {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: BytesLike) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._nbytes)
        if stop <= self._at:
            return 0
        data = memoryview(
            self._store.read(self._path, self._at, stop, etag=self._version).result()
        ).cast("B")
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class OutputFile(io.RawIOBase):
    """Writes an object that its owner commits or aborts."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: BytesLike) -> int:
        kept = bytes(data)  # which the caller may change
        self._output.write(kept)
        self._at += len(kept)
        return len(kept)
