"""The files of a cache, as this process knows them.

    PATH/v1/ranges/ab/ab12…/0-8388608   one range of one version of one object
    PATH/v1/writing/…                   a range on its way to its name, by rename
    PATH/v1/total                       the bytes of all ranges (`room.py`)

Names of folders are digests, so that they show neither URLs nor what is in them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import stat
import struct
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import Buffer, crc32c
from tfio_store.records.texts import warn
from tfio_store.storage.cache import LocalCache
from tfio_store.storage.cache.room import Room, scanned
from tfio_store.storage.threads import PerProcess

__all__ = ["DIGEST_BYTES", "CacheFolder", "Found", "KeptRanges", "folder_of"]


# The file of one kept range: a header, and the range's bytes as the store has them.
#
# All numbers are little-endian::
#
#     "TFIOSRNG"  20 bytes of the object's digest  u64 start  u64 stop
#     u32         CRC32C of each `PIECE_BYTES` bytes of the range, the last of which may be fewer
#     u32         CRC32C of all of the above
#     bytes       the range
#
# By the CRCs of pieces a part of the range is checked without reading all of it.


DIGEST_BYTES = 20
PIECE_BYTES = 64 << 10
STEP_BYTES = 4 * PIECE_BYTES
"""Bytes that are read and then checked while they are in the processor's cache."""

_MAGIC = b"TFIOSRNG"
_HEAD = struct.Struct(f"<8s{DIGEST_BYTES}sQQ")
_CRC = struct.Struct("<I")


