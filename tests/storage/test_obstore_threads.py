"""obstore's ranges, for each of which a thread waits: what is given up, ends, forks or stalls."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tests.servers.web import Handler, web_server
from tests.storage.test_resources import eventually
from tests.support.long import first
from tfio_store.errors import ReplacedError
from tfio_store.storage import Retry, Version, open_store
from tfio_store.storage.cloud import blocking, obstore as reads, obstore_native
from tfio_store.storage.read_ahead import Fetch, Meter, ReadAhead, RequestWindow, Worked
from tfio_store.storage.threads import PerProcess

obstore = pytest.importorskip("obstore")

Proxy = Callable[..., Shaped]

DATA = os.urandom(1 << 20)
ONCE = Retry(attempts=1)


def requesting() -> int:
    return sum(thread.name == "tfio_store-request" for thread in threading.enumerate())


# --- long ranges


@pytest.mark.parametrize(("start", "stop"), [(0, 1 << 20), (7, 200_001), (900_000, 1 << 40)])
def test_a_long_range_is_asked_for_in_pieces(
    s3: Place, monkeypatch: pytest.MonkeyPatch, start: int, stop: int
) -> None:
    monkeypatch.setattr(reads, "MOST_BYTES", 64 << 10)
    s3.put("x", DATA)
    store, path = s3.open("x", retry=ONCE)
    assert bytes(store.read(path, start, stop).result()) == DATA[start:stop]
    assert bytes(store.read(path, 1 << 20, (1 << 20) + (1 << 18)).result()) == b""


def test_pieces_are_of_one_version(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MOST_BYTES", 64 << 10)
    s3.put("x", DATA)
    store, path = s3.open("x", retry=ONCE)
    get, asked = obstore.get, []

    def counted(*args: Any, **more: Any) -> Any:
        asked.append(args)
        if len(asked) == 5:
            s3.put("x", DATA[::-1])
        return get(*args, **more)

    monkeypatch.setattr(obstore, "get", counted)
    with pytest.raises(ReplacedError):
        store.read(path, 0, 1 << 20, etag=Version()).result()


# --- work on what came


def names_of_workers(store: Any, path: str, cost: int) -> list[str]:
    """The threads that work on two ranges of DATA."""
    names: list[str] = []

    def work(fetch: Fetch[int], read: Callable[[], Any], at_hand: bool) -> Worked:
        names.append(threading.current_thread().name)
        data = bytes(read())
        assert data == DATA[fetch.start : fetch.stop]
        assert not at_hand
        return Worked(len(data), data, Meter())

    spans = [(0, 600_000), (600_000, len(DATA))]
    ranges = [
        Fetch(store, path, start, stop, start, cost or stop - start, work=work)
        for start, stop in spans
    ]
    made = [answer.made for _, answer in ReadAhead(ranges, budget=8 << 20)]
    assert b"".join(made) == DATA
    return names


def test_who_has_waited_does_light_work(s3: Place) -> None:
    s3.put("x", DATA)
    assert set(names_of_workers(*s3.open("x"), 0)) == {"tfio_store-request"}
    assert "tfio_store-request" not in names_of_workers(*s3.open("x"), 3 << 20)


def test_a_store_is_not_taken_for_slow_by_the_work(
    s3: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the window of requests is told is when the bytes were there."""
    begins: list[float] = []
    came: list[float] = []

    def work(fetch: Fetch[int], read: Callable[[], Any], at_hand: bool) -> Worked:
        begins.append(time.monotonic())
        return Worked(len(read()), None, Meter())

    def answered(self: RequestWindow, nbytes: int, asked: float, at: float) -> None:
        came.append(at)

    monkeypatch.setattr(RequestWindow, "answered", answered)
    s3.put("x", DATA)
    store, path = s3.open("x")
    list(ReadAhead([Fetch(store, path, 0, 100, 0, 100, work=work)], budget=1 << 20))
    assert came[0] <= begins[0]


def test_a_wrapped_store_is_asked_for_all_ranges(s3: Place) -> None:
    """One that hands on what it does not have itself must not be passed by."""

    class Wrapper:
        asked = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def read(self, *span: Any, **options: Any) -> Any:
            self.asked += 1
            return store.read(*span, **options)

    s3.put("x", DATA)
    store, path = s3.open("x")
    wrapper = Wrapper()
    names_of_workers(wrapper, path, 0)
    assert wrapper.asked == 2


# --- what nobody wants any more


