"""Checks that an answer is what was asked for: all of a range, and nothing else."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, TypeVar

from tfio_store.storage.faults import ShortBodyError

if TYPE_CHECKING:
    from tfio_store.storage.store import ObjectInfo

__all__ = ["check_size", "nothing_there", "whole_body", "whole_range"]

Data = TypeVar("Data", bytes, memoryview)

CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def whole_body(data: Data, announced: int | str | None) -> Data:
    """The body of an answer, if it is as long as its headers say."""
    if announced is not None and len(data) != int(announced):
        raise short(f"answered {len(data)} of the {announced} bytes it announced")
    return data


def whole_range(
    data: Data, announced: int | str | None, partial: str | None, start: int, stop: int
) -> Data:
    """Return bytes [start, stop) of an object, fewer only where the object ends. ``partial`` is the
    Content-Range of an answer with status 206 ("" if it has none). It is None if the answer is the
    whole object, as from a server that does not know ranges.
    """
    whole_body(data, announced)
    if partial is None:
        return data[start:stop]
    found = CONTENT_RANGE.fullmatch(partial)
    if found is None:
        raise short(f"asked for bytes from {start}, answered some without saying which")
    first, last = int(found[1]), int(found[2])
    end = stop if found[3] == "*" else min(stop, int(found[3]))
    if first != start or last - first + 1 != len(data):
        raise short(f"asked for bytes from {start}, answered {len(data)} said to be {partial}")
    if last + 1 != end:
        raise short(f"asked for bytes {start} to {end}, answered {partial}")
    return data


def nothing_there(start: int, info: ObjectInfo) -> bytes:
    """The answer to a range that the store has refused: no bytes, if it begins at or behind the
    end."""
    if start < info.size:
        raise short(f"refused bytes from {start}, although the object has {info.size}")
    return b""


def check_size(size: int, most: int | None, url: str) -> None:
    """Raise OSError if an object is larger than the caller can believe."""
    if most is not None and size > most:
        raise OSError(errno.EFBIG, f"it has {size} bytes, and at most {most} are expected", url)


def short(text: str) -> ShortBodyError:
    return ShortBodyError(errno.ECONNRESET, text)
