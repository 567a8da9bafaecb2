"""Ranges of remote objects kept on a local disk, from one epoch to the next.

`LocalCache` is what a user asks for: where they are kept, and how many bytes of them. `folder.py`
has the files and which ranges there are, `room.py` how much there may be, and `store.py` a `Store`
that reads through all that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["LocalCache", "cache_of"]


@dataclass(frozen=True, slots=True)
class LocalCache:
    """A folder on a local disk that keeps what readers fetch from a distant store.

    It keeps ranges of objects as they are stored, so compressed shards stay compressed. Each is
    kept for one version of its object: a reader of a replaced object fetches the new one. It is
    checked by CRC32C at each use, and a damaged range is fetched again. Any number of
    processes may share a folder, and any of them may be killed. When there is no room for more, the
    ranges unused for longest go. If the disk is full, nothing more is kept, with one warning, and
    reading goes on. The folder is made for its owner alone, and holds data, but no names of objects
    and no credentials. Delete it whenever no reader runs.

    An epoch in order through a dataset larger than the cache finds nothing in it: give it room for
    the whole dataset, or for a worker's share.

    Args:
        path (str | PathLike): The folder, which is made if there is none. One that is there must
            belong to the user, and nobody else may write into it.
        max_bytes (int): How many bytes to keep. All who share a folder should pass the same.
            Default 64 GiB.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The path is empty or a URL, or ``max_bytes`` is less than 1.

    Example:
        >>> cache = tfs.LocalCache("~/.cache/tfio_store", max_bytes=10 << 30)
        >>> reader = tfs.RecordReader(
        ...     "s3://b/train", storage=tfs.Storage(cache=cache)
        ... )  # doctest: +SKIP
    """

    path: str | os.PathLike[str]
    """Absolute, and a str, once it is made."""
    max_bytes: int = 64 << 30

    def __post_init__(self) -> None:
        path = os.fspath(self.path) if isinstance(self.path, os.PathLike) else self.path
        if not isinstance(path, str):
            raise TypeError(f"LocalCache(path=): pass a folder's path, not {type(path).__name__}")
        if not path or "://" in path:
            raise ValueError(f"LocalCache(path={path!r}): pass the path of a local folder")
        if not isinstance(self.max_bytes, int) or isinstance(self.max_bytes, bool):
            kind = type(self.max_bytes).__name__
            raise TypeError(f"LocalCache(max_bytes=): pass a number of bytes, not {kind}")
        if self.max_bytes < 1:
            raise ValueError(f"LocalCache(max_bytes={self.max_bytes}): pass 1 or more")
        object.__setattr__(self, "path", os.path.abspath(os.path.expanduser(path)))


def cache_of(cache: str | os.PathLike[str] | LocalCache) -> LocalCache:
    """The value of a ``cache=`` argument. TypeError or ValueError that names it."""
    if isinstance(cache, LocalCache):
        return cache
    if not isinstance(cache, (str, os.PathLike)):
        raise TypeError(
            f"cache= takes a folder's path or a tfio_store.LocalCache, not {type(cache).__name__}"
        )
    return LocalCache(os.fspath(cache))