class DamagedError(Exception):
    """The file is not what was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Bytes ``start:stop`` of the object of this digest."""

    digest: bytes
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return self._data_at + self.stop - self.start

    @property
    def _data_at(self) -> int:
        pieces = -(-(self.stop - self.start) // PIECE_BYTES)
        return _HEAD.size + _CRC.size * (pieces + 1)

    def header(self, data: BytesLike) -> bytes:
        """The header before the range's ``data``."""
        view = memoryview(data).cast("B")
        pieces = range(0, len(view), PIECE_BYTES)
        crcs = b"".join(_CRC.pack(crc32c(view[at : at + PIECE_BYTES])) for at in pieces)
        head = _HEAD.pack(_MAGIC, self.digest, self.start, self.stop) + crcs
        return head + _CRC.pack(crc32c(head))

    def read(self, descriptor: int, start: int, stop: int) -> memoryview:
        """Bytes ``start:stop`` of the object, which are part of the range, from the entry's file.
        Raises DamagedError."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is no file of bytes")
        if status.st_size != self.nbytes:
            raise DamagedError(f"it has not the {self.nbytes} bytes that belong to its range")
        crcs = self._crcs(descriptor)
        first = (start - self.start) // PIECE_BYTES
        begin = first * PIECE_BYTES
        end = min(-(-(stop - self.start) // PIECE_BYTES) * PIECE_BYTES, self.stop - self.start)
        view = memoryview(Buffer(end - begin))
        for number, at in enumerate(range(0, len(view), PIECE_BYTES), first):
            if at % STEP_BYTES == 0:
                fill(view[at : at + STEP_BYTES], descriptor, self._data_at + begin + at)
            if crc32c(view[at : at + PIECE_BYTES]) != crcs[number]:
                raise DamagedError("a checksum of its data does not hold")
        return view[start - self.start - begin : stop - self.start - begin]

    def _crcs(self, descriptor: int) -> tuple[int, ...]:
        head = memoryview(bytearray(self._data_at))
        fill(head, descriptor, 0)
        body, crc = head[: -_CRC.size], _CRC.unpack(head[-_CRC.size :])[0]
        if crc32c(body) != crc:
            raise DamagedError("the checksum of its header does not hold")
        if _HEAD.unpack_from(body) != (_MAGIC, self.digest, self.start, self.stop):
            raise DamagedError("it is of another range")
        return struct.unpack(f"<{(len(body) - _HEAD.size) // _CRC.size}I", body[_HEAD.size :])


def fill(view: memoryview, descriptor: int, offset: int) -> None:
    got = 0
    while got < len(view):
        count = os.preadv(descriptor, [view[got:]], offset + got)
        if count == 0:
            raise DamagedError("it was cut")
        got += count


# Which ranges of one object a cache holds. No I/O.


Range = tuple[int, int]
"""Bytes from and to."""


class KeptRanges:
    """Ranges in order. They may overlap, where two processes have fetched the same."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: list[Range] = []
        self._longest = 0
        self.add(ranges)

    def add(self, ranges: Iterable[Range]) -> None:
        """Each costs little: an object may have as many ranges as it has records."""
        for kept in ranges:
            at = bisect_left(self._ranges, kept)
            if self._ranges[at : at + 1] != [kept]:
                self._ranges.insert(at, kept)
                self._longest = max(self._longest, kept[1] - kept[0])

    def drop(self, kept: Range) -> None:
        at = bisect_left(self._ranges, kept)
        if self._ranges[at : at + 1] == [kept]:
            del self._ranges[at]

    def holding(self, at: int) -> Range | None:
        """The range that holds byte ``at`` and goes furthest."""
        best: Range | None = None
        for number in range(bisect_right(self._ranges, (at, 1 << 63)) - 1, -1, -1):
            start, stop = self._ranges[number]
            if start + self._longest <= at:
                break
            if stop > at and (best is None or stop > best[1]):
                best = start, stop
        return best

    def ending(self, at: int) -> Range | None:
        """The range that holds the byte before ``at`` and begins first."""
        best: Range | None = None
        for number in range(bisect_right(self._ranges, (at - 1, 1 << 63)) - 1, -1, -1):
            start, stop = self._ranges[number]
            if start + self._longest < at:
                break
            if stop >= at:
                best = start, stop
        return best


_NAME = re.compile(r"(\d{1,19})-(\d{1,19})")

LOOK_AGAIN_SECONDS = 1.0
"""How old a listing may be that lacks a range, before other processes' ranges are looked for."""


class LostError(Exception):
    """A range that was there is not, or not as it was."""


@dataclass(frozen=True, slots=True)
class Found:
    """The cached parts of a range: its beginning, and its end behind the ``gap``. None: all."""

    before: list[memoryview]
    gap: Range | None
    after: list[memoryview]


@dataclass(slots=True)
class Known:
    """The facts about an object's folder, and since when they are known."""

    kept: KeptRanges = field(default_factory=KeptRanges)
    looked: float = float("-inf")


class CacheFolder:
    """Ranges in files. Safe to use from several threads."""

    def __init__(self, cache: LocalCache) -> None:
        self.cache = cache
        self._base = os.fspath(cache.path)
        self._root = os.path.join(self._base, "v1")
        self._writing = os.path.join(self._root, "writing")
        self._files = os.path.join(self._root, "ranges")
        self._room = Room(
            self._files, self._writing, os.path.join(self._root, "total"), cache.max_bytes
        )
        self._lock = threading.Lock()
        self._objects: dict[bytes, Known] = {}
        self._stopped = False
        self._warned_of_damage = False
        self._open()

    def _open(self) -> None:
        """Raises OSError that names the argument, unless one can write here."""
        try:
            os.makedirs(self._base, mode=0o700, exist_ok=True)
            self._check_owner()
            for folder in (self._writing, self._files):
                os.makedirs(folder, exist_ok=True)
            for name in (self._root, self._writing, self._files, self._room.total):
                if os.path.islink(name):
                    said = f"{name} is a link; delete it, or pass another folder"
                    raise OSError(errno.ELOOP, said, name)
            self._room.settle()
            self._room.sweep()
        except OSError as error:
            text = f"cache={self._base!r} cannot be written to: {error.strerror}"
            raise type(error)(error.errno, text, error.filename) from error

    def _check_owner(self) -> None:
        """PermissionError if others can put files and links here: what they put would be deleted
        and written to as if it were the cache's own."""
        ours = os.geteuid()
        for status in (os.lstat(self._base), os.stat(self._base)):
            link = stat.S_ISLNK(status.st_mode)
            # who owns a link can lead it elsewhere at any time; the superuser may
            owners = {ours, 0} if link else {ours}
            if status.st_uid not in owners:
                said = (
                    f"it belongs to user {status.st_uid}, and this process runs as user {ours}; "
                    "pass a folder of your own, or one that is not there yet"
                )
                raise PermissionError(errno.EPERM, said, self._base)
            if not link and status.st_mode & 0o022:
                # a shared folder, as /tmp is, must stay as it is
                shared = bool(status.st_mode & stat.S_ISVTX)
                take = f"take that from them with chmod go-w {shlex.quote(self._base)}, or "
                said = (
                    f"other users may write into it; {'' if shared else take}"
                    "pass a folder that is not there yet, which is made for you alone"
                )
                raise PermissionError(errno.EPERM, said, self._base)

    def find(self, digest: bytes, start: int, stop: int) -> Found:
        """Read what there is of bytes ``start:stop`` of the object of this digest."""
        known = self._known(digest)
        if self._plan(known, start, stop)[1] is not None:
            self._look_again(digest, known)
        while True:
            before, gap, after = self._plan(known, start, stop)
            try:
                return Found(
                    [self._read(digest, known, *part) for part in before],
                    gap,
                    [self._read(digest, known, *part) for part in after],
                )
            except LostError:  # which has left the plan, so that this ends
                continue

    def _plan(
        self, known: Known, start: int, stop: int
    ) -> tuple[list[tuple[Range, Range]], Range | None, list[tuple[Range, Range]]]:
        """Which part of which kept range to take, before and behind the gap."""
        before: list[tuple[Range, Range]] = []
        after: list[tuple[Range, Range]] = []
        with self._lock:
            while start < stop and (span := known.kept.holding(start)) is not None:
                before.append((span, (start, min(stop, span[1]))))
                start = span[1]
            if start >= stop:
                return before, None, after
            while start < stop and (span := known.kept.ending(stop)) is not None:
                after.insert(0, (span, (max(start, span[0]), stop)))
                stop = span[0]
        return before, (start, stop), after

    def _read(self, digest: bytes, known: Known, span: Range, part: Range) -> memoryview:
        path = self._path(digest, span)
        try:
            # a pipe would keep us waiting for who writes into it
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                data = Entry(digest, *span).read(descriptor, *part)
                with contextlib.suppress(OSError):  # the file of another user
                    os.utime(descriptor)
                return data
            finally:
                os.close(descriptor)
        except (OSError, DamagedError) as error:
            if isinstance(error, DamagedError):
                self._drop(path, error)
            with self._lock:
                known.kept.drop(span)
            raise LostError from error

    def _drop(self, path: str, error: Exception) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)
        with self._lock:
            warned, self._warned_of_damage = self._warned_of_damage, True
        if not warned:
            warn(
                f"{path}: {error}: this range of the cache is dropped and fetched again, and so is "
                "any other damaged one, without another warning"
            )

    def keep(self, digest: bytes, start: int, data: BytesLike) -> None:
        """Keep bytes of the object from ``start`` on. After a failure nothing more is kept."""
        view = memoryview(data).cast("B")
        entry = Entry(digest, start, start + len(view))
        if self._stopped or not len(view) or entry.nbytes > self.cache.max_bytes:
            return
        try:
            self._write(entry, view, self._room.begin(entry.nbytes))
        except OSError as error:
            with self._lock:
                warned, self._stopped = self._stopped, True
            if not warned:
                warn(f"cache={self._base!r}: nothing more is kept in this process: {error}")
            return
        known = self._known(digest)
        with self._lock:
            known.kept.add([(entry.start, entry.stop)])

    def _write(self, entry: Entry, data: memoryview, temporary: str) -> None:
        path = self._path(entry.digest, (entry.start, entry.stop))
        try:
            with open(temporary, "r+b", buffering=0) as file:
                for piece in (memoryview(entry.header(data)), data):
                    while len(piece):
                        piece = piece[file.write(piece) :]
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _known(self, digest: bytes) -> Known:
        with self._lock:
            return self._objects.setdefault(digest, Known())

    def _look_again(self, digest: bytes, known: Known) -> None:
        """Find the ranges that other processes have added, unless somebody just has."""
        now = time.monotonic()
        with self._lock:
            if now - known.looked < LOOK_AGAIN_SECONDS:
                return
            known.looked = now
        names = [_NAME.fullmatch(name) for name in scanned(self._folder(digest))]
        found = [(int(name[1]), int(name[2])) for name in names if name is not None]
        with self._lock:
            known.kept.add(span for span in found if span[0] < span[1])

    def _folder(self, digest: bytes) -> str:
        name = digest.hex()
        return os.path.join(self._files, name[:2], name)

    def _path(self, digest: bytes, span: Range) -> str:
        return os.path.join(self._folder(digest), f"{span[0]}-{span[1]}")


_folders: PerProcess[dict[LocalCache, CacheFolder]] = PerProcess(dict)


def folder_of(cache: LocalCache) -> CacheFolder:
    """This process's view of the cache. Raises OSError unless its folder can be written to."""
    found = _folders.here.get(cache)
    if found is None:
        found = _folders.here.setdefault(cache, CacheFolder(cache))
    return found
