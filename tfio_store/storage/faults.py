"""Turns failures of a storage client into Python's own OSErrors that name the object.

It recognises clients by the names of their exception types, and by their HTTP status. So no client
has to be imported or installed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from tfio_store.storage.answers import advice_on, code_of, reason_of, status_of
from tfio_store.storage.redaction import redacted, secrets_in, without_secrets

__all__ = [
    "SHUTTING_DOWN",
    "ShortBodyError",
    "is_refused",
    "is_taken",
    "is_transient",
    "may_arrive",
    "named",
    "naming",
    "unopened",
]


class ShortBodyError(ConnectionError):
    """A store answered fewer bytes than the object has in the range."""


class RequestTimeoutError(TimeoutError):
    """A type of its own, because asyncio drops the filename of a plain TimeoutError."""


TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

# Codes that S3-like stores give with a status (400, 409) that alone means no retry. Those about
# checksums say that the bytes were damaged on their way.
TRANSIENT_CODES = frozenset(
    {
        "BadDigest", "ConditionalRequestConflict", "Crc64Mismatch", "IncompleteBody",
        "InternalError", "Md5Mismatch", "OperationAborted", "RequestTimeout",
        "ServiceUnavailable", "SlowDown", "Throttling",
        "ThrottlingException", "XAmzContentSHA256Mismatch",
    }
)  # fmt: skip

SLOW_DOWN = frozenset({"ServerBusy", "SlowDown", "Throttling", "ThrottlingException"})

# Client exceptions (package, class) that mean that no whole answer has arrived.
TRANSIENT_TYPES = frozenset(
    {
        ("aiobotocore", "AioReadTimeoutError"), ("aiohttp", "ClientConnectionError"),
        ("aiohttp", "ClientPayloadError"), ("aiohttp", "ServerTimeoutError"),
        ("asyncio", "TimeoutError"),  # no builtin before Python 3.11
        ("azure", "IncompleteReadError"), ("azure", "ServiceRequestError"),
        ("azure", "ServiceResponseError"), ("botocore", "ConnectionError"),
        ("botocore", "HTTPClientError"), ("botocore", "IncompleteReadError"),
        ("botocore", "ResponseParserError"), ("gcsfs", "ChecksumError"),
        ("google", "TransportError"), ("http", "IncompleteRead"),
        ("paramiko", "SSHException"),
        ("requests", "ChunkedEncodingError"), ("requests", "ConnectionError"),
        ("requests", "Timeout"),
    }
)  # fmt: skip

NO_CREDENTIALS_TYPES = frozenset(
    {
        ("azure", "CredentialUnavailableError"), ("botocore", "NoCredentialsError"),
        ("botocore", "PartialCredentialsError"), ("google", "DefaultCredentialsError"),
    }
)  # fmt: skip
"""Exceptions of clients that have not even asked the store."""

REFUSED_TOKENS = frozenset(
    {("azure", "ClientAuthenticationError"), ("google", "RefreshError"),
     ("gcsfs", "NonRetryableError")}
)  # fmt: skip
"""Exceptions of clients that were given no token."""

# Faults that no second attempt mends, although their types say otherwise.
PERMANENT_TYPES = frozenset(
    {("aiohttp", "ClientSSLError"), ("aiohttp", "InvalidURL"), ("botocore", "SSLError")}
)

# Errno values in which s3fs and others dress up 500 (EREMOTEIO) and 503 (EBUSY).
TRANSIENT_ERRNO = frozenset(
    {
        errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT,
        errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO),
    }
)  # fmt: skip

REFUSED = frozenset(
    {
        errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOENT, errno.ENOSPC, errno.EDQUOT,
        errno.EROFS, errno.EFBIG, errno.ENAMETOOLONG,
    }
)  # fmt: skip
"""Answers that say that this copy of a request was not carried out, and will not be."""

TAKEN = re.compile("AlreadyExists|ConditionNotMet|PreconditionFailed|ConditionalRequestConflict")
"""Codes of a conflict (409) with what is there. Others are leases, policies and archives."""

ARCHIVED = {
    "BlobArchived": "restore it first, by setting its access tier to Hot or Cool",
    "BlobBeingRehydrated": "wait until it is restored",
    "InvalidObjectState": "restore it first, by a restore-object request",
}
"""Codes of objects that can't be read as they are kept, and what to do."""

KIND_OF_STATUS: dict[int, type[OSError]] = {
    401: PermissionError,
    403: PermissionError,
    404: FileNotFoundError,
    408: TimeoutError,
    409: FileExistsError,
    412: FileExistsError,
}