def test_a_request_that_is_given_up_is_not_made_again(s3: Place, shaped: Proxy) -> None:
    s3.put("x", DATA)
    proxy = shaped(s3.endpoint, p_503=1.0)
    retry = Retry(attempts=1000, base_delay=0.2, max_delay=0.2)
    store, path = s3.through(proxy.endpoint).open("x", retry=retry)
    read = store.read(path, 0, 100)
    assert eventually(lambda: proxy.counts()["503"] > 1)
    assert read.cancel()
    time.sleep(3 * blocking.NAP_S)
    before = proxy.counts()["503"]
    time.sleep(1.0)
    assert proxy.counts()["503"] == before


def test_what_has_not_begun_never_does(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("x", DATA)
    store, path = s3.open("x")
    assert bytes(store.read(path, 0, 9).result()) == DATA[:9]
    here, ready, asked = threading.Event(), threading.Semaphore(0), []
    get = obstore.get

    def held(*args: Any, **more: Any) -> Any:
        asked.append(args)
        ready.release()
        here.wait(60)
        return get(*args, **more)

    monkeypatch.setattr(blocking, "MOST_THREADS", 2)
    monkeypatch.setattr(blocking, "_askers", PerProcess(blocking.Askers))
    monkeypatch.setattr(obstore, "get", held)
    begun = [store.read(path, 0, 100) for _ in range(10)]
    for _ in range(2):
        assert ready.acquire(timeout=60)
    assert all(read.cancel() for read in begun[1:])
    here.set()
    assert bytes(begun[0].result()) == DATA[:100]
    assert bytes(store.read(path, 100, 200).result()) == DATA[100:200]
    assert len(asked) == 3


def test_abandoned_readers_leave_no_more_threads(s3: Place, shaped: Proxy) -> None:
    with tfs.ShardedWriter(s3.url("d"), num_shards=2, storage=s3.storage()) as writer:
        writer.write_batch([os.urandom(1000) for _ in range(8_000)])
    proxy = shaped(s3.endpoint, ttfb_ms=30)
    storage = s3.through(proxy.endpoint).storage()
    most = 0
    for _ in range(6):
        reader = tfs.RecordReader(s3.url("d"), storage=storage)
        records = iter(reader)
        next(records)
        most = most or requesting() + 32
        del reader, records
        gc.collect()
        assert requesting() <= most


# --- stores that stall


def test_an_answer_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read ever waits for long, but the answer would take minutes."""

    class Trickles(Handler):
        def answer(self, *, head: bool) -> None:
            self.close_connection = True
            self.send_response_only(206)
            for name, value in (("ETag", '"1"'), ("Content-Length", "1000"),
                                ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT"),
                                ("Content-Range", "bytes 0-999/1000")):  # fmt: skip
                self.send_header(name, value)
            self.end_headers()
            for _ in range(0 if head else 1000):
                try:
                    self.wfile.write(b"x")
                    self.wfile.flush()
                except OSError:
                    return
                time.sleep(0.2)

    monkeypatch.setattr(obstore_native, "MOST_BYTES", 1)
    with web_server(Trickles) as web:
        options = {"endpoint_url": web.endpoint, "key": "k", "secret": "s"}
        retry = Retry(attempts=2, timeout=1.5, base_delay=0)
        store, path = open_store("s3://bucket/x", options, retry=retry)
        with pytest.raises(TimeoutError, match="2 attempts") as raised:
            store.read(path, 0, 1000).result()
    assert (raised.value.errno, raised.value.filename) == (errno.ETIMEDOUT, "s3://bucket/x")


def test_a_stalled_store_is_a_timeout(s3: Place, shaped: Proxy) -> None:
    s3.put("x", DATA)
    proxy = shaped(s3.endpoint, p_stall=1.0, stall_s=20)
    retry = Retry(attempts=2, timeout=1, base_delay=0)
    store, path = s3.through(proxy.endpoint).open("x", retry=retry)
    with pytest.raises(TimeoutError, match="2 attempts") as raised:
        store.read(path, 0, 100).result()
    assert raised.value.filename == s3.url("x")


# --- the ends of processes

READING = """
import json, os, signal, sys, threading, time
import tfio_store as tfs
url, options, how = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
storage = tfs.Storage(options)
def read(count):
    for _ in range(count):
        for batch in tfs.RecordReader(url, storage=storage).batches():
            begun.set()
begun = threading.Event()
threads = [threading.Thread(target=read, args=(1000,), daemon=True) for _ in range(3)]
if how == "reading":
    for thread in threads: thread.start()
    begun.wait()
elif how == "half read":
    reader = tfs.RecordReader(url, storage=storage)
    kept = iter(reader)
    next(kept)
elif how == "stalled":
    store, path = storage.open(url)
    reads = [store.read(path, 0, 100) for _ in range(10)]
    time.sleep(1)
elif how == "interrupted":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    store, path = storage.open(url)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        store.read(path, 0, 100).result()
    except KeyboardInterrupt:
        print("interrupted")
elif how == "forked":
    store, path = storage.open(url)
    expected = bytes(store.read(path, 5, 500).result())
    for _ in range(3):
        reads = [store.read(path, 0, 1000) for _ in range(40)]
        child = os.fork()
        if child == 0:
            os._exit(0 if bytes(store.read(path, 5, 500).result()) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert {bytes(read.result())[5:500] for read in reads} == {expected}
"""


def ends(how: str, url: str, options: dict[str, Any]) -> str:
    argv = [sys.executable, "-c", READING, url, json.dumps(options), how]
    done = subprocess.run(argv, check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    words = "Fatal", "panicked", "terminate", "dumped"
    assert not any(word in done.stderr for word in words), done.stderr
    return done.stdout


@pytest.fixture
def dataset(s3: Place) -> str:
    with tfs.ShardedWriter(s3.url("d"), num_shards=2, storage=s3.storage()) as writer:
        writer.write_batch([os.urandom(1000) for _ in range(5000)])
    return s3.url("d")


@pytest.mark.parametrize("how", ["reading", "half read"])
@pytest.mark.parametrize("number", first(1, [1, 6]))
def test_a_process_ends_while_it_reads(s3: Place, dataset: str, how: str, number: int) -> None:
    for _ in range(number):
        ends(how, dataset, s3.storage_options)


def test_a_process_ends_while_a_store_stalls(s3: Place, shaped: Proxy) -> None:
    """The test's own limit of time shows that it doesn't wait for the store."""
    url = s3.put("x", DATA)
    proxy = shaped(s3.endpoint, p_stall=1.0, stall_s=600)
    ends("stalled", url, s3.through(proxy.endpoint).storage_options)


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="needs signals")
def test_control_c_ends_a_wait(s3: Place, shaped: Proxy) -> None:
    url = s3.put("x", DATA)
    proxy = shaped(s3.endpoint, p_stall=1.0, stall_s=600)
    assert ends("interrupted", url, s3.through(proxy.endpoint).storage_options) == "interrupted\n"


def test_a_child_of_a_reading_process_reads(s3: Place) -> None:
    ends("forked", s3.put("x", DATA), s3.storage_options)


# --- what is said


@pytest.mark.parametrize(("backend", "level"), [("auto", "INFO"), ("obstore", "WARNING")])
def test_a_bucket_that_obstore_cannot_read_is_told_once(
    s3: Place, caplog: pytest.LogCaptureFixture, backend: str, level: str
) -> None:
    s3.put("x", DATA)
    options = {**s3.storage_options, "s3_additional_kwargs": {"ExpectedBucketOwner": "1"}}
    with caplog.at_level(logging.INFO, "tfio_store"):
        store, path = open_store(s3.url("x"), options, backend=backend)
        for _ in range(3):
            assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    (told,) = [each for each in caplog.records if "read through fsspec" in each.getMessage()]
    assert told.levelname == level
    assert "ExpectedBucketOwner" in store.client_of(path)  # type: ignore[attr-defined]


def test_a_bucket_that_obstore_finds_nothing_in_is_asked_by_fsspec_too(
    gcs: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The emulator has no XML interface, and calls each of its objects missing or refuses them."""
    gcs.put("x", DATA[:1000])
    with caplog.at_level(logging.INFO, "tfio_store"):
        store, path = gcs.open("x", retry=ONCE)
        for _ in range(3):
            assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    told = [each for each in caplog.records if "from now on" in each.getMessage()]
    assert [each.levelname for each in told] == ["INFO"]
    with pytest.raises(FileNotFoundError):
        store.read(f"{path}-not", 3, 9).result()


@pytest.mark.parametrize("status", [403, 503])
def test_a_refusal_may_be_long(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """To look for secrets in all of it would take minutes."""

    class Long(Handler):
        def answer(self, *, head: bool) -> None:
            self.send(status, b"key=a1 ://u:p@ " * (2 << 20), {}, head=head)

    with web_server(Long) as web, caplog.at_level(logging.INFO, "tfio_store"):
        options = {"endpoint_url": web.endpoint, "key": "k", "secret": "s"}
        store, path = open_store("s3://bucket/x", options, retry=Retry(attempts=2, base_delay=0))
        kind = PermissionError if status == 403 else ConnectionError
        with pytest.raises(kind) as raised:
            store.read(path, 0, 1000).result()
    assert raised.value.filename == "s3://bucket/x"
    assert len(str(raised.value)) < 10_000
    assert len(caplog.text) < 10_000
