"""Web servers that mean harm: what they answer costs an error, and neither memory nor secrets."""

from __future__ import annotations

import traceback
from typing import Any, ClassVar

import aiohttp
import pytest

from tests.servers.hostile import Echoing, Endless, Moved, Telling, Vast
from tests.servers.web import Handler, web_server
from tfio_store.storage import Retry, open_store
from tfio_store.storage.store import ObjectInfo

ONCE = Retry(attempts=1, timeout=10)


@pytest.mark.parametrize("size", [str(2**63), str(2**64 - 1), "9" * 5000])
def test_a_size_that_no_object_has_is_refused(size: str) -> None:
    with web_server(type("Claims", (Vast,), {"size": size})) as web:
        store, path = open_store(f"{web.endpoint}/x", retry=ONCE)
        with pytest.raises(OSError, match="a size that no object has") as raised:
            store.info(path)
    assert raised.value.filename == path


@pytest.mark.parametrize("size", [-1, 2**63])
def test_no_store_gives_a_size_that_no_object_has(size: int) -> None:
    assert ObjectInfo("x", 2**63 - 1).size == 2**63 - 1
    with pytest.raises(OSError, match="a size that no object has"):
        ObjectInfo("x", size)


@pytest.mark.parametrize(
    ("status", "span"), [(200, ""), (206, "bytes 0-999/1000"), (403, ""), (400, "")]
)
@pytest.mark.parametrize("action", ["read", "get"])
def test_no_more_is_read_than_was_asked_for(status: int, span: str, action: str) -> None:
    kind = type("Sends", (Endless,), {"status": status, "span": span, "sent": []})
    with web_server(kind) as web:
        store, path = open_store(f"{web.endpoint}/x", retry=ONCE)
        if (status, action) == (200, "read"):  # a server without ranges, of some longer object
            assert bytes(store.read(path, 100, 1000).result()) == bytes(900)
        else:
            with pytest.raises(OSError, match=r"answered more|at most 1000|40|denied|206"):
                _ = store.read(path, 0, 1000).result() if action == "read" else None
                store.get(path, most=1000)
    assert sum(kind.sent) < 32 << 20  # type: ignore[attr-defined]


@pytest.mark.parametrize(("status", "span"), [(200, ""), (206, "bytes 100-999/1000"), (403, "")])
@pytest.mark.parametrize("service", ["s3", "gs"])
@pytest.mark.parametrize("backend", ["fsspec", "obstore"])
def test_no_more_is_read_of_a_bucket_than_was_asked_for(
    service: str, backend: Any, status: int, span: str
) -> None:
    if backend == "obstore":
        pytest.importorskip("obstore")
        if status == 403:
            pytest.skip("obstore reads refusals by itself")
    if service == "s3" and status == 403:
        pytest.skip("s3fs's client reads refusals by itself")
    kind = type("Sends", (Endless,), {"status": status, "span": span, "sent": []})
    with web_server(kind) as web:
        options = {
            "s3": {"endpoint_url": web.endpoint, "key": "k", "secret": "s"},
            "gs": {"endpoint_url": web.endpoint, "token": "anon"},
        }[service]
        store, path = open_store(f"{service}://bucket/x", options, retry=ONCE, backend=backend)
        if status == 200:
            assert bytes(store.read(path, 100, 1000).result()) == bytes(900)
        else:
            with pytest.raises(OSError, match=r"more|denied"):
                store.read(path, 100, 1000).result()
        if status != 206:
            with pytest.raises(OSError, match=r"at most 1000|denied"):
                store.get(path, most=1000)
    assert sum(kind.sent) < 32 << 20  # type: ignore[attr-defined]


class Turncoat(Handler):
    """Answers ranges honestly ``good`` times, and then with more than it announces."""

    good: ClassVar[int] = 0
    more: ClassVar[int] = 1000
    asked: ClassVar[list[str]] = []

    def answer(self, *, head: bool) -> None:
        self.asked.append(self.headers.get("Range", ""))
        long = len(self.asked) > self.good
        body = bytes(900 + self.more * long)
        self.send(206, body, {"Content-Range": "bytes 100-999/1000"}, head=head)


@pytest.mark.parametrize("good", [0, 3, 20])
def test_who_kept_his_word_is_checked_on(good: int) -> None:
    """obstore gives bodies whole once a bucket has proven itself: longer ones are still refused."""
    pytest.importorskip("obstore")
    kind = type("Sends", (Turncoat,), {"good": good, "asked": []})
    with web_server(kind) as web:
        options = {"endpoint_url": web.endpoint, "key": "k", "secret": "s"}
        store, path = open_store("s3://bucket/x", options, retry=ONCE, backend="obstore")
        for _ in range(good):
            assert bytes(store.read(path, 100, 1000).result()) == bytes(900)
        with pytest.raises(OSError, match=r"answered|more"):
            store.read(path, 100, 1000).result()


