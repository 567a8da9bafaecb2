"""How long an unreachable store is asked, and what is said meanwhile."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.servers.place import Place
from tfio_store.storage import Retry, open_store

NOBODY = "http://127.0.0.1:9"
WHERE: list[tuple[str, dict[str, Any], str]] = [
    ("s3://bucket/x", {"endpoint_url": NOBODY, "key": "k", "secret": "s"}, "fsspec"),
    ("s3://bucket/x", {"endpoint_url": NOBODY, "key": "k", "secret": "s"}, "obstore"),
    ("gs://bucket/x", {"endpoint_url": NOBODY, "token": "anon"}, "fsspec"),
    ("az://box/x", {"connection_string": f"BlobEndpoint={NOBODY}/me"}, "fsspec"),
    (f"{NOBODY}/x", {}, "fsspec"),
]


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that retries wanted to wait; they do not. The jitter is at its longest."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr("random.uniform", lambda low, high: high)
    monkeypatch.setattr("asyncio.sleep", note)
    monkeypatch.setattr(time, "sleep", found.append)
    return found


@pytest.mark.parametrize(("url", "options", "backend"), WHERE)
def test_a_refused_connection_is_given_up_within_5_s(
    url: str, options: dict[str, Any], backend: str, waited: list[float]
) -> None:
    if backend == "obstore":
        pytest.importorskip("obstore")
    store, path = open_store(url, options, backend=backend)
    with pytest.raises(ConnectionError) as raised:
        store.read(path, 0, 10).result()
    assert raised.value.filename == store.url(path)
    assert 1 <= sum(waited) <= 5


@pytest.mark.parametrize(("url", "options", "backend"), WHERE[:1])
def test_who_expects_the_server_back_waits_longer(
    url: str, options: dict[str, Any], backend: str, waited: list[float]
) -> None:
    store, path = open_store(url, options, retry=Retry(attempts=12, refused=60), backend=backend)
    with pytest.raises(ConnectionError, match="12 attempts"):
        store.read(path, 0, 10).result()
    assert len(waited) == 11


def test_retries_are_logged(
    s3: Place, shaped: Any, caplog: pytest.LogCaptureFixture, backend: str
) -> None:
    proxy = shaped(s3.endpoint, p_503=1.0)
    retry = Retry(attempts=3, base_delay=0)
    store, path = s3.through(proxy.endpoint, backend).open("x", retry=retry)
    with caplog.at_level(logging.INFO, "tfio_store"), pytest.raises(OSError, match="3 attempts"):
        store.read(path, 0, 10).result()
    told = [record.getMessage() for record in caplog.records if record.name == "tfio_store"]
    assert [text.partition("(")[0].partition(":")[0] for text in told] == ["s3", "s3"]
    assert f"{s3.url('x')}: attempt 1 of 3 failed" in told[0]
    assert "SlowDown" in told[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0}, {"base_delay": -1}, {"base_delay": math.inf}, {"max_delay": math.inf},
        {"max_delay": math.nan}, {"timeout": 0}, {"timeout": math.inf}, {"timeout": math.nan},
        {"refused": math.nan}, {"outage": math.nan}, {"outage": -0.1},
    ],
)  # fmt: skip
def test_numbers_that_mean_no_time_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^Retry\({name}="):
        Retry(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 2.5}, {"attempts": "3"}, {"attempts": True}, {"attempts": math.nan},
        {"outage": None}, {"outage": "300"}, {"timeout": None}, {"timeout": 1j}, {"refused": True},
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=rf"^Retry\({name}="):
        Retry(**wrong)


def test_a_patience_may_be_endless() -> None:
    """And numbers may be NumPy's."""
    endless = Retry(
        attempts=np.int64(4),
        outage=math.inf,
        refused=math.inf,
        timeout=np.float32(2),
    )
    assert endless.outage == endless.refused == math.inf


def test_who_is_given_a_signed_url_does_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    def attempt() -> None:
        raise ConnectionResetError("reset")

    url = "https://host/x?X-Amz-Signature=S3CR3T"
    with (
        caplog.at_level(logging.INFO, "tfio_store"),
        pytest.raises(ConnectionError, match="reset") as caught,
    ):
        Retry(attempts=2, base_delay=0).run_blocking(attempt, url)
    with pytest.raises(ConnectionError, match="reset") as other:
        asyncio.run(Retry(attempts=2, base_delay=0).run(partial(asyncio.to_thread, attempt), url))
    assert "attempt 1 of 2" in caplog.text
    shown = f"{caplog.text}{caught.value!s}{other.value!s}{caught.value.filename}"
    assert "S3CR3T" not in shown
