"""What Google Cloud Storage has of its own."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place
from tests.servers.web import Handler, served
from tfio_store.storage import Retry, Storage

RETRY = Retry(attempts=3, base_delay=0.01)
MIB = 1 << 20


class LostSessions:
    """GCS that answers one part of an upload by 410, and has forgotten the upload."""

    def __init__(self, server: str, part: int) -> None:
        self.server, self.part, self.parts = server, part, 0
        self.url, self.lost = "", ""

    def __call__(self, request: Request, forward: Forward) -> Answer:
        if request.method == "PUT":
            self.parts += bool(request.body)
            if self.parts == self.part and request.body:
                self.lost = request.path
            if request.path == self.lost:
                return Answer(410)
        answer = forward(request)
        location = dict(answer.headers).get("Location")
        return answer if location is None else answer.header("Location", self._here(location))

    def _here(self, location: str) -> str:
        return self.url + location.partition("://")[2].partition("/")[1] + location.split("/", 3)[3]


@pytest.mark.parametrize("part", [1, 3])
def test_an_upload_that_the_store_gives_up(gcs: Place, part: int) -> None:
    """Begun anew while all its bytes are still here; else an error that says so."""
    lost = LostSessions(gcs.endpoint, part)
    data = bytes(range(256)) * (4 * MIB // 256)
    with rewriting_store(gcs.endpoint, lost) as lost.url:
        store, path = gcs.through(lost.url).open("object", retry=RETRY)
        output = store.open_output(path, part_bytes=MIB)
        if part == 1:
            output.write(data)
            output.commit()
            assert gcs.get("object") == data
            return
        with pytest.raises(OSError, match="which are not kept here; write the object again"):
            output.write(data)
            output.commit()
        output.abort()
    assert lost.lost
    assert gcs.names() == []


# Tokens


class TokenServer:
    """Gives token-1, token-2 and so on, or what `answers` has first: a status. While `open` is not
    set, nobody is answered."""

    def __init__(self) -> None:
        self.url = ""
        self.given = 0
        self.answers: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.waited_in_vain = False

    def handler(self) -> type[Handler]:
        tokens = self

        class Giving(Handler):
            def do_POST(self) -> None:  # noqa: N802
                self.rfile.read(int(self.headers["Content-Length"]))
                if not tokens.open.wait(30):
                    tokens.waited_in_vain = True
                status = tokens.answers.pop(0) if tokens.answers else 200
                tokens.given += status == 200
                token = {"access_token": f"token-{tokens.given}", "expires_in": 3600}
                body = json.dumps(token if status == 200 else {"error": "unavailable"}).encode()
                self.send(status, body, {"Content-Type": "application/json"}, head=False)

        return Giving

    def storage(self, place: Place, **retry: Any) -> Storage:
        from google.oauth2.credentials import Credentials

        made = Credentials(
            None, refresh_token="r", client_id="c", client_secret="s", token_uri=self.url
        )
        return Storage({**place.storage_options, "token": made}, retry=Retry(**retry))


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    found = TokenServer()
    with served(found.handler()) as found.url:
        yield found
        found.open.set()


def test_a_token_server_that_hangs_keeps_no_other_store_waiting(
    gcs: Place, s3: Place, tokens: TokenServer
) -> None:
    gcs.put("x", b"one")
    s3.put("x", b"two")
    store, path = tokens.storage(gcs).open(gcs.url("x"))
    tokens.open.clear()
    reads = [store.read(path, 0, 10) for _ in range(40)]  # more than asyncio's threads
    other, there = s3.open("x")
    assert other.get(there)[0] == b"two"
    assert not any(read.done() for read in reads)
    tokens.open.set()
    assert {bytes(read.result()) for read in reads} == {b"one"}
    assert (tokens.given, tokens.waited_in_vain) == (1, False)


def test_a_retry_ends_while_a_token_server_hangs(gcs: Place, tokens: TokenServer) -> None:
    store, path = tokens.storage(gcs, attempts=2, timeout=0.2).open(gcs.url("x"))
    tokens.open.clear()
    with pytest.raises(TimeoutError, match="2 attempts") as caught:
        store.get(path)
    assert caught.value.filename == gcs.url("x")
    assert not tokens.waited_in_vain


def test_a_busy_token_server_is_asked_again(gcs: Place, tokens: TokenServer) -> None:
    """It takes three seconds, since google-auth asks three times by itself."""
    gcs.put("x", b"one")
    tokens.answers = [503] * 3
    store, path = tokens.storage(gcs, base_delay=0.01).open(gcs.url("x"))
    assert store.get(path)[0] == b"one"
    assert tokens.given == 1


def test_a_token_server_that_refuses_is_asked_once(gcs: Place, tokens: TokenServer) -> None:
    tokens.answers = [400]
    store, path = tokens.storage(gcs).open(gcs.url("x"))
    with pytest.raises(PermissionError, match="unavailable") as caught:
        store.get(path)
    assert caught.value.filename == gcs.url("x")
    assert tokens.answers == []
    assert tokens.given == 0


class Withdrawn:
    """GCS that takes no token of a list."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens
        self.seen: list[str] = []

    def __call__(self, request: Request, forward: Forward) -> Answer:
        shown = next(
            (request.headers[n] for n in request.headers if n.lower() == "authorization"), ""
        )
        self.seen.append(shown)
        if shown.removeprefix("Bearer ") in self.tokens:
            error = {"code": 401, "message": "Invalid Credentials"}
            return Answer(401, body=json.dumps({"error": error}).encode())
        return forward(request)


