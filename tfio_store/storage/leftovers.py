"""Names of objects that are still being written, where a store has folders and renames."""

from __future__ import annotations

import posixpath
import re
import secrets

__all__ = ["final_name", "temporary_path"]

NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)

LONGEST_NAME = 255 - len("..0123456789abcdef.tmp")
"""Bytes of a name that leave room for the rest in a file name of 255."""


def temporary_path(path: str) -> str:
    """``folder/name`` -> ``folder/.name.RANDOM.tmp``: hidden, and a rename away from its place."""
    folder, name = posixpath.split(path)
    short = name.encode(errors="surrogateescape")[:LONGEST_NAME]
    kept = short.decode(errors="ignore") if len(short) == LONGEST_NAME else name
    return posixpath.join(folder, f".{kept}.{secrets.token_hex(8)}.tmp")


def final_name(name: str) -> str | None:
    """The name that a temporary name stands for; None when it is not one of ours."""
    found = NAME.fullmatch(name)
    return found["name"] if found else None
