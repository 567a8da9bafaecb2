"""``make bench-s3``: what a GiB from a bucket costs the client, beside its plain ranges.

What there is to reach are the same bytes of the same objects, read by the same client in concurrent
ranges that nobody looks at. The store is `bench.fast_store`, a process that costs next to nothing:
the processor time is the client's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import fsspec.asyn
import numpy as np
import s3fs
import tensorflow as tf

import tfio_store as tfs
from bench.data import FLOATS, INTS, scalars
from bench.fast_store import fast_store, options
from bench.timing import costs, machine, scratch, table

RANGE_BYTES = 8 << 20
IN_FLIGHT = {"fsspec": 16, "obstore": 32}
ROW_BYTES = {"10 scalars": 170, "100 kB": 100_000}
BATCH = {"10 scalars": 1024, "100 kB": 32}
SPEC = {name: tf.io.FixedLenFeature([], tf.int64) for name in INTS}
SPEC |= {name: tf.io.FixedLenFeature([], tf.float32) for name in FLOATS}


def rows(what: str, count: int) -> Any:
    if what == "10 scalars":
        return tfs.encode_examples(scalars(count))
    data, size = np.random.default_rng(1).bytes(16 << 20), ROW_BYTES[what]
    return [data[at : at + size] for at in (i * 7919 % (len(data) - size) for i in range(count))]


def reduced(dataset: tf.data.Dataset) -> None:
    dataset.reduce(np.int64(0), lambda count, _: count + 1)


class Shards:
    """A dataset of 16 raw shards in a bucket."""

    def __init__(self, endpoint: str, what: str) -> None:
        self.options, self.what, self.url = options(endpoint), what, f"s3://bench/{what[:3]}"
        self._fs = s3fs.S3FileSystem(**self.options, use_listings_cache=False)
        shards = self._fs.glob(f"{self.url}-*.tfrecord", detail=True).values()
        self._ranges = [
            (shard["name"], start, min(start + RANGE_BYTES, shard["size"]))
            for shard in shards
            for start in range(0, shard["size"], RANGE_BYTES)
        ]
        self.nbytes = sum(shard["size"] for shard in shards)

    def ways(self, backend: str) -> dict[str, Callable[[], object]]:
        ranges = {"fsspec": self.fsspec_ranges, "obstore": self.obstore_ranges}[backend]
        done = "parsed" if self.what == "10 scalars" else "batches"
        return {
            "plain ranges": ranges,
            "RecordReader": partial(self.records, backend),
            done: partial(reduced, self.batches(backend, shuffle=False)),
            f"shuffled, {done}": partial(reduced, self.batches(backend, shuffle=True)),
        }

    def records(self, backend: str) -> None:
        storage = tfs.Storage(self.options, backend=backend)
        for _ in tfs.RecordReader(self.url, storage=storage).batches():
            pass

    def batches(self, backend: str, *, shuffle: bool) -> tf.data.Dataset:
        return tfs.TFRecordDataset(
            self.url,
            batch_size=BATCH[self.what],
            schema=SPEC if self.what == "10 scalars" else None,
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

        store = obstore.store.S3Store(
            "bench",
            endpoint=self.options["endpoint_url"],
            access_key_id=self.options["key"],
            secret_access_key=self.options["secret"],
            region="us-east-1",
            client_options={"allow_http": True},
            virtual_hosted_style_request=False,
        )

        def one(span: tuple[str, int, int]) -> None:
            path, start, end = span
            obstore.get_range(store, path.removeprefix("bench/"), start=start, end=end)

        with ThreadPoolExecutor(IN_FLIGHT["obstore"]) as pool:
            list(pool.map(one, self._ranges))


def measure(shards: Shards, rounds: int) -> list[list[str]]:
    """The lines of one kind of rows: candidates take turns."""
    ways = {of: shards.ways(of) for of in IN_FLIGHT}
    runs = {f"{how}, {of}": run for of in ways for how, run in ways[of].items()}
    cost_of = costs(runs, rounds=rounds)
    lines = []
    for how in ways["fsspec"]:
        several = [cost_of[f"{how}, {of}"] for of in IN_FLIGHT]
        speeds = [f"{shards.nbytes / cost.wall / 1e6:.0f}" for cost in several]
        busy = [f"{cost.busy / shards.nbytes * 2**30:.2f}" for cost in several]
        lines.append([f"{shards.what}: {how}", *speeds, *busy])
        print(*lines[-1], sep=" | ", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="data of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    lines: list[list[str]] = []
    with scratch() as folder, fast_store(folder) as endpoint:
        for what, nbytes in ROW_BYTES.items():
            with tfs.ShardedWriter(f"{folder}/bench/{what[:3]}", num_shards=16) as writer:
                writer.write_batch(rows(what, (given.mib << 20) // nbytes))
            lines += measure(Shards(endpoint, what), given.rounds)
    print(machine(), "load", *os.getloadavg())
    heads = ["", *(f"{of}, MB/s" for of in IN_FLIGHT), *(f"{of}, CPU s/GiB" for of in IN_FLIGHT)]
    print(table("From S3, as fast as it goes", heads, lines))


if __name__ == "__main__":
    main()
