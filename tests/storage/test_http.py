"""Reading from web servers, with and without ranges."""

from __future__ import annotations

import http.server
from collections.abc import Iterator

import pytest

from tests.servers.web import served
from tfio_store.storage import Retry, open_store

DATA = bytes(range(256)) * 100


class Handler(http.server.BaseHTTPRequestHandler):
    """/ranges knows ranges, /plain does not, /get refuses HEAD, /flaky fails twice first."""

    protocol_version = "HTTP/1.1"
    failures = 0

    def do_HEAD(self) -> None:
        self.answer(head=True)

    def do_GET(self) -> None:
        self.answer(head=False)

    def answer(self, *, head: bool) -> None:
        kind = self.path.split("/")[1].partition("?")[0]
        if kind == "flaky" and type(self).failures < 2:
            type(self).failures += 1
            return self.send(503, b"", head=head)
        if kind == "get" and head:
            return self.send(405, b"", head=head)
        if kind in ("ranges", "get", "flaky"):
            return self.send_range(head=head)
        if kind == "plain":
            return self.send(200, DATA, head=head)
        return self.send({"secret": 403}.get(kind, 404), b"", head=head)

    def send_range(self, *, head: bool) -> None:
        wanted = self.headers.get("Range")
        if wanted is None:
            return self.send(200, DATA, head=head)
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        if first >= len(DATA):
            return self.send(416, b"", head=head, span=f"bytes */{len(DATA)}")
        body = DATA[first : last + 1]
        span = f"bytes {first}-{first + len(body) - 1}/{len(DATA)}"
        return self.send(206, body, head=head, span=span)

    def send(self, status: int, body: bytes, *, head: bool, span: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if span:
            self.send_header("Content-Range", span)
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site_url() -> Iterator[str]:
    Handler.failures = 0
    with served(Handler) as endpoint:
        yield endpoint


@pytest.mark.parametrize("kind", ["ranges", "plain", "get", "flaky"])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, 10), (100, 25_700), (25_590, 25_700), (25_600, 25_700), (0, 1 << 40)]
)
def test_ranges(site_url: str, kind: str, start: int, stop: int) -> None:
    store, path = open_store(f"{site_url}/{kind}/x", retry=Retry(base_delay=0.01))
    assert bytes(store.read(path, start, stop).result()) == DATA[start:stop]
    assert store.info(path).size == len(DATA)


def test_missing_and_forbidden(site_url: str) -> None:
    store, path = open_store(f"{site_url}/missing")
    with pytest.raises(FileNotFoundError):
        store.info(path)
    with pytest.raises(FileNotFoundError):
        store.read(path, 0, 1).result()
    with pytest.raises(PermissionError):
        store.info(f"{site_url}/secret/x")


def test_a_failing_look_is_no_missing_object(site_url: str) -> None:
    store, path = open_store(f"{site_url}/flaky/x", retry=Retry(attempts=1))
    with pytest.raises(OSError, match="503") as raised:
        store.info(path)
    assert not isinstance(raised.value, FileNotFoundError)


def test_signatures_stay_out_of_errors(site_url: str) -> None:
    secret = "c0ffee"
    store, path = open_store(f"{site_url}/missing?X-Amz-Signature={secret}&sig={secret}&v=1")
    with pytest.raises(FileNotFoundError) as raised:
        store.info(path)
    assert secret not in str(raised.value)
    assert "v=1" in str(raised.value)


def test_get(site_url: str) -> None:
    store, path = open_store(f"{site_url}/ranges/x")
    data, info = store.get(path)
    assert (data, info.size) == (DATA, len(DATA))
    with pytest.raises(OSError, match="at most 10"):
        store.get(path, most=10)
    with pytest.raises(FileNotFoundError):
        store.get(f"{site_url}/missing")
