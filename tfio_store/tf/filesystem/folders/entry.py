"""What a folder holds: files, and folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Entry", "by_name"]


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
