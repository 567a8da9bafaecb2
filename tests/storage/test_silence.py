"""A store that hangs, refuses or is down: the log says so, and the job goes on where it was."""

from __future__ import annotations

import logging
import os
import re
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

import tfio_store as tfs
from tests.servers.faulty import Faulty, azure, faulty, gcs, s3
from tests.servers.lesser_store import Answer
from tests.servers.place import Place
from tests.servers.web import Handler, Web, served
from tests.storage.test_advice import is_range
from tests.support.framed import framed
from tests.support.started import python
from tfio_store.maintain import doctor
from tfio_store.storage import Retry, retry as silence
from tfio_store.storage.answers import StatusError
from tfio_store.storage.connection import Connection
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.http import HTTPStore
from tfio_store.storage.pace import Pace
from tfio_store.storage.retry import Silence, Waiting, Watch, repeated_blocking
from tfio_store.storage.threads import PerProcess

RECORDS = [b"%05d" % i for i in range(12_000)]
QUICK = Retry(base_delay=0.01, max_delay=0.05, timeout=60, refused=0)
DOWN: dict[str, Answer] = {
    "s3": s3(503, "ServiceUnavailable", "Service is unable to handle request."),
    "gcs": gcs(503, "backendError", "We encountered an internal error. Please try again."),
    "azure": azure(503, "ServerBusy", "The server is busy."),
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "SILENT_S", 0.5)
    monkeypatch.setattr(silence, "STEP_S", 0.02)


@pytest.fixture
def behind(behind: tuple[str, Place, Faulty]) -> tuple[str, Place, Faulty]:
    """With a dataset of twelve files."""
    for shard in range(12):
        behind[1].put(f"x-{shard:02}", framed(RECORDS[shard * 1000 : (shard + 1) * 1000]))
    return behind


def read_all(place: Place, retry: Retry) -> list[bytes]:
    urls = [place.url(f"x-{shard:02}") for shard in range(12)]
    return list(tfs.RecordReader(urls, storage=place.storage(retry=retry)))


def until(holds: Callable[[], object]) -> None:
    """A test that fails waits a minute."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    assert holds()


def warned(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    texts = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [text for text in texts if words in text]


def test_a_store_that_hangs_is_told_of(
    behind: tuple[str, Place, Faulty], caplog: pytest.LogCaptureFixture
) -> None:
    _, place, proxy = behind
    proxy.how = lambda request: (
        proxy.hang(request) if "x-07" in request.path and is_range(request) else None
    )
    found: list[list[bytes]] = []
    job = threading.Thread(target=lambda: found.append(read_all(place, QUICK)))
    job.start()
    late = f"{place.url('x-07')}: no whole answer"
    until(lambda: len(warned(caplog, late)) >= 2)
    assert not found
    proxy.held.set()
    job.join()
    assert found == [RECORDS]
    until(lambda: warned(caplog, "goes on"))
    assert warned(caplog, "goes on")[-1].startswith(f"{place.root}: goes on after ")
    secrets = [str(value) for name, value in place.storage_options.items() if name == "secret"]
    assert not any(secret in caplog.text for secret in secrets)


def test_a_store_that_is_down_is_waited_for(
    behind: tuple[str, Place, Faulty], caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what it answers; then comes the very next record."""
    cloud, place, proxy = behind
    up = threading.Event()

    def answer(request: Any) -> Answer | None:
        return (
            DOWN[cloud] if "x-0" in request.path and is_range(request) and not up.is_set() else None
        )

    proxy.how = answer
    found: list[list[bytes]] = []
    job = threading.Thread(target=lambda: found.append(read_all(place, QUICK)))
    job.start()
    words = "503|ServiceUnavailable|The server is busy"
    until(lambda: any(re.search(words, one) for one in warned(caplog, "no whole answer")))
    assert not found
    up.set()
    job.join()
    assert found == [RECORDS]
    until(lambda: warned(caplog, "goes on"))


