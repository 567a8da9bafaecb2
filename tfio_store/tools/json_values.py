"""Values of records as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["as_json_line", "as_json_value"]


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
