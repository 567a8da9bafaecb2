"""``make bench-view``: how soon ``tfio-store view`` shows a dataset of 1 GiB that is behind 30 ms,
and what pages of records cost, in a browser that draws them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.timing import machine, table
from tests.conftest import fresh_bucket, s3_options
from tests.servers import ceph
from tests.servers.moto import moto
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped, shaped
from tests.show.browsing import chromium, opened
from tests.show.served import viewed

LATENCY_MS = 30
BANDWIDTH = 80e6
RECORDS = 8500
RECORD_BYTES = 120_000
ROUNDS = 3

Timed = dict[str, list[tuple[float, int]]]


def write(place: Place) -> str:
    url, chance = place.url("train"), np.random.default_rng(0)
    blob = chance.bytes(1 << 20)
    with tfs.ShardedWriter(url, num_shards=64, storage_options=place.storage_options) as writer:
        for i in range(RECORDS):
            at = int(chance.integers(len(blob) - RECORD_BYTES))
            writer.write({"id": i, "label": i % 10, "blob": blob[at : at + RECORD_BYTES]})
    return url


@contextmanager
def clock(proxy: Shaped, took: Timed) -> Iterator[Callable[[str], None]]:
    """Notes seconds and requests since the last note."""
    begun, asked = time.perf_counter(), proxy.counts()["requests"]

    def note(what: str) -> None:
        seconds, requests = time.perf_counter() - begun, proxy.counts()["requests"] - asked
        took.setdefault(what, []).append((seconds, requests))

    yield note


def look(url: str, proxy: Shaped, browser: Any, took: Timed) -> None:
    options = s3_options(proxy.endpoint)
    with clock(proxy, took) as note, viewed(url, storage_options=options, blocks=64) as client:
        address = f"http://127.0.0.1:{client.port}/?token={client.token}"
        with opened(browser, address) as tab:
            tab.page.wait_for_selector("h1")
            note("the page and its heading")
            tab.page.wait_for_selector("#report .tiles", timeout=60_000)
            note("a sample of 64 blocks, drawn")
            for what, path in (
                ("page 5 of the records", "/api/records?start=80&count=20"),
                ("one record far away", f"/api/record/{RECORDS - 9}"),
            ):
                with clock(proxy, took) as note_one:
                    client.get(path)
                    note_one(what)


def main() -> None:
    took: Timed = {}
    server = ceph.ceph if ceph.installed() else moto
    with server() as endpoint:
        url = write(fresh_bucket(endpoint))
        with shaped(endpoint, ttfb_ms=LATENCY_MS, bandwidth=BANDWIDTH) as proxy, chromium() as one:
            for _ in range(ROUNDS):
                look(url, proxy, one, took)
    rows = [
        [what, f"{statistics.median(s for s, _ in each):.2f}", str(max(r for _, r in each))]
        for what, each in took.items()
    ]
    print(machine(), f"load {os.getloadavg()[0]:.1f}", "", sep="\n")
    title = f"{RECORDS * RECORD_BYTES >> 20} MiB behind {LATENCY_MS} ms, medians of {ROUNDS}"
    print(table(title, ["what", "s", "requests"], rows))


if __name__ == "__main__":
    main()
