"""Local files: written under a temporary name in the same folder, made durable, then renamed."""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import os
import posixpath
import re
import resource
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from typing import IO, Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import Buffer
from tfio_store.storage import threads
from tfio_store.storage.faults import naming
from tfio_store.storage.ranges import check_size
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, PendingUpload, Version, copied_through
from tfio_store.storage.threads import Owner

__all__ = ["NOT_REGULAR", "LocalStore", "etag_of", "final_name", "temporary_path"]


# Names of objects that are still being written, where a store has folders and renames.


NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)

LONGEST_NAME = 255 - len("..0123456789abcdef.tmp")
"""Bytes of a name that leave room for the rest in a file name of 255."""


def temporary_path(path: str) -> str:
    """``folder/name`` -> ``folder/.name.RANDOM.tmp``: hidden, and a rename away from its place."""
    folder, name = posixpath.split(path)
    short = name.encode(errors="surrogateescape")[:LONGEST_NAME]
    kept = short.decode(errors="ignore") if len(short) == LONGEST_NAME else name
    return posixpath.join(folder, f".{kept}.{secrets.token_hex(8)}.tmp")


def final_name(name: str) -> str | None:
    """The name that a temporary name stands for; None when it is not one of ours."""
    found = NAME.fullmatch(name)
    return found["name"] if found else None


NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""Errors of filesystems without hard links (FAT, some network filesystems)."""

READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""How to open a file to read. A FIFO of that name would else wait for somebody who writes."""

DESCRIPTORS = "/dev/fd"
OTHER_FILES = 16
"""Files that a process opens for a moment while its outputs are open."""

LOOKS = 10
"""How often a file is read again if somebody writes into it meanwhile."""