ERRNO_OF_KIND: dict[type[OSError], int] = {
    FileExistsError: errno.EEXIST,
    FileNotFoundError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
    TimeoutError: errno.ETIMEDOUT,
}

SHUTTING_DOWN = (
    "the interpreter is shutting down and starts no more work: join the threads that read or write "
    "before the program ends"
)

NO_MORE_WORK = (
    "cannot schedule new futures after", "can't start new thread at interpreter shutdown",
    "can't create new thread at interpreter shutdown",
)  # fmt: skip
"""The words of executors and threads then, in a RuntimeError that clients may wrap."""

NO_CREDENTIALS = "no credentials were found"

NOT_STORAGE = (
    AssertionError, AttributeError, ImportError, MemoryError, NameError, NotImplementedError,
    TypeError,
)  # fmt: skip
"""Mistakes in code, which must not look like a failing store."""


def is_transient(fault: BaseException) -> bool:
    """Whether the same request may succeed when made again."""
    types = types_of(fault)
    if types & PERMANENT_TYPES or is_shutdown(fault):
        return False
    if code_of(fault) in TRANSIENT_CODES or status_of(fault) in TRANSIENT_STATUS:
        return True
    if ("azure", "HttpResponseError") in types and status_of(fault) is None:
        # the answer broke off: adlfs gets this in place of what its client says of it
        inner = getattr(fault, "inner_exception", None)
        if inner is not None and inner is not fault and is_transient(inner):
            return True
    if ("google", "RefreshError") in types and getattr(fault, "retryable", False):
        return True  # the server of tokens was busy
    passing = (TimeoutError, ConnectionError, EOFError, socket.gaierror)
    if isinstance(fault, passing) or types & TRANSIENT_TYPES:
        return True
    return type(fault) is OSError and fault.errno in TRANSIENT_ERRNO


def is_taken(fault: BaseException) -> bool:
    """Whether an answer says that another object is there than the request's condition wants."""
    status, code = status_of(fault), code_of(fault)
    return status == 412 or (status == 409 and (code is None or TAKEN.search(code) is not None))


def is_slow_down(fault: BaseException) -> bool:
    """Whether a store wants to be asked less often. A 503 that does not say so may be any fault of
    a server, which fewer requests would not heal."""
    status = status_of(fault)
    return (
        code_of(fault) in SLOW_DOWN or status == 429 or (status == 503 and "SlowDown" in str(fault))
    )


def types_of(fault: BaseException) -> set[tuple[str, str]]:
    """The package and name of an exception's class, and of those that it is derived from."""
    return {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(fault).__mro__}


def lacks_credentials(fault: BaseException) -> bool:
    """Whether a client found nothing to sign its requests with. Azure's asks in turn whoever may
    have something. It ends where one has it; what follows is then Entra's own refusal."""
    types = types_of(fault)
    nobody = ("azure", "ClientAuthenticationError") in types and status_of(fault) is None
    return bool(types & NO_CREDENTIALS_TYPES) or (nobody and "AADSTS" not in str(fault))


def is_refused(fault: BaseException) -> bool:
    """Whether the connection is refused. Another attempt soon will hardly do better."""
    return any(
        isinstance(each, ConnectionRefusedError | socket.gaierror)
        or errno_in(each) == errno.ECONNREFUSED
        for each in chain_of(fault)
    )


def is_shutdown(fault: BaseException) -> bool:
    """Whether the interpreter is ending, and with it the threads that would do the work."""
    return any(
        isinstance(each, RuntimeError) and str(each).startswith(NO_MORE_WORK)
        for each in chain_of(fault)
    )


def chain_of(fault: BaseException | None) -> Iterator[BaseException]:
    """A fault and its causes, as clients chain them."""
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        seen.add(id(fault))
        yield fault
        inner = getattr(fault, "inner_exception", None)  # azure
        error = getattr(fault, "kwargs", None)  # botocore
        inner = inner or (error.get("error") if isinstance(error, dict) else None)
        fault = fault.__cause__ or (inner if inner is not fault else None) or fault.__context__


def kind_of(fault: BaseException) -> type[OSError]:
    """The OSError class with the meaning of a client's exception."""
    for kind in ERRNO_OF_KIND:
        if isinstance(fault, kind):
            return kind
    if lacks_credentials(fault) or types_of(fault) & REFUSED_TOKENS:
        return ConnectionError if is_transient(fault) else PermissionError
    if "Timeout" in type(fault).__name__:  # clients have their own
        return TimeoutError
    code = code_of(fault)
    if code in ARCHIVED:
        return PermissionError
    by_status = KIND_OF_STATUS.get(status_of(fault) or 0)
    if by_status is FileExistsError and not is_taken(fault):
        by_status = None
    if by_status is not None:
        return by_status
    if is_transient(fault):
        return ConnectionError
    return OSError


