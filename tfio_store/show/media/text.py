"""Text of records, made harmless to look at: no control characters, no turned reading direction."""

from __future__ import annotations

import re
import unicodedata

import numpy as np

__all__ = ["MOST_LETTERS", "excerpt", "is_text", "shown_value", "visible"]

MOST_LETTERS = 500

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Characters that no text has. (Line ends, tabs and a terminal's colours some have.)"""

_KEPT = "\n\t"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that are not seen, or that change how others are."""

_JOINERS = "\u200d\u200c\ufe0f"
"""Of emoji and of scripts that join letters: they are as harmless as they are needed."""


def visible(text: str) -> str:
    """The text, where characters that can't be seen stand as their number: ``\\u202e``. Line ends
    and tabs stay."""
    if text.isprintable():
        return text
    return "".join(map(_seen, text))


def _seen(letter: str) -> str:
    if letter in _KEPT or letter in _JOINERS or unicodedata.category(letter) not in _HIDDEN:
        return letter
    code = ord(letter)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def excerpt(data: bytes, most: int = MOST_LETTERS) -> tuple[str, bool]:
    """The beginning of a text in UTF-8, and whether it is not all. Bytes that are no text come as
    hexadecimal digits."""
    head = data[: 4 * most + 4]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(head) == len(data) or error.start < len(head) - 3:
            return _hex(data, most)
        text = head[: error.start].decode()
    short = len(text) > most or len(head) < len(data)
    text = visible(text[:most])
    if len(text) > most:  # characters that were made visible
        text, short = text[:most], True
    return text, short


def _hex(data: bytes, most: int) -> tuple[str, bool]:
    room = max(1, (most - 3) // 2)
    return f"0x{data[:room].hex()}" + "…" * (len(data) > room), len(data) > room


def is_text(data: bytes) -> bool:
    """Whether all of it is UTF-8, without characters that no text has."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def shown_value(value: object, most: int = 100) -> str:
    """A value as `Top.value` and captions have it."""
    if isinstance(value, bytes):
        text, short = excerpt(value, most)
        return text + "…" * (short and not text.endswith("…"))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    return str(value)
