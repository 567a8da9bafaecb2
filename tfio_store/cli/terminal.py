"""What a terminal may be sent: no character of a dataset moves its cursor or renames its window."""

from __future__ import annotations

from typing import Any

__all__ = ["for_stream", "printable"]


def printable(text: str) -> str:
    """``text`` with a sign in place of each character that a terminal would act on."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def for_stream(text: str, stream: Any) -> str:
    """Lines as ``stream`` may have them: made `printable` if it is a terminal. Tabs, which part
    what a line holds, stay."""
    if not stream.isatty():
        return text
    return "".join(each if each in "\n\t" else printable(each) for each in text)
