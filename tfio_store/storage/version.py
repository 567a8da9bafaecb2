"""The version of an object that a reader reads, and the check that an answer is of it."""

from __future__ import annotations

import errno

__all__ = ["ConditionRefusedError", "ReplacedError", "Version"]


class ReplacedError(OSError):
    """The object at this path is no longer the one that reading began with (errno ESTALE)."""


class ConditionRefusedError(PermissionError):
    """The store would not replace an object although it is the very one that was asked for."""

    @classmethod
    def of(cls, url: str) -> ConditionRefusedError:
        return cls(
            errno.EPERM,
            "the store refuses to replace this object, although nobody else has: it is leased or "
            "locked, or the store's conditions do not hold here (Ceph's versioned buckets)",
            url,
        )


class Version:
    """One version of an object, known by its etag. The first answer tells the etag, and from then
    on it stays. All ranges that belong together share one Version, so that none has to wait: the
    first answer decides, and the others must agree. It pickles with what is known.
    """

    __slots__ = ("_known", "end")

    def __init__(self, etag: str | None = None) -> None:
        self._known = {} if etag is None else {"etag": etag}
        self.end: int | None = None
        """Where the object ended, if a reader found it shorter than expected."""

    @classmethod
    def of(cls, etag: str | Version | None) -> Version:
        return etag if isinstance(etag, Version) else cls(etag)

    @property
    def etag(self) -> str | None:
        return self._known.get("etag")

    def hold(self, etag: str | None, url: str) -> None:
        """Take the etag of an answer. Raises ReplacedError if another etag is known. An answer
        without an etag tells nothing."""
        if etag is not None and self._known.setdefault("etag", etag) != etag:  # setdefault: atomic
            raise self.replaced(url)

    def replaced(self, url: str) -> ReplacedError:
        return ReplacedError(
            errno.ESTALE,
            "the object was replaced since reading began; open it again to read the new one",
            url,
        )

    def __repr__(self) -> str:
        return f"Version({self.etag!r})"
