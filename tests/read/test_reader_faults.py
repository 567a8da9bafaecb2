"""Reading through a proxy that answers 503, resets, stalls and cuts bodies short."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tests.support.framed import framed

RECORDS = [b"%05d" % i * 400 for i in range(15_000)]


@pytest.fixture
def written(s3: Place) -> Place:
    for shard in range(3):
        s3.put(f"x-{shard}.tfrecord", framed(RECORDS[shard * 5_000 : (shard + 1) * 5_000]))
    return s3


def through(place: Place, proxy: Shaped) -> dict[str, Any]:
    return {**place.storage_options, "endpoint_url": proxy.endpoint}


PATIENT = tfs.Retry(base_delay=0.01, max_delay=0.1, timeout=5)


def test_passing_faults_change_nothing(written: Place, shaped: Callable[..., Shaped]) -> None:
    proxy = shaped(
        written.endpoint, p_503=0.05, p_reset=0.05, p_truncate=0.05, p_stall=0.05, stall_s=0.5
    )
    for seed in range(2):
        reader = tfs.RecordReader(
            written.url("x-*"), storage=tfs.Storage(through(written, proxy), retry=PATIENT)
        )
        assert sorted(reader.shuffle(seed)) == RECORDS
    counts = proxy.counts()
    assert all(counts[fault] > 0 for fault in ("503", "reset", "truncate")), counts


def test_a_lasting_fault_names_the_object(written: Place, shaped: Callable[..., Shaped]) -> None:
    proxy = shaped(written.endpoint, p_503=1.0)
    impatient = tfs.Retry(attempts=3, base_delay=0.01, max_delay=0.02)
    url = written.url("x-0.tfrecord")
    reader = tfs.RecordReader(url, storage_options=written.storage_options)
    assert next(iter(reader)) == RECORDS[0]
    with pytest.raises(OSError, match="x-0"):
        next(
            iter(
                tfs.RecordReader(url, storage=tfs.Storage(through(written, proxy), retry=impatient))
            )
        )
    assert proxy.counts()["requests"] <= 3


def test_nothing_is_left_running(written: Place) -> None:
    list(tfs.RecordReader(written.url("x-*"), storage_options=written.storage_options))
    before = set(threading.enumerate())
    for _ in range(25):
        reader = tfs.RecordReader(written.url("x-*"), storage_options=written.storage_options)
        next(iter(reader))
        reader.close()
    # Shared pools, and the event loop's own, may still grow to their size. A reader leaves nothing.
    assert len(set(threading.enumerate()) - before) < 20
