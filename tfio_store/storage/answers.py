"""What the answers of HTTP services say: their status, their code, and their reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "StatusError", "code_of", "message_in", "reason_of", "status_of"]

LONGEST_REASON = 500
"""Characters."""


# Answers of HTTP services that this library asks without a client.


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def expect(self, *statuses: int) -> Answer:
        """Itself, if its status is one of these. Raises StatusError."""
        if self.status not in statuses:
            said = message_in(self.body.decode(errors="replace"))
            raise StatusError(self.status, said[:LONGEST_REASON])
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


def code_of(fault: BaseException) -> str | None:
    """The error code in an answer of S3 (botocore) or Azure."""
    response = getattr(fault, "response", None)
    error = response.get("Error") if isinstance(response, dict) else None
    if isinstance(error, dict):
        return error.get("Code")
    code = getattr(fault, "error_code", None)
    return None if code is None else str(getattr(code, "value", code))


def status_of(fault: BaseException) -> int | None:
    """The HTTP status that a client's exception carries, or None."""
    response = getattr(fault, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        candidates = (
            getattr(fault, "status", None),  # aiohttp
            getattr(fault, "status_code", None),  # azure
            getattr(fault, "code", None),  # gcsfs
            getattr(response, "status_code", None),  # requests
        )
        found = next((value for value in candidates if value is not None), None)
    try:
        return int(found) if found is not None else None
    except (TypeError, ValueError):
        return None


DETAIL = re.compile(r"(?m)^\s*authenticationerrordetail:\s*(.+)$|^.*?(AADSTS\d+:.+)$", re.I)
"""The lines of Azure's answers that say why."""

INVALID = re.compile(r"Operation returned an invalid status '(.+)'")
"""What Azure's SDK makes of an answer without a body."""


def reason_of(fault: BaseException) -> str | None:
    """The store's own words on why it refuses, in one line. They may show a secret."""
    if isinstance(fault, OSError):  # of a filesystem, or of ours
        return None
    response = getattr(fault, "response", None)
    if isinstance(response, dict):  # botocore
        text = response.get("Error", {}).get("Message")
    elif isinstance(fault, StatusError):
        text = fault.args[1]
    else:
        words = str(getattr(fault, "message", "") or fault)
        detail = DETAIL.search(words)
        first = words.strip().partition("\n")[0]
        found = INVALID.fullmatch(first)
        first = found[1] if found else first
        why = detail and (detail[1] or detail[2])
        text = why if detail and detail[2] else " ".join(filter(None, (first, why)))
    line = " ".join(str(text or "").split())
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"


def message_in(body: str) -> str:
    """Of an answer in JSON or XML, what is for people. Of any other, all."""
    try:
        error = json.loads(body)["error"]
        return str(error if isinstance(error, str) else error["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        found = re.findall(r"<(?:Code|Message|Details)>([^<]+)", body)
        return ": ".join(found) if found else body
