"""What obstore's exceptions mean. Most are one type, whose text has to tell them apart."""

from __future__ import annotations

import errno
import os
import re

from tfio_store.storage.faults import TRANSIENT_STATUS, redacted

__all__ = ["is_beyond_end", "meaning"]

KINDS: dict[str, type[OSError]] = {
    "AlreadyExistsError": FileExistsError,
    "NotFoundError": FileNotFoundError,
    "PermissionDeniedError": PermissionError,
    "PreconditionError": FileExistsError,
    "UnauthenticatedError": PermissionError,
}
NUMBERS = {
    FileExistsError: errno.EEXIST,
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
}


def status_in(fault: BaseException) -> int | None:
    found = re.search(r"status code: (\d{3})", str(fault))
    return int(found[1]) if found else None


def is_beyond_end(fault: BaseException) -> bool:
    """Whether a range was refused because it begins at or behind the object's end."""
    return status_in(fault) == 416 or "Wanted range starting at" in str(fault)


def meaning(fault: Exception, url: str) -> Exception:
    """``fault`` as an OSError that names ``url``: ConnectionError when it may pass."""
    kind = KINDS.get(type(fault).__name__)
    if isinstance(fault, FileNotFoundError):
        kind = FileNotFoundError
    if kind is not None:
        return kind(NUMBERS[kind], os.strerror(NUMBERS[kind]), url)
    if type(fault).__name__ != "GenericError":
        return fault
    # the first line; Rust's view of the matter follows
    text = redacted(str(fault).partition("\n")[0])
    status = status_in(fault)
    if status in TRANSIENT_STATUS or (status is None and "HTTP error" in text):
        return ConnectionError(errno.ECONNRESET, text)
    return OSError(errno.EIO, text, url)
