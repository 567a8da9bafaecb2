"""One table of errors for datasets and `tf.io.gfile`, and how ops wait."""

from __future__ import annotations

import errno
import gc
import weakref
from concurrent.futures import Future

import pytest

from tfio_store.errors import CorruptRecordError, ManifestError, RecordTooLargeError, ReplacedError
from tfio_store.tf import bridge
from tfio_store.tf.bridge import Fetch
from tfio_store.tf.dataset.runtime import classify
from tfio_store.tf.filesystem.host import Host

CASES = [
    (FileNotFoundError(errno.ENOENT, "none", "x"), bridge.NOT_FOUND),
    (FileExistsError(errno.EEXIST, "is there", "x"), bridge.ALREADY_EXISTS),
    (PermissionError(errno.EACCES, "no", "x"), bridge.PERMISSION_DENIED),
    (ConnectionResetError(errno.ECONNRESET, "gone", "x"), bridge.UNAVAILABLE),
    (OSError(errno.ENOSPC, "full", "x"), bridge.RESOURCE_EXHAUSTED),
    (OSError(errno.ESTALE, "somebody else wrote", "x"), bridge.ABORTED),
    (ReplacedError(errno.ESTALE, "another", "x"), bridge.FAILED_PRECONDITION),
    (OSError(errno.EIO, "disk", "x"), bridge.UNKNOWN),
    (CorruptRecordError("bad", path="x", offset=0), bridge.DATA_LOSS),
    (RecordTooLargeError(path="x", offset=0, length=9, limit=8), bridge.RESOURCE_EXHAUSTED),
    (ManifestError("not JSON"), bridge.DATA_LOSS),
    (ValueError("no"), bridge.INVALID_ARGUMENT),
    (KeyError("what"), bridge.INTERNAL),
]


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda value: type(value).__name__)
def test_both_faces_give_the_same_code(error: BaseException, code: int) -> None:
    assert classify(error)[0] == code
    assert Host(lambda reason: None).status(error, "s3://bucket/x")[0] == code


def test_the_text_names_the_path_and_the_cause() -> None:
    error = OSError(errno.EIO, "not stored", "x")
    error.__cause__ = RuntimeError("the client's words")
    assert Host(lambda reason: None).status(error, "s3://bucket/x")[1] == (
        b"s3://bucket/x: not stored (the client's words)"
    )
    assert classify(KeyError("what"))[1] == "KeyError: 'what'"


def test_a_signature_is_not_repeated() -> None:
    error = OSError(errno.EIO, "no", "https://host/x?X-Amz-Signature=abcdef")
    assert "abcdef" not in classify(error)[1]


class Bytes:
    """What was read."""


def test_what_was_fetched_waits_for_no_collector() -> None:
    """Each block of a bucket stayed until the collector came by: 150 MiB of a budget of 32."""
    gc.collect()
    gc.disable()
    try:
        future: Future[Bytes] = Future()
        fetch = Fetch(future)
        read = Bytes()
        held = weakref.ref(read)
        future.set_result(read)
        assert fetch.result() is read
        del fetch, future, read
        assert held() is None
    finally:
        gc.enable()
