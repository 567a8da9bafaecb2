"""A store whose connection fails in every way that the proxy knows, one request in five."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable

import pytest

from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tests.support.long import first
from tfio_store.storage import Retry

RETRY = Retry(attempts=12, base_delay=0.01, max_delay=0.2, timeout=1.5)
FAULTS = {"p_503": 0.05, "p_reset": 0.05, "p_truncate": 0.05, "p_stall": 0.05, "stall_s": 5}


Through = Callable[..., tuple[Place, Shaped]]


@pytest.fixture(params=first(3, ["ceph", "azure+obstore", "gcs", "azure", "ceph+obstore"]))
def behind(request: pytest.FixtureRequest) -> Place:
    """A fresh bucket, reached directly."""
    server, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    found: Place = request.getfixturevalue(server)
    return dataclasses.replace(found, backend=backend or "fsspec")


@pytest.fixture
def through(behind: Place, shaped: Callable[..., Shaped]) -> Through:
    """``through(**shape)``: the bucket seen through a proxy, and the proxy."""

    def open_proxy(**shape: float) -> tuple[Place, Shaped]:
        proxy = shaped(behind.endpoint, **shape)
        return behind.through(proxy.endpoint), proxy

    return open_proxy


def test_reads_are_exact_under_faults(behind: Place, through: Through):
    data = os.urandom(8 << 20)
    behind.put("x", data)
    place, proxy = through(**FAULTS)
    store, path = place.open("x", retry=RETRY)
    step = 100_003
    starts = range(0, len(data), step)
    reads = [store.read(path, start, start + step) for start in starts]
    assert b"".join(bytes(read.result()) for read in reads) == data
    counts = proxy.counts()
    assert all(counts[fault] for fault in ("503", "reset", "truncate", "stall")), counts


def test_writes_are_exact_under_faults(behind: Place, through: Through):
    """On S3 bits flipped on the way are noticed too, and the part is sent anew."""
    flips = 0.05 if behind.root.startswith("s3:") else 0
    place, proxy = through(**FAULTS, p_flip=flips)
    number = 0
    while number < 2 or sum(list(proxy.counts().values())[2:]) <= 3:
        number += 1
        data = os.urandom(25 << 20)
        store, path = place.open(f"x{number}", retry=RETRY)
        output = store.open_output(path, part_bytes=5 << 20)
        for start in range(0, len(data), 1 << 20):
            output.write(data[start : start + (1 << 20)])
        output.commit()
        stored = hashlib.sha256(behind.get(f"x{number}")).digest()
        assert stored == hashlib.sha256(data).digest()


def test_conditions_hold_under_faults(behind: Place, through: Through):
    """A lost answer to a write that was carried out is a success, not a lost race."""
    place, proxy = through(p_reset=0.3)
    number = 0
    while number < 3 or proxy.counts()["reset"] <= 5:
        number += 1
        store, path = place.open(f"x{number}", retry=RETRY)
        etag = store.put(path, b"one", if_absent=True).etag
        store.put(path, b"two", if_match=etag)
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_match=etag)
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_absent=True)
        assert behind.get(f"x{number}") == b"two"


@pytest.mark.parametrize("fault", ["p_503", "p_reset", "p_truncate", "p_stall"])
def test_a_lasting_fault_ends_in_an_error_that_names_the_object(
    behind: Place, through: Through, fault: str
):
    behind.put("folder/x", bytes(1 << 20))
    place, proxy = through(**{fault: 1.0})
    retry = Retry(attempts=3, base_delay=0.01, max_delay=0.05, timeout=1.0)
    store, path = place.open("folder/x", retry=retry)
    with pytest.raises(OSError, match="3 attempts") as raised:
        store.read(path, 0, 1000).result()
    assert raised.value.filename == store.url(path)
    counts = proxy.counts()
    assert 1 <= counts["requests"] <= 6, counts  # aiohttp retries a reset of a kept connection


def test_what_no_retry_mends_is_asked_once(behind: Place, through: Through):
    place, proxy = through()
    store, path = place.open("missing")
    with pytest.raises(FileNotFoundError):
        store.read(path, 0, 10).result()
    assert proxy.counts()["requests"] == 1
    if "secret" not in place.storage_options:
        return
    place.storage_options["secret"] = "wrong"
    store, path = place.open("missing")
    with pytest.raises(PermissionError) as raised:
        store.read(path, 0, 10).result()
    assert proxy.counts()["requests"] == 2 + (place.backend == "obstore")  # fsspec is asked, too
    assert "wrong" not in str(raised.value)
