"""What a store tells of many objects: by listing them, where that takes less time than to ask for
each."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Sequence
from itertools import takewhile

from tfio_store.storage.store import ObjectInfo, Store

__all__ = ["LOOKS_AT_ONCE", "listed"]

LOOKS_AT_ONCE = 32
"""How many objects a caller asks for at a time."""

_LISTED_AT_ONCE = 1000
"""Objects that one request lists."""


def listed(store: Store, paths: Sequence[str], *, among: int) -> dict[str, ObjectInfo]:
    """What a listing of their folder tells of these objects, by path. It may leave some out.

    ``among``: about how many objects such a listing has. Nothing comes where to ask for each,
    `LOOKS_AT_ONCE` at a time, is faster, where a listing has its price, or where it is refused.
    """
    pages, rounds = among // _LISTED_AT_ONCE + 1, -(-len(paths) // LOOKS_AT_ONCE)
    first, last = min(paths, default=""), max(paths, default="")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    begin = "".join(letter for letter, _ in same)
    if not store.lists_cheaply or pages >= rounds or "/" not in begin:
        return {}
    with contextlib.suppress(OSError):
        return {info.path: info for info in store.glob(f"{glob.escape(begin)}*")}
    return {}
