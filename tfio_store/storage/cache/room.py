"""How many bytes a cache's folder holds, as its processes agree on it, and what goes for more.

The total stands in the file ``total``. Who adds to it holds the lock of that file, which the system
takes back from a process that is killed. A file that is being written has its full length from the
start, so that who looks at the files themselves counts it too. A killed writer's file counts until
it is swept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Room"]

_TOTAL = struct.Struct("<Q")

KEPT_SHARE = 0.9
"""How much of the limit is left after old files went: a look at all files is dear."""

STALE_SECONDS = 3600.0
"""A temporary file this old has no living writer."""


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes in ``files``, at most ``limit``, beside what is being written in ``temporary``."""

    files: str
    temporary: str
    total: str
    limit: int

    def settle(self) -> None:
        """Leave what is too much: the limit may have been higher."""
        with self._taken(0):
            pass

    def begin(self, nbytes: int) -> str:
        """Make room for a file of ``nbytes``, count it, and create it in ``temporary``."""
        path = os.path.join(self.temporary, secrets.token_hex(12))
        with self._taken(nbytes):
            created(path, nbytes)
        return path

    @contextlib.contextmanager
    def _taken(self, nbytes: int) -> Iterator[None]:
        """Count ``nbytes`` more, unless the block fails."""
        with self._locked() as descriptor:
            known = os.pread(descriptor, _TOTAL.size, 0)
            whole = len(known) == _TOTAL.size
            held = _TOTAL.unpack(known)[0] if whole else self._held()
            if held + nbytes > self.limit:
                held = self._after_leaving(int(self.limit * KEPT_SHARE) - nbytes)
            yield
            os.pwrite(descriptor, _TOTAL.pack(held + nbytes), 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        # through a link a foreign file would get our total
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.total, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _after_leaving(self, most: int) -> int:
        """Delete the files unused for longest until at most ``most`` bytes are left, those that are
        being written among them."""
        self.sweep()
        held = self._held()
        for _, size, path in sorted(self._found()):
            if held <= most:
                break
            with contextlib.suppress(FileNotFoundError):
                try:
                    os.unlink(path)
                except IsADirectoryError:
                    continue  # somebody else's
            held -= size
        return held

    def sweep(self) -> None:
        """Delete what killed writers left."""
        oldest = (time.time() - STALE_SECONDS) * 1e9
        for used, _, path in described(self.temporary):
            if used < oldest:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _held(self) -> int:
        # in this order: a file that gets its name meanwhile is counted twice, and not missed
        writing = sum(size for _, size, _ in described(self.temporary))
        return writing + sum(size for _, size, _ in self._found())

    def _found(self) -> Iterator[tuple[int, int, str]]:
        for group in scanned(self.files):
            for folder in scanned(os.path.join(self.files, group)):
                yield from described(os.path.join(self.files, group, folder))


def created(path: str, nbytes: int) -> None:
    with open(path, "xb") as file:
        try:
            file.truncate(nbytes)
        except BaseException:
            os.unlink(path)
            raise


def described(folder: str) -> Iterator[tuple[int, int, str]]:
    """When it was used last, its bytes, and the path, of each file in a folder."""
    for name in scanned(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(path)  # a link that is not ours may lead nowhere
            yield status.st_mtime_ns, status.st_size, path


def scanned(folder: str) -> list[str]:
    """The names in a folder. None behind a link: what is there is somebody's own, and must not
    count, or go."""
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder, flags)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link that somebody put there
            raise
        return []
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)