def test_a_look_at_a_server_without_head_and_ranges() -> None:
    class NoHead(Telling):
        def answer(self, *, head: bool) -> None:
            del self.headers["Range"]
            self.send(405, b"", {}, head=head) if head else super().answer(head=head)

    with web_server(NoHead) as web:
        web.files["/x"] = bytes(1 << 20)
        store, path = open_store(f"{web.endpoint}/x", retry=ONCE)
        assert store.info(path).size == 1 << 20


SECRETS = ("k3y-0123456789", "t0k3n-abcdef012345", "c00kie-987654", "hunter2hunter2", "tenant-77")
HEADERS = {
    "X-Api-Key": SECRETS[0],
    "Authorization": f"Bearer {SECRETS[1]}",
    "Cookie": f"sid={SECRETS[2]}",
    "X-Auth": SECRETS[3],
    "X-Tenant": SECRETS[4],
}
OPTIONS: list[dict[str, Any]] = [{"headers": HEADERS}, {"client_kwargs": {"headers": HEADERS}}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("status", [400, 403, 503])
def test_headers_that_a_server_repeats_stay_out_of_what_is_said(
    options: dict[str, Any], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    retry = Retry(attempts=2, base_delay=0, timeout=10)
    with web_server(type("Echoes", (Echoing,), {"status": status})) as web:
        store, path = open_store(f"{web.endpoint}/x", options, retry=retry)
        texts = []
        with caplog.at_level(1, "tfio_store"):
            for action in (
                lambda: store.info(path),
                lambda: store.get(path),
                lambda: store.read(path, 0, 9).result(),
                lambda: list(store.glob(f"{web.endpoint}/*")),
            ):
                with pytest.raises(OSError) as raised:  # noqa: PT011
                    action()
                texts += traceback.format_exception(raised.value)
    said = "".join(texts) + caplog.text
    assert [secret for secret in SECRETS if secret in said] == []


@pytest.mark.parametrize("status", [403, 503])
def test_a_text_that_is_cut_shows_no_part_of_a_secret(status: int) -> None:
    """Wherever the cut is."""
    secret = "0123456789abcdefghijklmnopqrstuvwxyz" * 2

    class Long(Handler):
        before: ClassVar[int] = 0

        def answer(self, *, head: bool) -> None:
            words = ("word " * 1000)[: self.before]
            self.send(status, f"{words} {secret} {words}".encode(), {}, head=head)

    with web_server(Long) as web:
        options = {"headers": {"Authorization": secret}}
        store, path = open_store(f"{web.endpoint}/x", options, retry=Retry(attempts=1))
        for Long.before in range(430, 510, 5):
            with pytest.raises(OSError) as raised:  # noqa: PT011
                store.read(path, 0, 9).result()
            said = "".join(traceback.format_exception(raised.value))
            assert secret[:6] not in said, Long.before


@pytest.mark.parametrize("options", OPTIONS)
def test_a_redirect_takes_the_callers_headers_to_no_other_server(options: dict[str, Any]) -> None:
    first = type("First", (Moved,), {"told": []})
    second = type("Second", (Telling,), {"told": []})
    with web_server(second) as target, web_server(first) as web:
        first.place = f"{target.endpoint}/x"  # type: ignore[attr-defined]
        target.files["/x"] = b"0123456789"
        store, path = open_store(f"{web.endpoint}/here", options, retry=ONCE)
        assert store.info(path).size == 10
        assert bytes(store.read(path, 2, 5).result()) == b"234"
        assert store.get(path)[0] == b"0123456789"
    assert len(first.told) == 6  # type: ignore[attr-defined]
    assert all(HEADERS.items() <= told.items() for told in first.told)  # type: ignore[attr-defined]
    told = str(second.told)  # type: ignore[attr-defined]
    assert "bytes=2-4" in told
    assert [secret for secret in SECRETS if secret in told] == []


def test_a_redirect_on_the_same_server_keeps_its_password() -> None:
    class Both(Telling):
        told: ClassVar[list[dict[str, str]]] = []

        def answer(self, *, head: bool) -> None:
            if self.path == "/x":
                super().answer(head=head)
            else:
                self.told.append(dict(self.headers))
                place = f"http://{self.headers['Host']}/x"
                self.send(307, b"", {"Location": place}, head=head)

    with web_server(Both) as web:
        web.files["/x"] = b"0123456789"
        url = web.endpoint.replace("//", "//me:pass@")
        store, path = open_store(f"{url}/y", retry=ONCE)
        assert store.get(path)[0] == b"0123456789"
        auth = aiohttp.BasicAuth("me", "pass")
        store, path = open_store(f"{web.endpoint}/y", {"auth": auth}, retry=ONCE)
        assert store.get(path)[0] == b"0123456789"
    assert [told["Authorization"] for told in Both.told] == [auth.encode()] * 4


def test_redirects_end() -> None:
    with web_server(type("Circle", (Moved,), {"place": "/here"})) as web:
        store, path = open_store(f"{web.endpoint}/here", retry=ONCE)
        with pytest.raises(OSError, match="too many redirects"):
            store.info(path)
