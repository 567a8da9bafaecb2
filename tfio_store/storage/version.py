"""Which version of an object a reader reads, and whether an answer is of that version."""

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
    """One version of an object, told by its etag: not known before the first answer, held from then
    on.

    All ranges that belong together share one, so that none waits to learn it: the first answer
    decides, and the others must agree. Pickles with what is known.
    """

    __slots__ = ("_known", "end")

    def __init__(self, etag: str | None = None) -> None:
        self._known = {} if etag is None else {"etag": etag}
        self.end: int | None = None
        """Where a reader found the object to end, before it was expected to."""

    @classmethod
    def of(cls, etag: str | Version | None) -> Version:
        return etag if isinstance(etag, Version) else cls(etag)

    @property
    def etag(self) -> str | None:
        return self._known.get("etag")

    def hold(self, etag: str | None, url: str) -> None:
        """Take the etag of an answer. Raises ReplacedError if another one is held. Of an answer
        without one nothing can be said."""
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