@pytest.mark.parametrize("action", ["read", "put", "upload"])
def test_a_token_that_is_withdrawn_is_renewed(gcs: Place, tokens: TokenServer, action: str) -> None:
    gcs.put("x", b"one")
    withdrawn = Withdrawn()
    actions: dict[str, Callable[[Any, str], object]] = {
        "read": lambda store, path: [read.result() for read in [store.read(path, 0, 9)] * 20],
        "put": lambda store, path: store.put(path, b"two"),
        "upload": lambda store, path: upload(store, path),
    }
    with rewriting_store(gcs.endpoint, withdrawn) as url:
        store, path = tokens.storage(gcs.through(url), attempts=1).open(gcs.url("x"))
        assert store.get(path)[0] == b"one"
        withdrawn.tokens = ("token-1",)
        actions[action](store, path)
        assert tokens.given == 2
        withdrawn.tokens = ("token-2", "token-3")
        seen = len(withdrawn.seen)
        with pytest.raises(PermissionError, match="Invalid Credentials"):
            store.get(path)
        assert len(withdrawn.seen) == seen + 2


def upload(store: Any, path: str) -> None:
    output = store.open_output(path)
    output.write(bytes(9 * MIB))
    output.commit()


def test_a_token_that_nobody_renews_is_tried_twice(gcs: Place, monkeypatch: Any) -> None:
    from google.oauth2.credentials import Credentials

    withdrawn = Withdrawn("given")
    with rewriting_store(gcs.endpoint, withdrawn) as url:
        options = {**gcs.storage_options, "endpoint_url": url, "token": Credentials("given")}
        store, path = Storage(options).open(gcs.url("x"))
        with pytest.raises(PermissionError, match="Invalid Credentials"):
            store.get(path)
    assert withdrawn.seen == ["Bearer given"] * 2


REFUSALS = [
    (401, "Anonymous caller does not have storage.objects.get access to the object."),
    (403, "me@example.com does not have storage.objects.get access to the object."),
    (403, "Object 'b/x' is subject to bucket's retention policy, and cannot be overwritten."),
]


@pytest.mark.parametrize(("status", "reason"), REFUSALS)
def test_the_stores_reason_is_told(gcs: Place, status: int, reason: str) -> None:
    errors = [{"message": reason, "domain": "global", "reason": "forbidden"}]
    error = {"error": {"code": status, "message": reason, "errors": errors}}
    answer = Answer(status, body=json.dumps(error, indent=1).encode())
    with rewriting_store(gcs.endpoint, lambda request, forward: answer) as url:
        store, path = gcs.through(url).open("x")
        for action in (store.get, store.info, lambda path: store.put(path, b"x")):
            with pytest.raises(PermissionError, match=re.escape(reason)):
                action(path)
