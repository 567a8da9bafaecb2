"""``make bench-random``: 1,000 scattered records of 10 KiB on S3, beside the same ranges read raw.

The store is Ceph's gateway on this machine (moto where Ceph is not installed), once as it is and
once behind a proxy that makes each request wait 30 ms and gives each connection 80 MB/s.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import s3fs

import tfio_store as tfs
from bench.native import native_store
from bench.timing import machine, medians, table
from tests.servers import ceph as ceph_server
from tests.servers.moto import KEY, SECRET, moto
from tests.servers.shaping_proxy import shaped

RECORD_BYTES = 10 << 10
FRAME_BYTES = RECORD_BYTES + 16
TTFB_MS, BANDWIDTH = 30, 80e6
IN_FLIGHT = 32
KEY_OF_SHARD = "train-00000-of-00001.tfrecord"


class Bucket:
    """A dataset of one raw shard on a store, and the ways to read some of its records."""

    def __init__(self, endpoint: str, keys: tuple[str, str]) -> None:
        key, secret = keys
        self.options = {"endpoint_url": endpoint, "key": key, "secret": secret}
        self.endpoint, self.url = endpoint, "s3://bench/train"

    def fill(self, nbytes: int) -> None:
        s3fs.S3FileSystem(**self.options).mkdir("bench")
        records = [os.urandom(RECORD_BYTES) for _ in range(1024)]
        with tfs.ShardedWriter(self.url, num_shards=1, storage_options=self.options) as writer:
            for _ in range(nbytes // RECORD_BYTES // len(records)):
                writer.write_batch(records)

    def source(self, backend: str) -> tfs.RecordSource:
        return tfs.RecordSource(
            self.url, storage=tfs.Storage(self.options, backend=backend), cache_bytes=0
        )

    def obstore_threads(self, numbers: list[int]) -> None:
        import obstore

        store = self.native()

        def one(number: int) -> None:
            start = number * FRAME_BYTES
            obstore.get_range(store, KEY_OF_SHARD, start=start, end=start + FRAME_BYTES)

        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            list(pool.map(one, numbers))

    def obstore_async(self, numbers: list[int]) -> None:
        import obstore

        async def all_of_them() -> None:
            turn, store = asyncio.Semaphore(IN_FLIGHT), self.native()

            async def one(number: int) -> None:
                async with turn:
                    start = number * FRAME_BYTES
                    end = start + FRAME_BYTES
                    await obstore.get_range_async(store, KEY_OF_SHARD, start=start, end=end)

            await asyncio.gather(*map(one, numbers))

        asyncio.run(all_of_them())

    def boto3_threads(self, numbers: list[int]) -> None:
        import botocore.session
        from botocore.config import Config

        client = botocore.session.get_session().create_client(
            "s3",
            "us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.options["key"],
            aws_secret_access_key=self.options["secret"],
            config=Config(max_pool_connections=IN_FLIGHT, s3={"addressing_style": "path"}),
        )

        def one(number: int) -> None:
            start = number * FRAME_BYTES
            span = f"bytes={start}-{start + FRAME_BYTES - 1}"
            client.get_object(Bucket="bench", Key=KEY_OF_SHARD, Range=span)["Body"].read()

        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            list(pool.map(one, numbers))

    def native(self) -> Any:
        return native_store(self.endpoint, self.options["key"], self.options["secret"])


@contextmanager
def server() -> Iterator[tuple[str, str, tuple[str, str]]]:
    """A server's name, endpoint URL and keys, while the block runs."""
    if ceph_server.installed():
        with ceph_server.ceph() as endpoint:
            yield "Ceph", endpoint, (ceph_server.KEY, ceph_server.SECRET)
        return
    with moto() as endpoint:
        yield "moto", endpoint, (KEY, SECRET)


def speeds(bucket: Bucket, numbers: list[int], rounds: int) -> list[list[str]]:
    ours = {backend: bucket.source(backend) for backend in ("fsspec", "obstore")}
    ways: dict[str, Callable[[], object]] = {
        "boto3, 32 threads, raw": lambda: bucket.boto3_threads(numbers),
        "obstore, 32 threads, raw": lambda: bucket.obstore_threads(numbers),
        "obstore, asyncio, raw": lambda: bucket.obstore_async(numbers),
        "RecordSource": lambda: ours["fsspec"][numbers],
        "RecordSource, obstore": lambda: ours["obstore"][numbers],
    }
    seconds = medians(ways, rounds=rounds, round_s=0)
    obstore = min(taken for way, taken in seconds.items() if "obstore" in way and "raw" in way)
    return [
        [
            way,
            f"{len(numbers) / taken:,.0f}",
            f"{seconds['boto3, 32 threads, raw'] / taken:.2f}",
            f"{obstore / taken:.2f}",
        ]
        for way, taken in seconds.items()
    ]


def bytes_read(bucket: Bucket, counts: Callable[[], dict[str, Any]], of: int) -> list[list[str]]:
    rows = []
    dice = random.Random(1)
    starts = dice.sample(range(of - 10), 100)
    for name, numbers in (
        ("scattered", dice.sample(range(of), 1000)),
        ("100 clusters of 10", sorted({start + i for start in starts for i in range(10)})),
    ):
        source = bucket.source("fsspec")
        before = counts()
        source[numbers]
        after = counts()
        read = (after["bytes"] - before["bytes"]) / (len(numbers) * FRAME_BYTES)
        rows.append([name, f"{after['requests'] - before['requests']}", f"{read:.2f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the shard")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(machine(), "\n")
    with ExitStack() as stack:
        name, endpoint, keys = stack.enter_context(server())
        direct = Bucket(endpoint, keys)
        direct.fill(arguments.mib << 20)
        proxy = stack.enter_context(shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=BANDWIDTH))
        behind = Bucket(proxy.endpoint, keys)
        count = len(direct.source("fsspec"))
        size = f"1,000 records of 10 KiB out of {arguments.mib} MiB on {name}"
        rows = bytes_read(behind, proxy.counts, count)
        print(table(f"{size}, as one list", ["", "requests", "bytes read : wanted"], rows))
        numbers = random.Random(2).sample(range(count), 1000)
        for place, bucket in (("as it is", direct), ("30 ms, 80 MB/s a connection", behind)):
            heads = ["", "records/s", ": boto3", ": obstore"]
            rows = speeds(bucket, numbers, arguments.rounds)
            print(table(f"{size}, {place}", heads, rows), flush=True)


if __name__ == "__main__":
    main()
