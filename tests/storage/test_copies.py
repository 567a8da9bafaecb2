"""A store's copies are not believed before they are whole: a rename deletes what they are of."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

import pytest

from tests.servers.lesser_store import Answer, Forward, Request, Rewrite, rewriting_store
from tests.servers.place import Place
from tfio_store.storage import Retry, Store
from tfio_store.storage.cloud import azure as azure_copies, s3 as s3_copies
from tfio_store.tf.filesystem.folders import folders_of

RETRY = Retry(attempts=3, base_delay=0.01)
DATA = bytes(range(256)) * 40


class SlowCopies:
    """Azure that makes copies after ``looks`` looks at them, or ends them as ``status``."""

    def __init__(self, looks: int, status: str = "success") -> None:
        self.left, self.status = looks, status
        self.waiting: Request | None = None

    def __call__(self, request: Request, forward: Forward) -> Answer:
        if "x-ms-copy-source" in request.headers:
            self.waiting = request
            headers = [("x-ms-copy-id", "slow"), ("x-ms-copy-status", "pending")]
            stamps = [("ETag", '"0x1"'), ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")]
            return Answer(202, headers + stamps)
        if request.method != "HEAD" or self.waiting is None:
            return forward(request)
        if request.path.partition("?")[0] != self.waiting.path.partition("?")[0]:
            return forward(request)
        self.left -= 1
        if self.left > 0 or self.status != "success":
            status = "pending" if self.left > 0 else self.status
            empty = [("ETag", '"0x1"'), ("x-ms-blob-type", "BlockBlob"), ("Content-Length", "0")]
            stamp = ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
            copy = [("x-ms-copy-id", "slow"), ("x-ms-copy-status", status)]
            return Answer(200, [*empty, stamp, *copy])
        forward(self.waiting)
        found = forward(request)
        return found.header("x-ms-copy-id", "slow").header("x-ms-copy-status", "success")


def empty_copies(request: Request, forward: Forward) -> Answer:
    """S3 that says 200 to a copy, and then nothing."""
    return Answer(200) if "x-amz-copy-source" in request.headers else forward(request)


def failing_copies(request: Request, forward: Forward) -> Answer:
    if "x-amz-copy-source" in request.headers:
        return Answer(200, [], b"<Error><Code>InternalError</Code><Message>no</Message></Error>")
    return forward(request)


def unfinished_copies(request: Request, forward: Forward) -> Answer:
    """GCS that says a copy is done and names none."""
    if "/rewriteTo/" in request.path:
        return Answer(
            200, [("Content-Type", "application/json")], json.dumps({"done": True}).encode()
        )
    return forward(request)


def short_copies(request: Request, forward: Forward) -> Answer:
    """S3 whose copies are cut."""
    if "x-amz-copy-source" not in request.headers:
        return forward(request)
    answer = forward(request)
    headers = {
        name: value for name, value in request.headers.items() if not name.startswith("x-amz-copy")
    }
    forward(Request("PUT", request.path, {**headers, "Content-Length": "3"}, b"cut"))
    return answer


@contextlib.contextmanager
def through(place: Place, rewrite: Rewrite) -> Iterator[Place]:
    """The place as seen through a proxy."""
    with rewriting_store(place.endpoint, rewrite) as endpoint:
        yield place.through(endpoint)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_copies, "FIRST_POLL", 0.01)


def move_file(store: Store, path: str) -> None:
    folders_of(store).copy(f"{path}/a", f"{path}/b")
    store.delete([f"{path}/a"])


def move_folder(store: Store, path: str) -> None:
    folders_of(store).move_tree(path, f"{path}2")


MOVES = pytest.mark.parametrize("move", [move_file, move_folder])
Move = Callable[[Store, str], None]


@MOVES
def test_a_pending_copy_is_waited_for(azure: Place, move: Move) -> None:
    azure.put("folder/a", DATA)
    with through(azure, SlowCopies(looks=4)) as place:
        store, path = place.open("folder", retry=RETRY)
        move(store, path)
    (name,) = azure.names()
    assert azure.get(name) == DATA


@MOVES
@pytest.mark.parametrize("status", ["failed", "aborted"])
def test_a_copy_that_fails_leaves_its_source(azure: Place, move: Move, status: str) -> None:
    azure.put("folder/a", DATA)
    with through(azure, SlowCopies(looks=2, status=status)) as place:
        store, path = place.open("folder", retry=RETRY)
        with pytest.raises(OSError, match=status):
            move(store, path)
    assert azure.get("folder/a") == DATA


@MOVES
@pytest.mark.parametrize(
    ("cloud", "rewrite"),
    [
        ("s3", empty_copies), ("s3", failing_copies), ("s3", short_copies),
        ("gcs", unfinished_copies),
    ],
)  # fmt: skip
def test_a_copy_that_is_not_whole_leaves_its_source(
    request: pytest.FixtureRequest, cloud: str, rewrite: Rewrite, move: Move
) -> None:
    behind: Place = request.getfixturevalue(cloud)
    behind.put("folder/a", DATA)
    with through(behind, rewrite) as place:
        store, path = place.open("folder", retry=RETRY)
        with pytest.raises(OSError, match="folder"):
            move(store, path)
    assert behind.get("folder/a") == DATA


@MOVES
def test_what_one_request_cannot_copy_goes_in_parts(
    s3: Place, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_copies, "COPY_BYTES", 5 << 20)
    data = os.urandom(6 << 20)
    extra = {"s3_additional_kwargs": {"Metadata": {"owner": "me"}}}
    Place(s3.root, {**s3.storage_options, **extra}, s3.endpoint).put("folder/a", data)
    store, path = s3.open("folder", retry=RETRY)
    move(store, path)
    (name,) = s3.names()
    assert s3.get(name) == data
    bucket, key = s3.open(name)[1].split("/", 1)
    assert s3.fs.call_s3("head_object", Bucket=bucket, Key=key)["Metadata"]["owner"] == "me"


def test_folder_operations_are_retried_as_everything_else(azure: Place) -> None:
    """One 503 costs as long as the library's retry says, not the SDK's own twenty seconds."""
    refused: list[str] = []

    def busy_once(request: Request, forward: Forward) -> Answer:
        if request.method == "PUT" and "x-ms-copy-source" in request.headers and not refused:
            refused.append(request.path)
            return Answer(503, [("x-ms-error-code", "ServerBusy"), ("Retry-After", "600")])
        return forward(request)

    azure.put("folder/a", DATA)
    with through(azure, busy_once) as place:
        store, path = place.open("folder", retry=RETRY)
        folders_of(store).copy(f"{path}/a", f"{path}/b")
    assert refused
    assert azure.get("folder/b") == DATA
