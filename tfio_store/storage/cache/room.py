"""How many bytes a cache's folder holds, as its processes agree on it, and what goes for more.

The total stands in the file ``total``. Who adds to it holds the lock of that file, which the system
takes back from a process that is killed. A killed writer may leave bytes in the total that nobody
wrote. They are gone after the next look at the files themselves.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Room"]

_TOTAL = struct.Struct("<Q")

KEPT_SHARE = 0.9
"""How much of the limit is left after old files went: a look at all files is dear."""

STALE_SECONDS = 3600.0
"""A temporary file this old belongs to nobody."""


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes in ``files``, at most ``limit``, beside what is being written in ``temporary``."""

    files: str
    temporary: str
    total: str
    limit: int

    def take(self, nbytes: int) -> None:
        """Make room for ``nbytes`` more, and count them."""
        with self._locked() as descriptor:
            known = os.pread(descriptor, _TOTAL.size, 0)
            whole = len(known) == _TOTAL.size
            held = _TOTAL.unpack(known)[0] if whole else sum(size for _, size, _ in self._found())
            if held + nbytes > self.limit:
                held = self._after_leaving(int(self.limit * KEPT_SHARE) - nbytes)
            os.pwrite(descriptor, _TOTAL.pack(held + nbytes), 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = os.open(self.total, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _after_leaving(self, most: int) -> int:
        """Delete the files unused for longest until at most ``most`` bytes are left."""
        self.sweep()
        found = sorted(self._found())
        held = sum(size for _, size, _ in found)
        for _, size, path in found:
            if held <= most:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            held -= size
        return held

    def sweep(self) -> None:
        """Delete what killed writers left."""
        for entry in scanned(self.temporary):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > STALE_SECONDS:
                    os.unlink(entry.path)

    def _found(self) -> Iterator[tuple[int, int, str]]:
        """When it was used last, its bytes, and the path, of each file."""
        for group in scanned(self.files):
            for folder in scanned(group.path):
                for entry in scanned(folder.path):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat()
                        yield status.st_mtime_ns, status.st_size, entry.path


def scanned(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
