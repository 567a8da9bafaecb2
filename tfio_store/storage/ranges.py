"""Checks that a store's answer is what was asked for: complete, and all of a range."""

from __future__ import annotations

import errno
import re
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from tfio_store.storage.answers import Answer
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.redaction import redacted, without_secrets

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from tfio_store.storage.store import ObjectInfo


__all__ = [
    "check_size",
    "nothing_there",
    "range_of",
    "short",
    "unquoted",
    "wanted_body",
    "wanted_range",
    "well_formed",
    "whole_body",
    "whole_range",
]


# Answers that lack what they must have.


T = TypeVar("T")


_UNKNOWN_OPTION = re.compile(r"__init__\(\) got an unexpected keyword argument '(\w+)'")


class MalformedAnswerError(OSError):
    """A store said "success", and not what belongs to it. Perhaps a proxy answered."""


async def well_formed(work: Awaitable[T], url: str) -> T:
    """Run ``work``. If it fails to find its way in an answer, raise an error that names ``url``."""
    try:
        return await work
    except OSError:
        raise
    except (LookupError, ValueError, AttributeError, TypeError) as fault:
        if isinstance(fault, (AttributeError, TypeError)) and is_ours(fault):
            raise  # a mistake in code, which must not look like a failing store
        refused = _UNKNOWN_OPTION.search(str(fault)) if isinstance(fault, TypeError) else None
        if refused is not None:
            raise TypeError(
                f"storage_options= holds {refused[1]!r}, which the client of {redacted(url)} does "
                "not take"
            ) from without_secrets(fault)
        missing = isinstance(fault, LookupError)
        what = f"it lacks {fault}" if missing else f"{type(fault).__name__}: {fault}"
        text = redacted(f"the store's answer cannot be understood ({what})")
        error = MalformedAnswerError(errno.EIO, text, url)
        error.__cause__ = without_secrets(fault)
    raise error


def is_ours(fault: BaseException) -> bool:
    """Whether it was raised in this package, and not in a client's."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(name).startswith("tfio_store.")


def unquoted(etag: str | None) -> str | None:
    return etag.strip('"') if etag else None


# Checks that an answer is what was asked for: all of a range, and nothing else.


Data = TypeVar("Data", bytes, memoryview)

CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def whole_body(data: Data, announced: int | str | None) -> Data:
    """The body of an answer, if it is as long as its headers say."""
    if announced is not None and len(data) != int(announced):
        raise short(f"answered {len(data)} of the {announced} bytes it announced")
    return data


def whole_range(
    data: Data, announced: int | str | None, partial: str, start: int, stop: int
) -> Data:
    """Return bytes [start, stop) of an object, fewer only where the object ends. ``partial`` is the
    Content-Range of an answer with status 206 ("" if it has none)."""
    whole_body(data, announced)
    found = CONTENT_RANGE.fullmatch(partial)
    if found is None:
        raise short(f"asked for bytes from {start}, answered some without saying which")
    size = None if found[3] == "*" else int(found[3])
    return wanted_range(data, (int(found[1]), int(found[2]) + 1), size, start, stop)


def wanted_range(
    data: Data, came: tuple[int, int], size: int | None, start: int, stop: int
) -> Data:
    """The same, where the answer says that bytes [``came``) came of so many, if it knows that."""
    first, behind = came
    end = stop if size is None else min(stop, size)
    right = first == start and behind - first == len(data)
    if right and behind == end:
        return data
    said = f"bytes {first}-{behind - 1}/{'*' if size is None else size}"
    if right:
        raise short(f"asked for bytes {start} to {end}, answered {said}")
    raise short(f"asked for bytes from {start}, answered {len(data)} said to be {said}")


def range_of(answer: Answer, start: int, stop: int) -> bytes:
    """The same of the body that `wanted_body` has read, which of a whole object is these bytes."""
    if answer.status == 200:
        return answer.body
    announced, partial = (answer.headers.get(f"Content-{name}") for name in ("Length", "Range"))
    return whole_range(answer.body, announced, partial or "", start, stop)


# Bodies of answers, read no further than they are wanted: a server may send for ever.


MOST_OF_A_REFUSAL = 64 << 10
"""Bytes to read of an answer that is no part of an object."""


async def wanted_body(answer: ClientResponse, start: int, stop: int | None) -> bytes:
    """The body of an answer to a request for bytes [start, stop) of an object: these bytes, if the
    answer is the whole object, and else a range or a refusal as it came."""
    if answer.status == 200:
        return await of_whole(answer, start, stop)
    if answer.status == 206 and stop is not None:
        body, ended = await first_bytes(answer, 0, stop - start)
        if not ended:
            raise short(f"asked for {stop - start} bytes, answered more")
        return body
    return (await first_bytes(answer, 0, MOST_OF_A_REFUSAL))[0]


async def first_bytes(answer: ClientResponse, start: int, stop: int | None) -> tuple[bytes, bool]:
    """Bytes [start, stop) of a body, and whether it ends there or before. What is in front of them
    is not kept, and what is behind them is not waited for."""
    pieces, at = [], 0
    async for piece in answer.content.iter_any():
        if stop is not None and at + len(piece) > stop:
            pieces.append(piece[max(start - at, 0) : stop - at])
            answer.close()  # it may send for ever
            return b"".join(pieces), False
        if at + len(piece) > start:
            pieces.append(piece[max(start - at, 0) :])
        at += len(piece)
    return b"".join(pieces), True


async def of_whole(answer: ClientResponse, start: int, stop: int | None) -> bytes:
    """Bytes [start, stop) of an object, of an answer that is all of it."""
    if answer.method == "HEAD":
        return b""
    length = answer.headers.get("Content-Length")
    if length is None or "Content-Encoding" not in answer.headers:
        # aiohttp holds a body to its announced length, unless it has decompressed it
        return (await first_bytes(answer, start, stop))[0]
    announced = int(length)
    body, ended = await first_bytes(answer, 0, announced)
    if not ended or len(body) != announced:
        raise short(f"announced {announced} bytes, answered others when decompressed")
    return body[start:stop]


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
