"""S3 stores that know less than Amazon's, and what is asked of those that know as much."""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
import weakref

import pytest

from tests.servers.lesser_store import lesser_store
from tests.servers.place import Place
from tfio_store.records.framing import crc32c

CHECKSUMS = ["x-amz-checksum-crc32c", "x-amz-checksum-algorithm"]


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_a_store_without_checksums_is_written_without(s3: Place, size: int) -> None:
    with lesser_store(s3.endpoint, refuse=CHECKSUMS) as endpoint:
        for name in ("a", "b"):
            store, path = s3.through(endpoint).open(name)
            output = store.open_output(path)
            output.write(bytes(size))
            output.commit(crc32c=crc32c(bytes(size)))
            assert s3.get(name) == bytes(size)


def test_the_checksum_of_all_parts_is_stored(s3: Place) -> None:
    store, path = s3.open("x")
    output = store.open_output(path)
    output.write(bytes(20 << 20))
    assert output.commit().crc32c == store.info(path).crc32c == crc32c(bytes(20 << 20))


def test_a_store_that_ignores_conditions_is_told_of(s3: Place) -> None:
    with lesser_store(s3.endpoint, ignore=["If-None-Match"]) as endpoint:
        store, path = s3.through(endpoint).open("x")
        with pytest.warns(RuntimeWarning, match="ignores If-None-Match"):
            store.put(path, b"one", if_absent=True)
        assert not store.conditional
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.put(f"{path}2", b"two", if_absent=True)
    assert s3.get("x") == b"one"


def test_a_wrong_crc_of_the_caller_stops_the_commit(s3: Place) -> None:
    for size in (100, 20 << 20):
        store, path = s3.open("x")
        output = store.open_output(path)
        output.write(bytes(size))
        with pytest.raises(OSError, match="nothing was committed"):
            output.commit(crc32c=1)
        output.abort()
    assert s3.names() == []
    assert store.pending_uploads(s3.open()[1]) == []


def test_patterns_in_bucket_names_are_refused(s3: Place) -> None:
    store, _ = s3.open("x")
    with pytest.raises(ValueError, match="no patterns in the name of a bucket"):
        store.glob("test-*/x")


def test_additional_arguments_reach_every_object(s3: Place) -> None:
    extra = {"Metadata": {"owner": "me"}, "ContentType": "application/x-tfrecord"}
    options = {**s3.storage_options, "s3_additional_kwargs": extra}
    place = Place(s3.root, options, s3.endpoint)
    store, path = place.open("small")
    store.put(path, b"x", if_absent=True)
    output = store.open_output(f"{path}-large")
    output.write(bytes(20 << 20))
    output.commit()
    for name in (path, f"{path}-large"):
        bucket, key = name.split("/", 1)
        head = s3.fs.call_s3("head_object", Bucket=bucket, Key=key)
        assert head["Metadata"]["owner"] == "me"
        assert head["ContentType"] == "application/x-tfrecord"


def test_a_failed_request_leaves_no_garbage(s3: Place) -> None:
    """Else a caller's objects live until the collector meets them, perhaps on the loop. There
    TensorFlow's may wait for a lock of somebody who waits for the loop."""
    store, path = s3.open("missing")

    class Held:
        pass

    def ask() -> weakref.ref[Held]:
        held = Held()
        found = weakref.ref(held)
        with contextlib.suppress(FileNotFoundError):
            store.info(path)
        return found

    ask()  # makes the client
    gc.collect()
    gc.disable()
    try:
        found = ask()
        for _ in range(200):  # the loop lets go of the request in its own time
            if found() is None:
                break
            time.sleep(0.05)
        assert found() is None
    finally:
        gc.enable()
