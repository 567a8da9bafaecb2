"""Answers that say "success" and lack what belongs to it are errors that name the object."""

from __future__ import annotations

from typing import Any

import pytest

from tests.storage.test_secrets import ACTIONS, ONCE, at, server
from tfio_store.storage import open_store

BODIES = [
    b"", b"?", b"{}", b"[]", b'{"size": "many", "items": [{}]}',
    b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    b"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
]  # fmt: skip


def large(store: Any, path: str) -> object:
    output = store.open_output(path)
    try:
        output.write(bytes(17 << 20))
        return output.commit()
    finally:
        output.abort()


def fault_of(action: Any, store: Any, path: str) -> OSError | None:
    try:
        action(store, path)
    except OSError as fault:
        return fault
    return None


@pytest.mark.filterwarnings("ignore:.*this store ignores If-None-Match")
@pytest.mark.parametrize("kind", ["s3", "az", "gs"])
@pytest.mark.parametrize("body", BODIES)
def test_whatever_is_answered_errors_are_named(kind: str, body: bytes) -> None:
    with server(200, {}, body) as host:
        url, options, backend = at(kind, host)
        store, path = open_store(url, options, retry=ONCE, backend=backend)
        faults = [fault_of(action, store, path) for action in [*ACTIONS.values(), large]]
    for fault in faults:
        assert fault is None or fault.errno is not None, fault
        assert fault is None or str(fault.filename).startswith(url.rpartition("/")[0]), fault


@pytest.mark.parametrize(
    ("kind", "body", "missing"),
    [
        ("s3", BODIES[5], "ETag"),  # of a part
        ("gs", b'{"generation": "1"}', "size"),
        ("gs", b'{"size": "1"}', "generation"),
    ],
)
def test_what_is_missing_is_said(kind: str, body: bytes, missing: str) -> None:
    with server(200, {}, body) as host:
        url, options, backend = at(kind, host)
        store, path = open_store(url, options, retry=ONCE, backend=backend)
        with pytest.raises(OSError, match=f"lacks '{missing}'") as raised:
            large(store, path) if kind == "s3" else store.info(path)
    assert raised.value.filename == url