class LocalStore:
    """A `Store` of local files; its paths are absolute."""

    conditional = asks_once = True
    range_bytes = 1 << 20  # fits a core's cache: what was read is checked before it leaves it
    in_flight = most_in_flight = 4
    lists_cheaply = False
    service = None

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        del scheme, options, retry  # what every factory takes; files need none of it

    def __repr__(self) -> str:
        return "LocalStore()"

    def __reduce__(self) -> tuple[object, ...]:
        return LocalStore, ("file", {}, Retry())

    @property
    def most_outputs(self) -> int:
        """How many outputs this process can have open at a time, each of which is an open file."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return sys.maxsize
        there = len(os.listdir(DESCRIPTORS)) if os.path.isdir(DESCRIPTORS) else 0
        return max(most - there - OTHER_FILES, 0)

    def address(self, path: str) -> str:
        return path

    def url(self, path: str) -> str:
        return path

    def info(self, path: str) -> ObjectInfo:
        with naming(path):
            return described(path, os.stat(path))

    def look(self, path: str) -> ObjectInfo | None:
        try:
            return self.info(path)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        with self.descriptor(path) as descriptor, naming(path):
            for _ in range(LOOKS):
                info = described(path, os.fstat(descriptor))
                check_size(info.size, most, path)
                buffer = memoryview(bytearray(info.size))
                got = fill(buffer, descriptor, 0)
                # else somebody writes into the file, which a replacement by rename is not
                if got == info.size and described(path, os.fstat(descriptor)) == info:
                    return bytes(buffer), info
        raise OSError(errno.EBUSY, "the file changed while it was read", path)

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        version = Version.of(etag)
        # to copy from the page cache costs less than waking a thread, on a busy machine by far
        cached = pieces_cached(path, ((start, stop),), version, may_end=True)
        if cached is None:
            return threads.pool().submit(read_range, path, start, stop, version)
        done: Future[BytesLike] = Future()
        done.set_result(cached)
        return done

    def read_now(
        self, path: str, start: int, stop: int, version: Version, *, cached: bool = False
    ) -> BytesLike | None:
        """The result of `read`, without another thread. ``cached``: None unless it is in the page
        cache."""
        found = pieces_cached(path, ((start, stop),), version, may_end=True)
        return found if cached or found is not None else read_range(path, start, stop, version)

    def read_at_hand(
        self, path: str, pieces: Sequence[tuple[int, int]], *, etag: str | Version | None = None
    ) -> memoryview | None:
        """Return these (start, stop) of a file, one behind the other, if all of it is in the page
        cache, else None. The file is opened once for all of them."""
        return pieces_cached(path, pieces, Version.of(etag))

    @contextlib.contextmanager
    def descriptor(self, path: str, *, etag: str | Version | None = None) -> Iterator[int]:
        """The file, open for reading."""
        with naming(path):
            descriptor, version = open_version(path, Version.of(etag))
        try:
            opened(path, descriptor, version)
            yield descriptor
        finally:
            os.close(descriptor)

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        with naming(folder):
            found = sorted(files_below(folder))
        for path in found:
            with contextlib.suppress(FileNotFoundError):  # gone since
                yield described(path, os.stat(path))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        from fsspec.implementations.local import LocalFileSystem

        with naming(pattern):
            found = LocalFileSystem(auto_mkdir=False).glob(os.path.abspath(pattern))
            infos = [
                info
                for path in sorted(found)
                if final_name(os.path.basename(path)) is None
                and (info := described_file(path)) is not None
            ]
        if not found:
            refuse_unreadable(re.split(r"[*?[]", os.path.abspath(pattern))[0])
        return infos

    def some_names(self, folder: str, beginning: str) -> Iterator[str]:
        """See `names_in`."""
        del beginning
        with os.scandir(folder or "/") as entries:
            for entry in entries:
                yield f"{entry.name}/" if entry.is_dir() else entry.name

    def open_output(
        self, path: str, *, part_bytes: int | None = None, if_match: str | None = None
    ) -> LocalOutput:
        del part_bytes
        return LocalOutput(path, if_match)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        output = LocalOutput(path, if_match)
        try:
            output.write(data)
            return output.commit(if_absent=if_absent)
        finally:
            output.abort()

    def copy(self, source: str, target: str) -> ObjectInfo:
        """A second name of the same file, which costs no bytes, where the filesystem has such."""
        with naming(target):
            make_folder(os.path.dirname(target))
            try:
                os.link(source, target)
            except OSError as fault:
                if fault.errno not in NO_LINKS:
                    raise
            else:
                sync_folder(os.path.dirname(target))
                return described(target, os.stat(target))
        return copied_through(self, source, target)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with naming(path), contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def delete_version(self, path: str, etag: str | None) -> None:
        if etag is None:
            self.delete([path])
            return
        with naming(path), contextlib.suppress(FileExistsError), unchanged(path, etag):
            os.unlink(path)

    def pending_uploads(self, folder: str, *, deep: bool = True) -> builtins.list[PendingUpload]:
        with naming(folder):
            temporary = sorted(files_below(folder, temporary=True, deep=deep))
        return [found for path in temporary if (found := being_written(path)) is not None]

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self.delete(upload.token for upload in uploads)


class LocalOutput:
    """A file being written under a temporary name. It is unbuffered: a forked child that ends would
    write its copy of a buffer once more."""

    _done = True
    """Until the file is open."""

    def __init__(self, path: str, if_match: str | None) -> None:
        self._owner = Owner()
        self._path = path
        self._if_match = if_match
        # through a symbolic link, so that the link survives and its target is replaced
        self._final = os.path.realpath(path)
        self._temporary = temporary_path(self._final)
        with naming(path):
            refuse_special(self._final)
            make_folder(os.path.dirname(self._final))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._temporary, flags, 0o666)  # less the umask, like open()
            self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._done = False

    def write(self, data: BytesLike) -> None:
        self._check("write")
        with naming(self._path):
            write_all(self._file, data)

    def commit(self, *, if_absent: bool = False, crc32c: int | None = None) -> ObjectInfo:
        del crc32c  # a filesystem verifies nothing
        self._check("commit")
        with naming(self._path):
            os.fsync(self._file.fileno())
            info = described(self._path, os.fstat(self._file.fileno()))
            self._file.close()
            self._place(if_absent)
            self._done = True
            sync_folder(os.path.dirname(self._final))
        return info

    def _place(self, if_absent: bool) -> None:
        if self._if_match is not None:
            with unchanged(self._path, self._if_match):
                os.replace(self._temporary, self._final)
        elif if_absent:
            rename_if_absent(self._temporary, self._final)
        else:
            os.replace(self._temporary, self._final)

    def abort(self) -> None:
        if self._done or not self._owner.is_here:
            return
        self._done = True
        self._file.close()
        with naming(self._path), contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def __del__(
        self,
        unlink: Callable[[str], None] = os.unlink,
        suppress: type[contextlib.suppress] = contextlib.suppress,
    ) -> None:
        if not self._done and self._owner.is_here:
            self._done = True
            self._file.close()
            with suppress(OSError):
                unlink(self._temporary)  # which waits for nothing but the disk

    def _check(self, action: str) -> None:
        self._owner.check(f"{self._path}: this file being written")
        if self._done:
            raise ValueError(f"{self._path}: {action}() after commit() or abort()")


def write_all(file: IO[bytes], data: BytesLike) -> None:
    """Write all of ``data`` to an unbuffered file, which may take less at a time."""
    left = memoryview(data).cast("B")
    while len(left):
        left = left[file.write(left) :]


NOT_REGULAR = "not a regular file"
"""A pipe or a device can't be read by ranges, nor replaced."""


