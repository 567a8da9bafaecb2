"""Python's exceptions as TensorFlow's status codes."""

from __future__ import annotations

import errno
import io
from concurrent.futures import CancelledError

from tfio_store.errors import DataLossError
from tfio_store.redaction import redacted

__all__ = ["status_of"]

CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15

# The first that fits: subclasses stand before their bases.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataLossError, DATA_LOSS),
    (FileNotFoundError, NOT_FOUND),
    (PermissionError, PERMISSION_DENIED),
    (FileExistsError, ALREADY_EXISTS),
    (IsADirectoryError, FAILED_PRECONDITION),
    (NotADirectoryError, FAILED_PRECONDITION),
    (TimeoutError, DEADLINE_EXCEEDED),
    (ConnectionError, UNAVAILABLE),
    (io.UnsupportedOperation, UNIMPLEMENTED),
    (NotImplementedError, UNIMPLEMENTED),
    (MemoryError, RESOURCE_EXHAUSTED),
    (ImportError, FAILED_PRECONDITION),
    (ValueError, INVALID_ARGUMENT),
    (CancelledError, CANCELLED),
    (KeyboardInterrupt, CANCELLED),
    (OSError, UNKNOWN),
)

CODES_OF_ERRNO = {
    errno.ENOTEMPTY: FAILED_PRECONDITION,
    errno.EFBIG: FAILED_PRECONDITION,
    errno.ENOSPC: RESOURCE_EXHAUSTED,
    errno.EDQUOT: RESOURCE_EXHAUSTED,
    errno.ENAMETOOLONG: INVALID_ARGUMENT,
    errno.EINVAL: INVALID_ARGUMENT,
    errno.ESTALE: ABORTED,
    errno.EROFS: PERMISSION_DENIED,
}


def status_of(fault: BaseException, path: str) -> tuple[int, bytes]:
    """The code, and a text that names the path and the cause."""
    return code_of(fault), f"{path}: {explained(fault)}".encode("utf-8", "replace")


def code_of(fault: BaseException) -> int:
    if isinstance(fault, OSError) and fault.errno in CODES_OF_ERRNO:
        return CODES_OF_ERRNO[fault.errno]
    if isinstance(fault, RuntimeError) and "shutdown" in str(fault):
        return UNAVAILABLE  # executors and event loops say so once the interpreter is leaving
    return next((code for kind, code in CODES if isinstance(fault, kind)), INTERNAL)


def explained(fault: BaseException) -> str:
    """The fault in words, and what the storage client said of it."""
    words = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
    if not words:
        words = type(fault).__name__
    elif code_of(fault) == INTERNAL:
        words = f"{type(fault).__name__}: {words}"
    cause = str(fault.__cause__ or "")
    return redacted(f"{words} ({cause})" if cause and cause not in words else words)
