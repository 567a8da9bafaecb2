"""Where the bytes of an object stay for those who have opened it, once another generation of its
dataset has taken its place.

What readers find by a pattern leaves its name at once: it gets one that begins with ``_``, and that
tells its size and CRC32C. So whoever knows these finds it, and finds nothing else. An object whose
name begins with ``_`` already has a tag in it that no other one has.
"""

from __future__ import annotations

import re

__all__ = ["ASIDE", "aside", "facts_of", "hidden", "original"]

ASIDE = "-old"
_FACTS = re.compile(r"_.+\.([0-9a-f]{8})-([0-9a-f]{1,16})-old")


def hidden(path: str) -> str:
    """The path, with a ``_`` before the name."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}_{name}"


def aside(name: str, nbytes: int, crc32c: int) -> str:
    """The name, in the same folder, under which the bytes of an object stay."""
    if name.startswith("_"):
        return f"{name}{ASIDE}"
    return f"_{name}.{crc32c:08x}-{nbytes:x}{ASIDE}"


def original(name: str) -> str:
    """The name that an object had before it got the one that `aside` makes."""
    return name.removesuffix(ASIDE) if facts_of(name) is None else name[1:].rpartition(".")[0]


def facts_of(name: str) -> tuple[int, int] | None:
    """The size and the CRC32C that the name of an object tells that was set aside; None for any
    other name."""
    found = _FACTS.fullmatch(name)
    return None if found is None else (int(found[2], 16), int(found[1], 16))
