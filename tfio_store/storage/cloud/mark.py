"""How the writer of an object knows it again when the answer to its own request was lost.

A store's "the condition does not hold", or "no such upload", may answer the second attempt at what
a first one did. Then the object carries the writer's mark, and the refusal is success.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

__all__ = ["Mark"]


class Mark:
    """A random text in the metadata of one object. No two writers have the same."""

    def __init__(self, key: str = "tfio-store-attempt") -> None:
        self._key = key
        self.text = secrets.token_hex(16)

    @property
    def metadata(self) -> dict[str, str]:
        """What the object is written with."""
        return {self._key: self.text}

    def is_on(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether an object with this metadata is this writer's. None: there is no object."""
        return metadata is not None and metadata.get(self._key) == self.text
