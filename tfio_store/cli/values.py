"""Values of records as JSON, and as cells of a table."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from tfio_store.cli.output import human_bytes

__all__ = ["as_cell", "as_json_line", "as_json_value"]

_LONGEST = 200
_MOST_ITEMS = 8


def as_json_line(row: Mapping[str, Any], how: str) -> str:
    """One line of JSON. What JSON has no number for becomes text."""
    return json.dumps({name: as_json_value(row[name], how) for name in row}, ensure_ascii=False)


def as_json_value(value: Any, how: str) -> Any:
    """``how``: what becomes of byte strings."""
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


def as_cell(value: Any, how: str) -> str:
    """A short text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return _bytes_cell(value, how)
    if isinstance(value, str):
        return _shortened(value)
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list):
        items = ", ".join(as_cell(item, how) for item in value[:_MOST_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MOST_ITEMS else ""
        return _shortened(f"[{items}{more}]")
    return str(value)


def _bytes_cell(value: bytes, how: str) -> str:
    if how == "base64":
        return _shortened(base64.b64encode(value).decode())
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if how == "size" or not text.isprintable():
        return f"<{human_bytes(len(value))}>"
    return _shortened(text)


def _shortened(text: str) -> str:
    # no character may move a terminal's cursor
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
