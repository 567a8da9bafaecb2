"""Reading from web servers, with and without ranges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.web import Handler, web_server
from tfio_store.storage import Retry, open_store

DATA = bytes(range(256)) * 100


class Site(Handler):
    """/ranges knows ranges, /plain does not, /get refuses HEAD, /flaky fails twice first."""

    failures = 0

    def answer(self, *, head: bool) -> None:
        kind = self.path.split("/")[1].partition("?")[0]
        if kind == "flaky" and type(self).failures < 2:
            type(self).failures += 1
            self.send(503, b"", {}, head=head)
        elif kind == "get" and head:
            self.send(405, b"", {}, head=head)
        elif kind == "secret":
            self.send(403, b"", {}, head=head)
        else:
            if kind == "plain":
                del self.headers["Range"]
            super().answer(head=head)

    def send(self, status: int, body: bytes, headers: dict[str, str], *, head: bool) -> None:
        if not self.path.startswith("/ranges"):  # the others tell no versions
            headers.pop("ETag", None)
        super().send(status, body, headers, head=head)


@pytest.fixture
def site_url() -> Iterator[str]:
    Site.failures = 0
    with web_server(Site) as web:
        web.files |= {f"/{kind}/x": DATA for kind in ("ranges", "plain", "get", "flaky")}
        yield web.endpoint


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


def test_get(site_url: str) -> None:
    store, path = open_store(f"{site_url}/ranges/x")
    data, info = store.get(path)
    assert (data, info.size) == (DATA, len(DATA))
    with pytest.raises(OSError, match="at most 10"):
        store.get(path, most=10)
    with pytest.raises(FileNotFoundError):
        store.get(f"{site_url}/missing")