def described(path: str, status: os.stat_result) -> ObjectInfo:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISFIFO(status.st_mode):
        words = (
            f"{NOT_REGULAR}; write it to a file first, or in Python read an open one: "
            "RecordReader(sys.stdin.buffer)"
        )
        raise OSError(errno.EINVAL, words, path)
    etag = etag_of(status.st_ino, status.st_mtime_ns & 0xFFFF_FFFF_FFFF_FFFF, status.st_size)
    return ObjectInfo(path, status.st_size, etag, modified=status.st_mtime)


def etag_of(inode: int, changed: int, size: int) -> str:
    """The etag of a file, as ext/tensorflow/ops/op_records.c has it. A file is only ever replaced
    by a new inode, or changed in place at a new time (nanoseconds modulo 2^64)."""
    return f"{inode:x}-{changed:x}-{size:x}"


def being_written(temporary: str) -> PendingUpload | None:
    """None if it has gone since it was listed."""
    folder, name = os.path.split(temporary)
    try:
        changed = os.stat(temporary).st_mtime
    except FileNotFoundError:
        return None
    return PendingUpload(os.path.join(folder, final_name(name) or ""), temporary, changed)


def described_file(path: str) -> ObjectInfo | None:
    """None if it is no regular file, or has gone since it was listed."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return described(path, status) if stat.S_ISREG(status.st_mode) else None


def read_range(path: str, start: int, stop: int, version: Version) -> memoryview:
    """Read into pooled memory. Fresh pages for every range would cost more than reading."""
    with naming(path):
        descriptor, version = open_version(path, version)
        try:
            size = opened(path, descriptor, version)
            buffer = memoryview(Buffer(max(min(stop, size) - start, 0)))
            if fill(buffer, descriptor, start) < len(buffer):  # cut since
                raise version.replaced(path)
            return buffer
        finally:
            os.close(descriptor)


def open_version(path: str, version: Version) -> tuple[int, Version]:
    """The file, open for reading, wherever it is by now, and the version that it must have."""
    while True:
        at, expected = version.now or (path, version)
        try:
            return os.open(at, READING), expected
        except FileNotFoundError as missing:
            found = _same_file(path, version.etag)
            if found is not None:
                return os.open(found, READING), version
            version.move(LocalStore("file", {}, Retry()), at, missing)


def _same_file(path: str, etag: str | None) -> str | None:
    """Another name, in the same folder, of the file that had this path and this etag: a file keeps
    its etag when it gets another name."""
    if etag is not None:
        inode = int(etag.partition("-")[0], 16)
        with contextlib.suppress(OSError), os.scandir(os.path.dirname(path) or ".") as entries:
            for entry in entries:
                if entry.inode() == inode:
                    info = described_file(entry.path)
                    if info is not None and info.etag == etag:
                        return entry.path
    return None


def opened(path: str, descriptor: int, version: Version) -> int:
    """Return the size of a file just opened, and check that it is the version to read."""
    info = described(path, os.fstat(descriptor))
    version.hold(info.etag, path)
    return info.size


def pieces_cached(
    path: str, pieces: Sequence[tuple[int, int]], version: Version, *, may_end: bool = False
) -> memoryview | None:
    """Return the pieces of a file, one behind the other, if all of them are in the page cache, else
    None. ``may_end``: the file may end in the last one."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    with contextlib.suppress(OSError):  # which read_range meets again and reports
        descriptor, version = open_version(path, version)
        try:
            status = os.fstat(descriptor)
            version.hold(described(path, status).etag, path)
            flags = 0 if status.st_dev == memory_device() else os.RWF_NOWAIT
            sizes = [stop - start for start, stop in pieces]
            if may_end:
                sizes[-1] = max(0, min(sizes[-1], status.st_size - pieces[-1][0]))
            buffer = memoryview(Buffer(sum(sizes)))
            at = 0
            for (start, _), size in zip(pieces, sizes, strict=True):
                if not size:
                    return None
                if os.preadv(descriptor, [buffer[at : at + size]], start, flags) != size:
                    return None
                at += size
            return buffer
        finally:
            os.close(descriptor)
    return None


