"""Answers of HTTP services that this library asks without a client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "StatusError"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def expect(self, *statuses: int) -> Answer:
        """Itself, if its status is one of these. Raises StatusError."""
        if self.status not in statuses:
            raise StatusError(self.status, self.body[:500].decode(errors="replace"))
        return self

    def document(self) -> dict[str, Any]:
        """The JSON object that it carries. Raises ValueError for anything else."""
        found = json.loads(self.body)
        if not isinstance(found, dict):
            raise ValueError(f"{type(found).__name__} in place of an object")
        return found


class StatusError(Exception):
    """The answer has a status that the request must not end with."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status

    def __str__(self) -> str:
        return f"HTTP status {self.status}: {self.args[1]}"
