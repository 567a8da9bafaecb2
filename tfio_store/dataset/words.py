"""How many there are of something, in a sentence."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, what: str) -> str:
    """``1 shard``, ``1,024 shards``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
