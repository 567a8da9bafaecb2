"""``make bench-training-s3`` and ``make bench-s3``: batches from a bucket, beside its plain ranges.

What there is to reach are the same bytes of the same objects, read by the same client in concurrent
ranges that nobody looks at. The store is Ceph's gateway on this machine, behind a proxy that makes
each request wait 30 ms and gives each connection 80 MB/s (``--bandwidth``), as a bucket in the same
region does. The store and its proxy take their share of the cores. So the table tells the processor
time of the client too: without waiting for cores, that is the limit.

With ``--fast`` the store is `bench.fast_store`, which costs next to nothing. So it blurs neither
the processor time nor the memory that the kernel has to clear for the client.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fsspec.asyn
import s3fs
import tensorflow as tf

import tfio_store as tfs
from bench import fast_store
from bench.native import native_store
from bench.timing import machine, medians, table
from bench.training import SPECS, reduced, scalars, tokens
from tests.servers import ceph
from tests.servers.shaping_proxy import shaped

RANGE_BYTES = 8 << 20
TTFB_MS = 30
PICTURE_BYTES = 100_000


def pictures(count: int) -> list[bytes]:
    data = os.urandom(16 << 20)
    most = len(data) - PICTURE_BYTES
    return [data[at : at + PICTURE_BYTES] for at in (i * 7919 % most for i in range(count))]


class Kind(NamedTuple):
    """How many bytes ``make`` takes for a row, and how many rows are a batch."""

    make: Callable[[int], Any]
    nbytes: int
    batch: int


KINDS = {
    "10 scalars": Kind(scalars, 170, 1024),
    "tokens": Kind(tokens, 300, 1024),
    "100 kB": Kind(pictures, PICTURE_BYTES, 32),
}
IN_FLIGHT = {"fsspec": 16, "obstore": 32}


class Shards:
    """A dataset of 16 raw shards in a bucket."""

    def __init__(self, options: dict[str, Any], name: str) -> None:
        self.options, self.url = options, f"s3://bench/{name}"
        self._fs = s3fs.S3FileSystem(**options, use_listings_cache=False)

    def measure(self) -> None:
        """Find the ranges that all shards are made of."""
        shards = self._fs.glob(f"{self.url}-*.tfrecord", detail=True).values()
        self._ranges = [
            (shard["name"], start, min(start + RANGE_BYTES, shard["size"]))
            for shard in shards
            for start in range(0, shard["size"], RANGE_BYTES)
        ]
        self.nbytes = sum(shard["size"] for shard in shards)

    def records(self, backend: str) -> None:
        storage = tfs.Storage(self.options, backend=backend)
        for _ in tfs.RecordReader(self.url, storage=storage).batches():
            pass

    def batches(self, backend: str, *, what: str, shuffle: bool) -> tf.data.Dataset:
        return tfs.TFRecordDataset(
            self.url,
            batch_size=KINDS[what].batch,
            schema=SPECS.get(what),
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

        store = native_store(*(self.options[name] for name in ("endpoint_url", "key", "secret")))

        def one(span: tuple[str, int, int]) -> None:
            path, start, end = span
            obstore.get_range(store, path.removeprefix("bench/"), start=start, end=end)

        with ThreadPoolExecutor(IN_FLIGHT["obstore"]) as pool:
            list(pool.map(one, self._ranges))


class Costs(NamedTuple):
    """What a run takes of this process: processor seconds, and bytes of memory mapped anew."""

    cpu: float
    mapped: int

    @classmethod
    def now(cls) -> Costs:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return cls(time.process_time(), faults * resource.getpagesize())


def counted(run: Callable[[], object], found: list[Costs]) -> Callable[[], object]:
    """As ``run``, whose costs are added to ``found``."""

    def measured() -> None:
        before = Costs.now()
        run()
        after = Costs.now()
        found.append(Costs(after.cpu - before.cpu, after.mapped - before.mapped))

    return measured


def measure(shards: Shards, what: str, rounds: int) -> list[list[str]]:
    """The lines of one kind of rows: candidates take turns."""
    raw = {"fsspec": shards.fsspec_ranges, "obstore": shards.obstore_ranges}
    parsed = "parsed" if what in SPECS else "batches"
    candidates: dict[str, Callable[[], object]] = {}
    for backend, ranges in raw.items():
        candidates[f"{backend}: plain ranges"] = ranges
        candidates[f"{backend}: RecordReader"] = partial(shards.records, backend)
        for how, shuffle in ((parsed, False), (f"shuffled, {parsed}", True)):
            found = shards.batches(backend, what=what, shuffle=shuffle)
            candidates[f"{backend}: {how}"] = partial(reduced, found)
    costs: dict[str, list[Costs]] = {name: [] for name in candidates}
    runs = {name: counted(run, costs[name]) for name, run in candidates.items()}
    seconds = medians(runs, rounds=rounds, round_s=0)
    lines = []
    for name, taken in seconds.items():
        share = seconds[f"{name.partition(':')[0]}: plain ranges"] / taken
        cpu, mapped = (statistics.median(each) for each in zip(*costs[name], strict=True))
        speed, per_gib = shards.nbytes / taken / 1e6, cpu / shards.nbytes * 2**30
        cells = [f"{speed:.0f}", f"{share:.2f}", f"{per_gib:.2f}", f"{mapped / shards.nbytes:.2f}"]
        lines.append([f"{what}, {name}", *cells])
        print(*lines[-1], flush=True)
    return lines


Fill: TypeAlias = Callable[[str, Any], None]


@contextlib.contextmanager
def behind_a_proxy(bandwidth: float) -> Iterator[tuple[dict[str, Any], Fill]]:
    """The ``storage_options`` of a shaped Ceph, and how it is filled."""
    keys = {"key": ceph.KEY, "secret": ceph.SECRET}

    def fill(name: str, records: Any) -> None:
        with tfs.ShardedWriter(
            f"s3://bench/{name}", num_shards=16, storage_options={"endpoint_url": endpoint, **keys}
        ) as writer:
            writer.write_batch(records)

    with ceph.ceph() as endpoint, shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=bandwidth) as proxy:
        s3fs.S3FileSystem(endpoint_url=endpoint, **keys).mkdir("bench")
        yield {"endpoint_url": proxy.endpoint, **keys}, fill


@contextlib.contextmanager
def fast() -> Iterator[tuple[dict[str, Any], Fill]]:
    """The same of a store that costs next to nothing."""
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:

        def fill(name: str, records: Any) -> None:
            with tfs.ShardedWriter(f"{folder}/bench/{name}", num_shards=16) as writer:
                writer.write_batch(records)

        with fast_store.fast_store(folder) as endpoint:
            yield fast_store.options(endpoint), fill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=384, help="data of each kind")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=80e6, help="bytes/s of a connection")
    parser.add_argument("--fast", action="store_true", help="a store that costs next to nothing")
    given = parser.parse_args()
    lines: list[list[str]] = []
    with fast() if given.fast else behind_a_proxy(given.bandwidth) as (options, fill):
        for number, (what, kind) in enumerate(KINDS.items()):
            fill(f"rows{number}", kind.make((given.mib << 20) // kind.nbytes))
            shards = Shards(options, f"rows{number}")
            shards.measure()
            lines += measure(shards, what, given.rounds)
    print(machine(), "load", *os.getloadavg())
    shape = f"{TTFB_MS} ms, {given.bandwidth / 1e6:.0f} MB/s a connection"
    title = f"From S3, {'as fast as it goes' if given.fast else shape}"
    heads = ["", "MB/s", "of the plain ranges", "processor s per GiB", "memory mapped : bytes read"]
    print(table(title, heads, lines))


if __name__ == "__main__":
    main()