@cache
def memory_device() -> int | None:
    """The device of Linux's shared memory, which waits for no disk. It does not know the flag that
    asks for what is there at once."""
    try:
        return os.stat("/dev/shm").st_dev if os.path.ismount("/dev/shm") else None
    except OSError:
        return None


def fill(buffer: memoryview, descriptor: int, start: int) -> int:
    """Read until the buffer is full or the file ends; returns the bytes read.

    One preadv may read less than there is: it stops at 2 GiB, or at a signal.
    """
    filled = 0
    while filled < len(buffer):
        count = os.preadv(descriptor, [buffer[filled:]], start + filled)
        if count == 0:
            break
        filled += count
    return filled


def files_below(folder: str, *, temporary: bool = False, deep: bool = True) -> Iterator[str]:
    """Regular files at any depth: objects, or (``temporary``) what is still being written."""
    for parent, folders, names in os.walk(folder, onerror=unless_missing):
        if not deep:
            folders.clear()
        for name in names:
            path = os.path.join(parent, name)
            if (final_name(name) is not None) == temporary and os.path.isfile(path):
                yield path


def refuse_unreadable(path: str) -> None:
    """PermissionError if the folder of ``path`` can't be listed: a glob takes it for empty."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.scandir(os.path.dirname(path)).close()


def unless_missing(fault: OSError) -> None:
    """os.walk drops errors unless this raises them. A missing folder counts as empty."""
    if not isinstance(fault, (FileNotFoundError, NotADirectoryError)):
        raise fault


def refuse_special(path: str) -> None:
    """A rename over /dev/null or a FIFO would replace the device by a file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        words = f"{NOT_REGULAR}; write a file, and send that there"
        raise OSError(errno.EINVAL, words, path)
    described(path, status)  # IsADirectoryError


def make_folder(folder: str) -> None:
    """Like os.makedirs, durable."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
        sync_folder(parent)


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno != errno.EINVAL:  # filesystems that cannot sync folders
            raise
    finally:
        os.close(descriptor)


def rename_if_absent(source: str, target: str) -> None:
    """Put the file in place by a hard link. It fails if the name is taken; a rename would not."""
    try:
        os.link(source, target)
    except OSError as fault:
        if fault.errno not in NO_LINKS:
            raise
        # No hard links here: claim the name with an empty file.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        os.replace(source, target)
    else:
        os.unlink(source)


@contextlib.contextmanager
def unchanged(path: str, etag: str) -> Iterator[None]:
    """Hold the right to replace the file with this etag, or raise FileExistsError. A writer locks
    the file that it found. The second writer that gets the lock finds another file at the path.
    There is no lock file, so none is left behind.
    """
    with contextlib.ExitStack() as stack:
        try:
            current = stack.enter_context(open(path, "rb+"))
            fcntl.flock(current, fcntl.LOCK_EX)
            named, held = os.stat(path), os.fstat(current.fileno())
        except FileNotFoundError:
            held = None
        if held is None or not os.path.samestat(named, held) or described(path, held).etag != etag:
            raise FileExistsError(errno.EEXIST, "the file is not the one that was read", path)
        yield
