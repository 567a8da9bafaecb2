"""Answers that lack what they must have."""

from __future__ import annotations

import errno
from collections.abc import Awaitable
from typing import TypeVar

from tfio_store.storage.redaction import redacted, without_secrets

__all__ = ["MalformedAnswerError", "unquoted", "well_formed"]

T = TypeVar("T")


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
