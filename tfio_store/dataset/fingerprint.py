"""`Fingerprint`: tells a writer's own object from another one of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Fingerprint"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """An object's name within the dataset's folder, its bytes, and their CRC32C.

    Size and CRC are None if the name alone proves whose it is.
    """

    name: str
    nbytes: int | None = None
    crc32c: int | None = None
    etag: str | None = None
    """The version that the store reported to the writer; not kept."""

    def to_json(self) -> list[str | int | None]:
        return [self.name, self.nbytes, self.crc32c]

    @classmethod
    def from_json(cls, document: Any) -> Fingerprint:
        """ValueError for anything that `to_json` does not make."""
        if not isinstance(document, list) or len(document) != 3:
            raise ValueError("a fingerprint has a name, a size and a CRC32C")
        name, nbytes, crc32c = document
        if not isinstance(name, str):
            raise ValueError(f"a name is {type(name).__name__}, not a string")
        for number, limit in ((nbytes, 1 << 63), (crc32c, 1 << 32)):
            count = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (count and 0 <= number < limit):
                raise ValueError(f"{name!r}: {number!r} is no size or CRC32C")
        return cls(name, nbytes, crc32c)
