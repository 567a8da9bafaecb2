"""How many records are shuffled together: in blocks, records or bytes. No TensorFlow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["ShuffleWindow"]

DEFAULT_BLOCKS = 16
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_TEXT = re.compile(rf"([0-9][0-9_]*) ?(records?|{'|'.join(_BYTES)})")


@dataclass(frozen=True, slots=True)
class ShuffleWindow:
    """So many of a unit: "blocks", "records", or "bytes" before compression."""

    amount: int
    unit: str

    @classmethod
    def of(cls, shuffle: bool | int | str) -> ShuffleWindow:
        """What ``shuffle=`` asks for; ValueError if that is nothing."""
        if shuffle is True:
            return cls(DEFAULT_BLOCKS, "blocks")
        found = cls._of_text(shuffle) if isinstance(shuffle, str) else cls(int(shuffle), "blocks")
        if found is None or found.amount < 1:
            raise ValueError(
                "shuffle= takes True, 1 or more blocks, or a text such as '10000 records' or "
                f"'64 MiB', not {shuffle!r}"
            )
        return found

    @classmethod
    def _of_text(cls, text: str) -> ShuffleWindow | None:
        parts = _TEXT.fullmatch(text)
        if parts is None:
            return None
        amount, unit = int(parts[1].replace("_", "")), parts[2]
        if unit in _BYTES:
            return cls(amount * _BYTES[unit], "bytes")
        return cls(amount, "records")

    def blocks(self, count: int, records: int, nbytes: int) -> Fraction:
        """As blocks, of which ``count`` have so many ``records`` and ``nbytes``: not less than
        one."""
        whole = {"blocks": count, "records": records, "bytes": nbytes}[self.unit]
        return max(Fraction(1), Fraction(self.amount * count, max(1, whole)))
