"""A store whose connection fails in every way that the proxy knows, one request in five."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable

import pytest

from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tfio_store.storage import Retry

RETRY = Retry(attempts=12, base_delay=0.01, max_delay=0.2, timeout=1.5)
FAULTS = {"p_503": 0.05, "p_reset": 0.05, "p_truncate": 0.05, "p_stall": 0.05, "stall_s": 5}


@pytest.fixture(params=["fsspec", "obstore"])
def through(
    request: pytest.FixtureRequest, ceph: Place, shaped: Callable[..., Shaped]
) -> Callable[..., tuple[Place, Shaped]]:
    """``through(**shape)``: the bucket seen through a proxy, and the proxy."""

    def open_proxy(**shape: float) -> tuple[Place, Shaped]:
        proxy = shaped(ceph.endpoint, **shape)
        options = {**ceph.storage_options, "endpoint_url": proxy.endpoint}
        place = dataclasses.replace(ceph, storage_options=options, backend=request.param)
        return place, proxy

    return open_proxy


def test_reads_are_exact_under_faults(ceph: Place, through: Callable[..., tuple[Place, Shaped]]):
    data = os.urandom(8 << 20)
    ceph.put("x", data)
    place, proxy = through(**FAULTS)
    store, path = place.open("x", retry=RETRY)
    step = 100_003
    starts = range(0, len(data), step)
    reads = [store.read(path, start, start + step) for start in starts]
    assert b"".join(bytes(read.result()) for read in reads) == data
    counts = proxy.counts()
    assert all(counts[fault] for fault in ("503", "reset", "truncate", "stall")), counts


def test_writes_are_exact_under_faults(ceph: Place, through: Callable[..., tuple[Place, Shaped]]):
    """Bits flipped on the way are noticed too: the part is sent anew, or (obstore) it raises."""
    flips = 0.05 if through()[0].backend == "fsspec" else 0
    place, proxy = through(**FAULTS, p_flip=flips)
    for number in range(6):
        data = os.urandom(25 << 20)
        store, path = place.open(f"x{number}", retry=RETRY)
        output = store.open_output(path, part_bytes=5 << 20)
        for start in range(0, len(data), 1 << 20):
            output.write(data[start : start + (1 << 20)])
        output.commit()
        stored = hashlib.sha256(ceph.get(f"x{number}")).digest()
        assert stored == hashlib.sha256(data).digest()
    assert sum(list(proxy.counts().values())[2:]) > 3


def test_conditions_hold_under_faults(ceph: Place, through: Callable[..., tuple[Place, Shaped]]):
    """A lost answer to a write that was carried out is a success, not a lost race."""
    place, proxy = through(p_reset=0.3)
    for number in range(15):
        store, path = place.open(f"x{number}", retry=RETRY)
        etag = store.put(path, b"one", if_absent=True).etag
        store.put(path, b"two", if_match=etag)
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_match=etag)
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_absent=True)
        assert ceph.get(f"x{number}") == b"two"
    assert proxy.counts()["reset"] > 5


@pytest.mark.parametrize("fault", ["p_503", "p_reset", "p_truncate", "p_stall"])
def test_a_lasting_fault_ends_in_an_error_that_names_the_object(
    ceph: Place, through: Callable[..., tuple[Place, Shaped]], fault: str
):
    ceph.put("folder/x", bytes(1 << 20))
    place, proxy = through(**{fault: 1.0})
    retry = Retry(attempts=3, base_delay=0.01, max_delay=0.05, timeout=0.4)
    store, path = place.open("folder/x", retry=retry)
    begun = time.monotonic()
    with pytest.raises(OSError, match="3 attempts") as raised:
        store.read(path, 0, 1000).result()
    assert raised.value.filename == store.url(path)
    assert 3 <= proxy.counts()["requests"] <= 6  # aiohttp retries a reset of a kept connection
    assert time.monotonic() - begun < 20  # not the minutes that clients wait by themselves


def test_what_no_retry_mends_is_asked_once(
    ceph: Place, through: Callable[..., tuple[Place, Shaped]]
):
    place, proxy = through()
    store, path = place.open("missing")
    with pytest.raises(FileNotFoundError):
        store.read(path, 0, 10).result()
    assert proxy.counts()["requests"] == 1
    place.storage_options["secret"] = "wrong"
    store, path = place.open("missing")
    with pytest.raises(PermissionError) as raised:
        store.read(path, 0, 10).result()
    assert proxy.counts()["requests"] == 2
    assert "wrong" not in str(raised.value)
