"""Stores that answer ranges wrongly: what comes is right, or an error that names the object."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.servers.lying_proxy import LIES, Liar, lying_proxy
from tests.servers.place import Place
from tests.servers.web import web_server
from tfio_store.storage import Retry

DATA = random.Random(7).randbytes(300_000)
QUICK = Retry(attempts=3, base_delay=0.001, max_delay=0.01, timeout=10)

Lied = tuple[Place, Liar]


@pytest.fixture(params=["s3", "gcs", "azure", "web", "s3+obstore", "azure+obstore"])
def lied(request: pytest.FixtureRequest) -> Iterator[Lied]:
    """A place with an object ``x`` of DATA behind a proxy, and the proxy."""
    server, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    if server == "web":
        with web_server() as web, lying_proxy(web.endpoint) as liar:
            web.files["/x"] = DATA
            yield Place(liar.endpoint), liar
        return
    place: Place = request.getfixturevalue(server)
    place.put("x", DATA)
    with lying_proxy(place.endpoint) as liar:
        yield place.through(liar.endpoint, backend or "fsspec"), liar


@pytest.mark.parametrize("lie", LIES)
def test_one_lie_is_asked_again(lied: Lied, lie: str) -> None:
    place, liar = lied
    store, path = place.open("x", retry=QUICK)
    told: list[str | None] = []
    liar.lie = lambda: told.pop() if told else None
    told.append(lie)
    assert bytes(store.read(path, 1000, 200_000).result()) == DATA[1000:200_000]
    assert liar.told[lie] == 1
    if lie in ("short", "503"):
        told.append(lie)
        assert store.get(path)[0] == DATA


@pytest.mark.parametrize("lie", LIES)
def test_a_lasting_lie_is_an_error(lied: Lied, lie: str) -> None:
    place, liar = lied
    store, path = place.open("x", retry=QUICK)
    liar.lie = lambda: lie
    try:
        data = bytes(store.read(path, 1000, 200_000).result())
    except OSError as fault:
        assert fault.filename == store.url(path)  # noqa: PT017
        assert isinstance(fault, ConnectionError)  # noqa: PT017
    else:  # a client that goes on where a capped answer ended
        assert lie in ("capped", "short")
        assert data == DATA[1000:200_000]
    assert liar.told[lie] >= 1


def test_a_range_behind_the_end_is_still_empty(lied: Lied) -> None:
    place, _ = lied
    store, path = place.open("x", retry=QUICK)
    assert bytes(store.read(path, len(DATA), len(DATA) + 10).result()) == b""
    assert bytes(store.read(path, len(DATA) - 5, len(DATA) + 10).result()) == DATA[-5:]
