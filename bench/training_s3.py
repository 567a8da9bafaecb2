"""``make bench-training-s3``: shuffled, parsed batches from a bucket, beside its plain ranges.

The store is Ceph's gateway on this machine, behind a proxy that makes each request wait 30 ms and
gives each connection 80 MB/s (``--bandwidth``), as a bucket in the same region does. What there is
to reach are the same bytes of the same objects, read by the same client in concurrent ranges that
nobody looks at.

The store and its proxy take their share of the cores. So the table tells the processor time of the
client too: without waiting for cores, that is the limit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fsspec.asyn
import s3fs
import tensorflow as tf

import tfio_store as tfs
from bench.native import native_store
from bench.timing import machine, medians, table
from bench.training import SPECS, reduced, scalars, tokens
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.shaping_proxy import shaped

RANGE_BYTES = 8 << 20
TTFB_MS = 30
BATCH = 1024
ROWS = {"10 scalars": (scalars, 170), "tokens": (tokens, 300)}
IN_FLIGHT = {"fsspec": 16, "obstore": 32}


class Shards:
    """A dataset of 16 raw shards in a bucket."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
        self.url, self._endpoint = f"s3://bench/{name}", endpoint
        self._fs = s3fs.S3FileSystem(**self.options, use_listings_cache=False)

    def fill(self, records: Any) -> None:
        with tfs.ShardedWriter(self.url, num_shards=16, storage_options=self.options) as writer:
            writer.write_batch(records)

    def measure(self) -> None:
        """Find the ranges that all shards are made of."""
        shards = self._fs.glob(f"{self.url}-*.tfrecord", detail=True).values()
        self._ranges = [
            (shard["name"], start, min(start + RANGE_BYTES, shard["size"]))
            for shard in shards
            for start in range(0, shard["size"], RANGE_BYTES)
        ]
        self.nbytes = sum(shard["size"] for shard in shards)

    def batches(self, backend: str, *, shuffle: bool, spec: dict[str, Any]) -> tf.data.Dataset:
        return tfs.TFRecordDataset(
            self.url,
            batch_size=BATCH,
            schema=spec,
            shuffle=shuffle,
            storage=tfs.Storage(self.options, backend=backend),
        )

    def fsspec_ranges(self) -> None:
        async def all_of_it() -> None:
            turn = asyncio.Semaphore(IN_FLIGHT["fsspec"])

            async def one(path: str, start: int, end: int) -> None:
                async with turn:
                    await self._fs._cat_file(path, start=start, end=end)

            await asyncio.gather(*(one(*span) for span in self._ranges))

        fsspec.asyn.sync(self._fs.loop, all_of_it)

    def obstore_ranges(self) -> None:
        import obstore

        store = native_store(self._endpoint, KEY, SECRET)

        def one(span: tuple[str, int, int]) -> None:
            path, start, end = span
            obstore.get_range(store, path.removeprefix("bench/"), start=start, end=end)

        with ThreadPoolExecutor(IN_FLIGHT["obstore"]) as pool:
            list(pool.map(one, self._ranges))


def timed_cpu(run: Callable[[], object], found: list[float]) -> Callable[[], object]:
    """As ``run``, whose processor seconds in this process are ``found``."""

    def measured() -> None:
        before = time.process_time()
        run()
        found.append(time.process_time() - before)

    return measured


def measure(shards: Shards, what: str, rounds: int) -> list[list[str]]:
    """The lines of one kind of rows: candidates take turns."""
    raw = {"fsspec": shards.fsspec_ranges, "obstore": shards.obstore_ranges}
    candidates: dict[str, Callable[[], object]] = {}
    for backend, ranges in raw.items():
        candidates[f"{backend}: plain ranges"] = ranges
        for how, shuffle in (("parsed", False), ("shuffled, parsed", True)):
            found = shards.batches(backend, shuffle=shuffle, spec=SPECS[what])
            candidates[f"{backend}: {how}"] = lambda d=found: reduced(d)
    busy: dict[str, list[float]] = {name: [] for name in candidates}
    counted = {name: timed_cpu(run, busy[name]) for name, run in candidates.items()}
    seconds = medians(counted, rounds=rounds, round_s=0)
    lines = []
    for name, taken in seconds.items():
        share = seconds[f"{name.partition(':')[0]}: plain ranges"] / taken
        cpu = statistics.median(busy[name]) / shards.nbytes * 1e9
        speed = f"{shards.nbytes / taken / 1e6:.0f}"
        lines.append([f"{what}, {name}", speed, f"{share:.2f}", f"{cpu:.1f}"])
        print(*lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=384, help="data of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=80e6, help="bytes/s of a connection")
    given = parser.parse_args()
    lines: list[list[str]] = []
    shape = {"ttfb_ms": TTFB_MS, "bandwidth": given.bandwidth}
    with ceph() as endpoint, shaped(endpoint, **shape) as proxy:
        s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET).mkdir("bench")
        for number, (what, (make, per)) in enumerate(ROWS.items()):
            Shards(endpoint, f"rows{number}").fill(make((given.mib << 20) // per))
            shards = Shards(proxy.endpoint, f"rows{number}")
            shards.measure()
            lines += measure(shards, what, given.rounds)
    print(machine(), "load", *os.getloadavg())
    title = (
        f"Batches of {BATCH} from S3, {TTFB_MS} ms, {given.bandwidth / 1e6:.0f} MB/s a connection"
    )
    print(table(title, ["", "MB/s", "of the plain ranges", "processor s per GB"], lines))


if __name__ == "__main__":
    main()
