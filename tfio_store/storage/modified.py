"""When an object was last written: stores and filesystems tell a date, seconds, or a text."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

__all__ = ["seconds_of"]


def seconds_of(told: object) -> float | None:
    """Seconds since 1970, UTC. None for what tells no time."""
    if isinstance(told, str):
        told = _read(told)
    if isinstance(told, datetime):
        known = told if told.tzinfo is not None else told.replace(tzinfo=timezone.utc)
        return known.timestamp()
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not math.isfinite(told):
        return None
    return float(told)


def _read(text: str) -> datetime | None:
    """ISO 8601, or the date of an HTTP header."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
