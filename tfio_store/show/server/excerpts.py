"""Values as a page shows them: short, and never as markup.

All of them go out as text: JSON's numbers would lose the end of an int64, and have no NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfio_store.show.server.content import Values

__all__ = ["excerpt", "numbers", "short"]

Json = dict[str, Any]

_CONTROL = {*range(32), *range(127, 160)} - {9, 10, 13}
"""No text has these."""


def excerpt(value: memoryview, most: int) -> Json:
    """A byte string: as ``text`` of at most ``most`` characters, or as ``hex`` of its first
    bytes. ``cut`` says that there is more."""
    text = _text(value, most)
    if text is not None:
        return {"nbytes": len(value), "text": text[:most], "cut": len(text) > most}
    shown = max(16, most // 4)
    return {"nbytes": len(value), "hex": value[:shown].hex(" ", 1), "cut": len(value) > shown}


def _text(value: memoryview, most: int) -> str | None:
    """The beginning of a text, with a character more than ``most`` if there is more; None of what
    is none."""
    head = bytes(value[: 4 * most + 4])
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.end < len(head) or len(head) == len(value):
            return None
        text = head[: error.start].decode()  # cut inside of its last character
    return None if any(ord(each) in _CONTROL for each in text) else text[: most + 1]


def numbers(values: np.ndarray[Any, Any]) -> list[str]:
    """Each in the fewest digits that tell it."""
    shown: list[str] = values.astype("U32").tolist()
    return shown


def short(values: Values, most: int) -> str:
    """All values of a feature in one cell of about ``most`` characters."""
    count = len(values)
    if values.numbers is not None:
        text = ", ".join(numbers(values.numbers[: max(1, most // 3)]))
        if len(text) <= most and count <= max(1, most // 3):
            return text
        return f"{text[:most].rpartition(', ')[0] or text[:most]}, … {count:,} values"
    if count == 0:
        return ""
    first = excerpt(values.view(0), most)
    text = " ".join(first["text"].split()) if "text" in first else f"{first['nbytes']:,} bytes"
    more = "…" if "text" in first and first["cut"] else ""
    return f"{text}{more}" + (f" and {count - 1:,} more" if count > 1 else "")
