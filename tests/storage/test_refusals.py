"""What a store refuses is told apart from what somebody else did, and from what will pass."""

from __future__ import annotations

import pytest

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place
from tfio_store.storage import Retry
from tfio_store.tf.bridge import UNAVAILABLE, code_of

RETRY = Retry(attempts=2, base_delay=0.01)


def test_a_condition_that_never_holds_is_not_blamed_on_another_writer(s3: Place) -> None:
    """As on Ceph's versioned buckets."""

    def refusing(request: Request, forward: Forward) -> Answer:
        return Answer(412) if "If-Match" in request.headers else forward(request)

    with rewriting_store(s3.endpoint, refusing) as endpoint:
        store, path = s3.through(endpoint).open("object", retry=RETRY)
        etag = store.put(path, b"one").etag
        with pytest.raises(PermissionError, match="the store refuses"):
            store.put(path, b"two", if_match=etag)
        s3.put("object", b"other")
        with pytest.raises(FileExistsError):
            store.put(path, b"two", if_match=etag)


def test_a_leased_blob_is_not_blamed_on_another_writer(azure: Place) -> None:
    from azure.storage.blob import BlobServiceClient

    store, path = azure.open("object", retry=RETRY)
    etag = store.put(path, b"one").etag
    service = BlobServiceClient.from_connection_string(azure.storage_options["connection_string"])
    with service, service.get_blob_client(*path.split("/", 1)) as blob:
        lease = blob.acquire_lease()
        with pytest.raises(PermissionError, match="the store refuses"):
            store.put(path, b"two", if_match=etag)
        lease.release()
    store.put(path, b"two", if_match=etag)


def test_a_store_that_stays_busy_is_unavailable(s3: Place) -> None:
    def busy(request: Request, forward: Forward) -> Answer:
        return Answer(503, body=b"<Error><Code>SlowDown</Code></Error>")

    with rewriting_store(s3.endpoint, busy) as endpoint:
        store, path = s3.through(endpoint).open("object", retry=RETRY)
        with pytest.raises(ConnectionError, match="object") as caught:
            store.put(path, b"one")
    assert code_of(caught.value) == UNAVAILABLE


@pytest.mark.parametrize("name", ["aws_access_key_id", "region", "ednpoint_url"])
def test_an_option_that_no_client_takes_is_named(s3: Place, name: str) -> None:
    """No request was made, so no answer was bad."""
    store, path = Place(s3.root, {**s3.storage_options, name: "hidden"}).open("object", retry=RETRY)
    with pytest.raises(TypeError, match=f"storage_options= holds '{name}'") as caught:
        store.info(path)
    assert "hidden" not in str(caught.value)
