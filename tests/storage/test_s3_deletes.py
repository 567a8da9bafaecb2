"""Deleting many objects of S3: together where the store can, and one by one what it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place

COUNT = 40
ERROR = (
    b"<DeleteResult><Error><Key>many/7</Key><Code>InternalError</Code>"
    b"<Message>again</Message></Error></DeleteResult>"
)
REFUSAL = b"<Error><Code>NotImplemented</Code><Message>no such request</Message></Error>"


def is_together(request: Request) -> bool:
    return request.method == "POST" and "delete" in request.path.partition("?")[2]


def honest(request: Request, forward: Forward) -> Answer:
    return forward(request)


def refusing(request: Request, forward: Forward) -> Answer:
    if is_together(request):
        return Answer(501, [("Content-Type", "application/xml")], REFUSAL)
    return forward(request)


def leaving_one(request: Request, forward: Forward) -> Answer:
    if is_together(request):
        left = request.body.replace(b"<Object><Key>many/7</Key></Object>", b"")
        assert len(left) < len(request.body)
        answer = forward(replace(request, body=left, headers=_without_checksums(request)))
        return replace(answer, body=ERROR)
    return forward(request)


def _without_checksums(request: Request) -> dict[str, str]:
    """Of a body that has changed."""
    told = ("content-length", "content-md5", "x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm")
    return {name: value for name, value in request.headers.items() if name.lower() not in told}


@pytest.mark.parametrize(("store", "singles"), [(honest, 0), (refusing, COUNT), (leaving_one, 1)])
def test_what_is_left_goes_one_by_one(s3: Place, store: object, singles: int) -> None:
    for i in range(COUNT):
        s3.put(f"many/{i}", b"x")
    s3.put("kept", b"x")
    seen: list[Request] = []

    def noting(request: Request, forward: Forward) -> Answer:
        seen.append(request)
        return store(request, forward)  # type: ignore[operator]

    with rewriting_store(s3.endpoint, noting) as endpoint:
        opened, path = s3.through(endpoint).open("many")
        opened.delete(f"{path}/{i}" for i in range(COUNT))
    assert s3.names() == ["kept"]
    assert sum(map(is_together, seen)) == 1
    assert sum(request.method == "DELETE" for request in seen) == singles
