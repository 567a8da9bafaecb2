"""What stores may hold, and that they let it go."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor

import psutil
import pytest
from fsspec.asyn import get_loop

from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tfio_store.storage import registry
from tfio_store.storage.cloud import multipart
from tfio_store.storage.connection import begun_on

Proxy = Callable[..., Shaped]


def connections_to(proxy: Shaped) -> int:
    port = int(proxy.endpoint.rpartition(":")[2])
    open_now = psutil.Process().net_connections("tcp")
    return sum(
        1 for one in open_now if one.raddr and one.raddr.port == port and one.status != "TIME_WAIT"
    )


def eventually(condition: Callable[[], bool], seconds: float = 90) -> bool:
    """Whether it comes true. One request alone may take 30 s before it is made again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        gc.collect()
        time.sleep(0.05)
    return False


def test_writers_wait_rather_than_fill_memory(ceph: Place, shaped: Proxy) -> None:
    """Four writers, each far ahead of the network, together hold no more than the bound."""
    place = ceph.through(shaped(ceph.endpoint, bandwidth=20e6).endpoint, "fsspec")
    held = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal held
        while not done.is_set():
            held = max(held, multipart._gate.here._held)
            time.sleep(0.001)

    def write(number: int) -> None:
        store, path = place.open(f"x{number}")
        output = store.open_output(path)
        for _ in range(40):
            output.write(bytes(1 << 20))
        output.commit()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    done.set()
    watcher.join()
    assert 2 * multipart.DEFAULT_PART_BYTES <= held <= multipart.BYTES_IN_FLIGHT
    assert multipart._gate.here._held == 0
    assert len(ceph.names()) == 4


def test_an_abort_while_parts_travel_leaves_nothing(
    ceph: Place, shaped: Proxy, backend: str
) -> None:
    place = ceph.through(shaped(ceph.endpoint, ttfb_ms=150).endpoint, backend)
    store, path = place.open("x")
    for _ in range(3):
        output = store.open_output(path)
        output.write(bytes(30 << 20))
        output.abort()
    assert store.pending_uploads(place.open()[1]) == []
    assert ceph.names() == []
    assert multipart._gate.here._held == 0


def test_a_dropped_output_gives_its_upload_up(ceph: Place) -> None:
    store, path = ceph.open("x")
    output = store.open_output(path)
    output.write(bytes(30 << 20))
    del output
    # Before the upload has begun, there is none either.
    assert eventually(lambda: multipart._gate.here._held == 0)
    assert eventually(lambda: store.pending_uploads(ceph.open()[1]) == [])


def test_cancelled_reads_close_their_connections(ceph: Place, shaped: Proxy) -> None:
    ceph.put("x", bytes(1 << 20))
    proxy = shaped(ceph.endpoint, p_stall=1, stall_s=30)
    store, path = ceph.through(proxy.endpoint, "fsspec").open("x")
    reads = [store.read(path, 0, 1 << 20) for _ in range(20)]
    assert eventually(lambda: connections_to(proxy) == 20)
    for read in reads:
        assert read.cancel()
    assert eventually(lambda: connections_to(proxy) == 0)


def test_a_store_that_is_let_go_closes_its_connections(
    ceph: Place, shaped: Proxy, backend: str
) -> None:
    proxy = shaped(ceph.endpoint)
    store, path = ceph.through(proxy.endpoint, backend).open("x")
    store.put(path, bytes(1000))
    for read in [store.read(path, 0, 1000) for _ in range(20)]:
        read.result()
    del read
    assert connections_to(proxy) > 0
    del store
    registry._stores.clear()
    assert eventually(lambda: connections_to(proxy) == 0, seconds=120)


def test_a_request_that_fails_when_it_is_given_up_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By asyncio, as an exception that nobody has asked for."""
    loop, begun = get_loop(), threading.Event()

    async def fail() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        raise OSError("the store is down")

    answer = begun_on(loop, fail())
    begun.wait()
    assert answer.cancel()
    for _ in range(3):
        begun_on(loop, asyncio.sleep(0)).result()
    del answer  # which knows the task
    gc.collect()
    begun_on(loop, asyncio.sleep(0)).result()
    assert "the store is down" not in caplog.text


def test_how_a_request_on_the_loop_ends() -> None:
    loop, ended = get_loop(), threading.Event()

    async def fail() -> None:
        raise OSError("the store is down")

    async def stay() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def leave() -> None:
        raise asyncio.CancelledError

    with pytest.raises(OSError, match="the store is down"):
        begun_on(loop, fail()).result()
    with pytest.raises(CancelledError):
        begun_on(loop, leave()).result()
    waiting = begun_on(loop, stay())
    begun_on(loop, asyncio.sleep(0)).result()
    assert waiting.cancel()
    assert ended.wait(60)


def test_threads_do_not_pile_up(place: Place) -> None:
    before = set(threading.enumerate())  # those of other tests
    counts = []
    for number in range(20):
        store, path = place.open(f"x{number}")
        store.put(path, b"x")
        for read in [store.read(path, 0, 1) for _ in range(20)]:
            read.result()
        since = set(threading.enumerate()) - before
        counts.append(sum("tfio_store" in thread.name for thread in since))
    assert counts[-1] <= 36  # 20 reads at a time, and 16 of the pool
    assert counts[-1] < counts[9] + 10  # not one for each store
