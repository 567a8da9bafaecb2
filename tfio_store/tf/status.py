"""Python's exceptions in TensorFlow's words: a code (tensorflow/c/tf_status.h) and a text."""

from __future__ import annotations

import errno
import io
from concurrent.futures import CancelledError

from tfio_store.errors import DataLossError, RecordTooLargeError, TFIOStoreError
from tfio_store.storage import ReplacedError
from tfio_store.storage.faults import is_shutdown
from tfio_store.storage.redaction import redacted

__all__ = ["code_of", "explained"]

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

# The first one that fits counts. So subclasses stand before their bases.
CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataLossError, DATA_LOSS),
    (RecordTooLargeError, RESOURCE_EXHAUSTED),
    (TFIOStoreError, DATA_LOSS),
    (FileNotFoundError, NOT_FOUND),
    (PermissionError, PERMISSION_DENIED),
    (FileExistsError, ALREADY_EXISTS),
    (IsADirectoryError, FAILED_PRECONDITION),
    (NotADirectoryError, FAILED_PRECONDITION),
    (ReplacedError, FAILED_PRECONDITION),
    (TimeoutError, DEADLINE_EXCEEDED),
    (ConnectionError, UNAVAILABLE),
    (io.UnsupportedOperation, UNIMPLEMENTED),
    (NotImplementedError, UNIMPLEMENTED),
    (MemoryError, RESOURCE_EXHAUSTED),
    (ImportError, FAILED_PRECONDITION),
    (ValueError, INVALID_ARGUMENT),
    (TypeError, INVALID_ARGUMENT),
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


def code_of(error: BaseException) -> int:
    """The code of the same meaning. INTERNAL for an unforeseen exception."""
    if is_shutdown(error):
        return CANCELLED
    if isinstance(error, OSError) and not isinstance(error, ReplacedError):
        found = CODES_OF_ERRNO.get(error.errno or 0)
        if found is not None:
            return found
    return next((code for kind, code in CODES if isinstance(error, kind)), INTERNAL)


def explained(error: BaseException, words: str) -> str:
    """``words`` of the error, with the kind of one that nobody foresaw, and what the storage's
    client said of it."""
    if not words:
        words = type(error).__name__
    elif code_of(error) == INTERNAL:
        words = f"{type(error).__name__}: {words}"
    cause = str(error.__cause__ or "")
    return redacted(f"{words} ({cause})" if cause and cause not in words else words)
