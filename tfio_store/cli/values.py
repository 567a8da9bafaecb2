"""Values of records as cells of a table."""

from __future__ import annotations

import base64
from typing import Any

from tfio_store.cli.failures import printable
from tfio_store.cli.output import human_bytes
from tfio_store.show.media_types import image_size, is_image, media_type

__all__ = ["as_cell"]

_LONGEST = 200
_MOST_ITEMS = 8


def as_cell(value: Any, how: str) -> str:
    """A short text. What a record lacks is null, and a feature without values []."""
    if value is None:
        return "null"
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
    found = media_type(value)
    if found is not None and is_image(found):
        kind, size = found.removeprefix("image/").upper(), image_size(value)
        pixels = "" if size is None else f" {size[0]}x{size[1]}"
        return f"<{kind}{pixels}, {human_bytes(len(value))}>"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if how == "size" or not text.isprintable():
        return f"<{human_bytes(len(value))}>"
    return _shortened(text)


def _shortened(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
