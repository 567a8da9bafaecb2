"""How many there are of something, in a sentence."""

from __future__ import annotations

__all__ = ["counted", "held"]


def counted(count: int, what: str) -> str:
    """``1 shard``, ``1,024 shards``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def held(records: int | None, files: int, what: str = "shard") -> str:
    """``3 records in 1 shard``; ``1 shard`` if nobody has counted the records."""
    within = counted(files, what)
    return within if records is None else f"{counted(records, 'record')} in {within}"