def test_a_server_that_goes_away_and_comes_back(
    s3: Place, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of an address that has answered, a refused connection is an outage: ``refused=0`` does not
    count."""
    s3.put("x", bytes(100))
    with faulty(s3.endpoint) as proxy:
        place = s3.through(proxy.endpoint, backend)
        store, path = place.open("x", retry=QUICK)
        assert bytes(store.read(path, 0, 50).result()) == bytes(50)
        proxy.how = proxy.hang_up  # connections that are kept end so
    with caplog.at_level(logging.INFO, "tfio_store"):
        future = store.read(path, 50, 100)
        until(lambda: "refused" in caplog.text.lower() or "Connect" in caplog.text)
        with faulty(s3.endpoint, urlsplit(proxy.endpoint).port or 0):
            assert bytes(future.result()) == bytes(50)


@pytest.mark.parametrize("kind", [HTTPStore, FsspecStore])
def test_a_web_server_that_goes_away_and_comes_back(
    kind: type[FsspecStore], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same of any filesystem, and of one that blocks."""

    class Closing(Handler):
        protocol_version = "HTTP/1.0"  # which keeps no connection
        web = Web(files={"/x": bytes(range(100))})

    if kind is FsspecStore:
        monkeypatch.setattr(Connection, "asynchronous", False)
    store = kind("http", {}, QUICK)
    with served(Closing) as endpoint:
        path = f"{endpoint}/x"
        assert bytes(store.read(path, 0, 50).result()) == bytes(range(50))
    with caplog.at_level(logging.INFO, "tfio_store"):
        future = store.read(path, 50, 100)
        until(lambda: "attempt 2 failed" in caplog.text)
        with served(Closing, urlsplit(endpoint).port or 0):
            assert bytes(future.result()) == bytes(range(50, 100))


def test_the_doctor_does_not_wait_so_long(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.1)
    with faulty(s3.endpoint) as proxy:
        proxy.how = lambda _: DOWN["s3"]
        place = s3.through(proxy.endpoint, "auto")
        with pytest.raises(ConnectionError, match="The store is down"):
            doctor.diagnose(place.url("train"), storage=place.storage())
    assert 2 <= proxy.refused <= 20


def test_five_minutes_are_ridden_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the requests, which goes on only when they wait."""
    now = 0.0

    def rest(seconds: float) -> None:
        nonlocal now
        now += seconds

    def attempt() -> str:
        if now < back:
            raise StatusError(503, "down")
        return "data"

    monkeypatch.setattr(silence, "monotonic", lambda: now)
    for seconds in (1.0, 60.0, 300.0):
        now, back = 0.0, seconds
        assert repeated_blocking(Retry(), attempt, "s3://b/x", Pace(), None, rest) == "data"
    now, back = 0.0, float("inf")
    with pytest.raises(ConnectionError, match="gave up after") as caught:
        repeated_blocking(Retry(), attempt, "s3://b/x", Pace(), None, rest)
    assert 300 <= now <= 320
    assert caught.value.attempts > 20  # type: ignore[attr-defined]
    now = 0.0
    with pytest.raises(ConnectionError):
        repeated_blocking(Retry(outage=0), attempt, "s3://b/x", Pace(), None, rest)
    assert now == 0


def test_lines_come_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(silence, "SILENT_S", 30.0)
    first, other = Waiting("s3://bucket/a/x"), Waiting("s3://bucket/y")
    first.since, other.since = 0.0, 10.0
    first.failures, first.fault = 3, "TimeoutError:\n"
    state, lines = Silence(), {}
    for now in range(30, 500):
        state.look("s3://bucket", [first, other] if now > 50 else [first], float(now))
        if caplog.messages:
            lines[now] = caplog.messages.pop()
            caplog.clear()
    assert [*lines] == [30, 60, 120, 240, 480]
    text = "no whole answer for 30 s; failed attempts: 3, the last by TimeoutError:"
    assert lines[30] == f"s3://bucket/a/x: {text}"
    assert lines[60].endswith("; 2 requests to s3://bucket wait")
    first.came = True
    state.look("s3://bucket", [], 500.0)
    assert caplog.messages == ["s3://bucket: goes on after 500 s"]


def test_what_fails_does_not_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """Its error says so."""
    state, request = Silence(), Waiting("s3://bucket/x")
    request.since = 0.0
    state.look("s3://bucket", [request], 40.0)
    state.look("s3://bucket", [], 50.0)
    assert [text for text in caplog.messages if "goes on" in text] == []


Watchers = Callable[[], list[threading.Thread]]


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> Watchers:
    """The threads that watch requests of this test: one of another may wait for long."""
    monkeypatch.setattr(silence, "_watch", PerProcess(Watch))
    others = set(threading.enumerate())
    return lambda: [
        thread
        for thread in threading.enumerate()
        if thread.name == "tfio_store-silence" and thread not in others
    ]


def test_one_thread_watches_while_something_waits(watchers: Watchers) -> None:
    waiting = [Waiting("s3://bucket/x") for _ in range(100)]
    for one in waiting:
        one.begin()
    assert len(watchers()) == 1
    for one in waiting:
        one.end()
    until(lambda: not watchers())
    waiting[0].begin()
    assert len(watchers()) == 1
    waiting[0].end()


class Looked(dict[int, Waiting]):
    """Calls ``then`` once, between the look whether there are any and what follows from it."""

    then: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        found = len(self) > 0
        then = None if found else self.then
        if then is not None:
            self.then = None
            threading.Thread(target=then).start()
            until(lambda: len(self) > 0)
        return found


def test_who_begins_while_the_thread_ends_is_watched() -> None:
    watch, behind = Watch(), Waiting("s3://bucket/y")
    behind.since = time.monotonic()
    watch._waiting = looked = Looked()
    looked.then = lambda: watch.add(behind)
    watch.add(first := Waiting("s3://bucket/x"))
    first.since = behind.since
    watch.remove(first)
    until(lambda: looked.then is None)
    until(lambda: watch._running)
    assert len(watch._waiting) == 1
    watch.remove(behind)
    until(lambda: not watch._running)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_log_that_fails_ends_no_watch(
    watchers: Watchers, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    def refuse(record: logging.LogRecord) -> bool:
        if "broken" in record.getMessage():
            failed.set()
            raise OSError("the disk is full")
        return True

    first, other = Waiting("s3://broken/x"), Waiting("s3://bucket/y")
    silence.log.addFilter(refuse)
    try:
        first.begin()
        until(lambda: failed.is_set() and not watchers())
        first.end()
        other.begin()
        until(lambda: warned(caplog, "s3://bucket/y: no whole answer"))
        other.end()
    finally:
        silence.log.removeFilter(refuse)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_watches_its_own_requests(watchers: Watchers) -> None:
    waiting = Waiting("s3://bucket/x")
    waiting.begin()
    child = os.fork()
    if child == 0:
        mine: Watch = silence._watch.here
        fresh = not mine._waiting and not mine._running
        own = Waiting("s3://bucket/y")
        own.begin()
        waiting.end()  # of the parent
        os._exit(0 if fresh and len(mine._waiting) == 1 and watchers() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    waiting.end()


LEAVES = """
    import logging, sys, threading, time
    logging.basicConfig(format="LOG %(message)s")
    from tfio_store.storage import Retry, open_store, retry as silence
    silence.SILENT_S, silence.STEP_S = 0.1, 0.001
    store, path = open_store({url!r}, {options!r}, backend={backend!r}, retry=Retry(timeout=2))
    store.read(path, 0, 10)
    time.sleep(0.5)
    {end}
"""


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_a_process_that_ends_meanwhile_says_no_more(s3: Place, backend: str, end: str) -> None:
    s3.put("x", bytes(10))
    with faulty(s3.endpoint) as proxy:
        proxy.how = proxy.hang
        place = s3.through(proxy.endpoint, backend)
        script = textwrap.dedent(LEAVES).format(
            url=place.url("x"), options=place.storage_options, backend=backend, end=end
        )
        done = python(script)
    assert done.returncode == {"pass": 0, "sys.exit(3)": 3}.get(end, -2)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("LOG ")]
    assert "no whole answer" in done.stderr
    traceback = "Traceback (most recent call last):"
    assert lines[:1] == ([traceback] if "Keyboard" in end else [])
    assert lines[-1:] == (["KeyboardInterrupt"] if "Keyboard" in end else [])
