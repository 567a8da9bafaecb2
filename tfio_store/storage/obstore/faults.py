"""Finds the meaning of obstore's exceptions. Most are of one type, and only the text differs.

Their text holds what was asked for, signatures included, so that they are no cause to hand on.
"""

from __future__ import annotations

import errno
import os
import re

from tfio_store.storage.faults import TRANSIENT_STATUS, ShortBodyError
from tfio_store.storage.redaction import redacted

__all__ = ["RefusedError", "is_beyond_end", "meaning"]

WRONG_RANGE = ("UnexpectedRange", "NoContentRange", "ParseContentRange", "InvalidContentRange")
"""Answers with another range than was asked for, or without a range."""


class RefusedError(OSError):
    """A request that obstore could not make, and could not make a second time."""


def status_in(fault: BaseException) -> int | None:
    found = re.search(r"status code: (\d{3})", str(fault))
    return int(found[1]) if found else None


def is_beyond_end(fault: BaseException) -> bool:
    """Whether a range was refused because it begins at or behind the object's end."""
    return status_in(fault) == 416 or "Wanted range starting at" in str(fault)


def meaning(fault: Exception, url: str) -> OSError:
    """Turn ``fault`` into an OSError with errno and ``url``: ConnectionError if it may pass."""
    if isinstance(fault, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    # the first line; Rust's view of the matter follows
    text = redacted(f"{type(fault).__name__}: {str(fault).partition(chr(10))[0]}")
    status = status_in(fault)
    if any(kind in str(fault) for kind in WRONG_RANGE):
        return ShortBodyError(errno.ECONNRESET, text)
    passing = status is None and "HTTP error" in text and "builder error" not in text
    if status in TRANSIENT_STATUS or passing:
        refused = "Connection refused" in str(fault)
        number = errno.ECONNREFUSED if refused else errno.ECONNRESET
        return (ConnectionRefusedError if refused else ConnectionError)(number, text)
    return RefusedError(errno.EIO, text, url)
