"""Checks of names and numbers, and how they are said in a sentence. No I/O."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.records.framing import FRAME_OVERHEAD


def check_name(name: str) -> str:
    """Return ``name``. ValueError unless it is a relative path that stays in its folder on every
    store, without what an HTTP server may decode (percent signs and the like).
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:  # a lone surrogate, which JSON can spell
        raise ValueError(f"{name!r} is not a name in UTF-8") from error
    parts = name.split("/")
    if re.search(r"[\x00-\x1f\x7f\\:?#%]", name) or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{name!r} is not a name inside the dataset's folder")
    if name.startswith("~"):
        raise ValueError(f"{name!r} begins with '~'")
    return name


def check_positive(argument: str, value: Any, *, also: str = "") -> None:
    """ValueError unless it is an integer of at least 1. ``also``: what else the caller takes."""
    number = whole_number(value)
    if number is None or number < 1:
        raise ValueError(f"{argument} must be a positive integer{also}, not {value!r}")


def whole_number(value: Any) -> int | None:
    """It as an int, of whichever library it is. None if it is no whole number, or is a bool, which
    NumPy 1 lets pass for a number too."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_whole(argument: str, value: object) -> None:
    """TypeError unless it is a whole number."""
    if whole_number(value) is None:
        raise TypeError(f"{argument}= takes a whole number, not {value!r}")


def check_from_1(argument: str, value: int) -> None:
    """TypeError or ValueError unless it is a whole number from 1 on."""
    check_whole(argument, value)
    if value < 1:
        raise ValueError(f"{argument}= takes 1 or more, not {value}")


def check_from_0(argument: str, value: int) -> None:
    """TypeError or ValueError unless it is a whole number from 0 on."""
    check_whole(argument, value)
    if value < 0:
        raise ValueError(f"{argument}= takes a number from 0 on, not {value}")


def check_room(shard: ShardInfo, *, raw: bool) -> None:
    """ValueError if a shard has more records than its bytes, ``raw`` or compressed, can hold."""
    needed = FRAME_OVERHEAD * shard.records if raw else min(shard.records, 1)
    if shard.nbytes < needed:
        raise ValueError(
            f"{shard.name}: {shard.nbytes} bytes have no room for {shard.records} records"
        )


# How many there are of something, in a sentence.


def counted(count: int, what: str) -> str:
    """``1 shard``, ``1,024 shards``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def held(records: int | None, files: int, what: str = "shard") -> str:
    """``3 records in 1 shard``; ``1 shard`` if the records are not counted."""
    within = counted(files, what)
    return within if records is None else f"{counted(records, 'record')} in {within}"
