"""What a URL says of a place beside the path: an account, a host, or the rest of a chain.

A store's paths lack it. It is kept, so that a path becomes a URL again which opens the same place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["AzureOrigin", "Origin", "Surroundings", "surroundings"]


class Origin(Protocol):
    """Hashable and picklable."""

    def url(self, path: str) -> str:
        """The URL that opens this path. It may hold a password."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The text around a path: ``ftp://host`` before ``/a/b``, or ``zip://`` before ``a`` and
    ``::s3://bucket/x.zip`` behind it."""

    before: str = field(repr=False)  # which may hold a password
    after: str = field(repr=False)

    def url(self, path: str) -> str:
        return f"{self.before}{path}{self.after}"


@dataclass(frozen=True, slots=True)
class AzureOrigin:
    """The account of ``abfss://container@account.dfs.core.windows.net/name``."""

    scheme: str
    host: str

    def url(self, path: str) -> str:
        container, slash, name = path.partition("/")
        return f"{self.scheme}://{container}@{self.host}{slash}{name}"


def surroundings(url: str, path: str) -> Surroundings | None:
    """What is around ``path`` in ``url``. None if the path is not a part of it as it stands."""
    start = url.index("://") + len("://")
    ends = [found for mark in ("::", "?", "#") if (found := url.find(mark, start)) >= 0]
    for end in [*ends, len(url)]:  # names may hold those marks
        before = _before(url[start:end].rstrip("/"), path)
        if before is not None:
            return Surroundings(url[:start] + before, url[end:])
    return None


def _before(named: str, path: str) -> str | None:
    if not path.rstrip("/"):  # the root: a slash stands before what lies in it
        return named if path or not named else f"{named}/"
    path = path.rstrip("/")
    if named.endswith(path):
        return named.removesuffix(path)
    return "" if f"/{named}" == path else None  # some filesystems put a slash before all paths