def explanation(
    fault: BaseException, kind: type[OSError], secrets: re.Pattern[str] | None = None
) -> str:
    """The client's own words, if they add something to ``kind``."""
    if lacks_credentials(fault):
        return NO_CREDENTIALS
    code = code_of(fault)
    if code in ARCHIVED:
        return f"the store has archived this object ({code}): {ARCHIVED[code]}"
    if kind in ERRNO_OF_KIND:
        said = [] if code is None or code.isdecimal() else [code]
        if kind is PermissionError and (reason := reason_of(fault)):
            said.append(redacted(reason, secrets))  # who or what forbids it, and what it takes
        text = os.strerror(ERRNO_OF_KIND[kind])
        return f"{text} ({': '.join(said)})" if said else text
    if isinstance(fault, OSError) and fault.strerror:
        return redacted(fault.strerror, secrets)
    words = str(fault)
    return redacted(f"{type(fault).__name__}: {words}" if words else type(fault).__name__, secrets)


def unopened(fault: Exception, url: str, options: Mapping[str, Any]) -> Exception:
    """The error for the ``fault`` of making a client with ``options``: `named`, but a mistake
    in the options keeps its kind, and a local file that is missing its name. Neither it nor its
    chain shows a secret of these options."""
    secrets = secrets_in(options)
    clean = without_secrets(fault, secrets)
    if isinstance(fault, OSError) and (clean is not fault or fault.filename is None):
        return named(fault, url, secrets=secrets)
    kind = next((kind for kind in (*NOT_STORAGE, ValueError) if isinstance(fault, kind)), None)
    if kind is None and not isinstance(fault, OSError):
        return named(fault, url, secrets=secrets)
    if kind is None or clean is fault:
        return fault
    error = kind(redacted(str(fault), secrets))
    error.__cause__ = clean
    return error


def named(
    fault: Exception, url: str, attempts: int = 1, secrets: re.Pattern[str] | None = None
) -> Exception:
    """Turn ``fault`` into an OSError whose filename is ``url``, caused by ``fault``. Return
    ``fault`` itself if it says so already, or is not of the storage. Neither it nor its chain shows
    a secret."""
    if isinstance(fault, NOT_STORAGE):
        return fault
    if is_shutdown(fault):
        ending = RuntimeError(f"{url}: {SHUTTING_DOWN}")
        ending.__cause__ = without_secrets(fault, secrets)
        return ending
    plain = isinstance(fault, OSError) and redacted(str(fault), secrets) == str(fault)
    if isinstance(fault, OSError) and plain and fault.filename == url:
        fault.attempts = attempts  # type: ignore[attr-defined]
        without_secrets(fault, secrets)  # which mends its chain
        return fault
    kind = kind_of(fault)
    number = ERRNO_OF_KIND.get(kind) or errno_in(fault) or errno.EIO
    text = explanation(fault, kind, secrets)
    if attempts > 1:
        text = f"{text} (gave up after {attempts} attempts)"
    advice = advice_on(chain_of(fault), url)
    if advice is not None and advice not in text:
        text = f"{text.rstrip('.')}. {advice}"
    if kind is TimeoutError:
        kind = RequestTimeoutError
    error = kind(number, text, url)
    error.attempts = attempts  # type: ignore[attr-defined]
    error.__cause__ = without_secrets(fault, secrets)
    return error


def may_arrive(failure: BaseException, store: object) -> bool:
    """Whether the failed request, or a copy of it before this one, may have been carried out or may
    yet be.

    A refusal answers one copy. Our own attempts are counted. But an HTTP client or a proxy may
    have sent another one by itself, and that may still be under way. Only where none does so is a
    refusal final. An object that is in the way refuses the other copies as well.
    """
    if not isinstance(failure, OSError) or failure.errno not in REFUSED:
        return True
    if getattr(failure, "attempts", 1) > 1:
        return True
    asks_once = getattr(store, "asks_once", False)  # plug-in stores may lack it
    return not asks_once and failure.errno != errno.EEXIST


def errno_in(fault: BaseException) -> int | None:
    found = getattr(fault, "errno", None)
    return found if isinstance(found, int) else None


@contextlib.contextmanager
def naming(url: str) -> Iterator[None]:
    """Turn every exception of a storage client inside into an OSError that names ``url``."""
    try:
        yield
    except Exception as fault:
        error = named(fault, url)
    else:
        return
    raise error  # outside the handler, which would chain the fault to it as it was
