"""Values of records as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["JsonNumbers", "as_json_line", "as_json_value"]


def as_json_line(row: Mapping[str, Any], how: str = "utf8") -> str:
    """One line of JSON. What JSON has no number for becomes text."""
    return json.dumps({name: as_json_value(row[name], how) for name in row}, ensure_ascii=False)


def as_json_value(value: Any, how: str = "utf8") -> Any:
    """``how``: what becomes of byte strings. "utf8" makes text of those that are UTF-8, and
    ``{"base64": ...}`` of others; "base64" makes base64 of all; "size" tells their lengths."""
    if isinstance(value, list):
        return [as_json_value(item, how) for item in value]
    if isinstance(value, bytes):
        return _bytes(value, how)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _bytes(value: bytes, how: str) -> Any:
    if how == "size":
        return {"bytes": len(value)}
    encoded = base64.b64encode(value).decode()
    if how == "base64":
        return encoded
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": encoded}


class JsonNumbers:
    """Refuses columns that hold no number but NaN and infinities. Their texts would be read back as
    texts, where those among other numbers are read as numbers."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._untold: set[str] = set()

    def see(self, row: Mapping[str, Any]) -> None:
        for name in row.keys() - self._told:
            kinds = set(_kinds(row[name]))
            if True in kinds:
                self._told.add(name)
                self._untold.discard(name)
            elif False in kinds:
                self._untold.add(name)

    def check(self) -> None:
        """ValueError that names such a column."""
        for name in sorted(self._untold):
            raise ValueError(
                f"column {name!r} holds no number but NaN and infinities, which JSON lines can't "
                "tell from texts; write Parquet or Arrow, or leave it out by columns="
            )


def _kinds(value: Any) -> Iterator[bool]:
    """Of each value in nested lists, whether JSON tells what it is."""
    if isinstance(value, list):
        for item in value:
            yield from _kinds(item)
    elif value is not None:
        yield not (isinstance(value, float) and not math.isfinite(value))
