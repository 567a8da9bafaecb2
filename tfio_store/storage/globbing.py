"""Shell patterns over the flat names of an object store."""

from __future__ import annotations

import re

__all__ = ["literal_prefix", "matcher"]


def literal_prefix(pattern: str) -> str:
    """What every match begins with: the pattern up to its first ``*``, ``?`` or ``[``."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def matcher(pattern: str) -> re.Pattern[str]:
    """``*``, ``?``, ``[seq]`` within a name, ``**`` across folders, as fsspec's glob does."""
    from fsspec.utils import glob_translate

    return re.compile(glob_translate(pattern))
