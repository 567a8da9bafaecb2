"""``make bench-reader``: reading an object store, side by side with what else reads it.

The store is Ceph's gateway on this machine, once as it is and once behind a proxy that makes each
request wait 30 ms and gives each connection 80 MB/s, as a bucket in the same region does. A second
table shows compressed shards on local files against `tf.data.TFRecordDataset`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import s3fs

import tfio_store as tfs
from bench.native import native_store
from bench.timing import medians, table
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.shaping_proxy import shaped
from tfio_store.records.framing import FrameWriter

RECORD_BYTES = 100_000
RANGE_BYTES = 8 << 20
TTFB_MS, BANDWIDTH = 30, 80e6


def drain(batches: Any) -> int:
    return sum(len(batch) for batch in batches)


class Bucket:
    """An object of records on a store, and the ways to read it."""

    def __init__(self, endpoint: str, nbytes: int) -> None:
        self.options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
        self.endpoint, self.url = endpoint, "s3://bench/records"
        self.fs = s3fs.S3FileSystem(**self.options, use_listings_cache=False)
        self.nbytes = nbytes

    def fill(self) -> None:
        self.fs.mkdir("bench")
        writer = FrameWriter()
        record = os.urandom(RECORD_BYTES)
        writer.write_many([record] * (self.nbytes // (RECORD_BYTES + 16)))
        data = writer.take()
        self.fs.pipe_file(self.url, bytes(data))

    def measure(self) -> None:
        self.nbytes = self.fs.info(self.url)["size"]

    def ours(self, backend: str) -> None:
        drain(
            tfs.RecordReader(self.url, storage=tfs.Storage(self.options, backend=backend)).batches()
        )

    def file_object(self) -> None:
        with self.fs.open(self.url, "rb") as file:
            drain(tfs.RecordReader(file).batches())

    def ranges(self, in_flight: int = 16) -> None:
        """Nothing but concurrent ranged reads through s3fs: what there is to reach."""
        import fsspec.asyn

        async def all_of_it() -> None:
            turn = asyncio.Semaphore(in_flight)

            async def one(start: int) -> None:
                async with turn:
                    end = min(start + RANGE_BYTES, self.nbytes)
                    await self.fs._cat_file(self.url, start=start, end=end)

            await asyncio.gather(*map(one, range(0, self.nbytes, RANGE_BYTES)))

        fsspec.asyn.sync(self.fs.loop, all_of_it)

    def obstore_ranges(self, in_flight: int = 32) -> None:
        import obstore

        store = native_store(self.endpoint, KEY, SECRET)

        def one(start: int) -> None:
            end = min(start + RANGE_BYTES, self.nbytes)
            obstore.get_range(store, "records", start=start, end=end)

        with ThreadPoolExecutor(in_flight) as pool:
            list(pool.map(one, range(0, self.nbytes, RANGE_BYTES)))


def object_store(nbytes: int, rounds: int) -> None:
    rows = []
    with ExitStack() as stack:
        endpoint = stack.enter_context(ceph())
        direct = Bucket(endpoint, nbytes)
        direct.fill()
        proxy = stack.enter_context(shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=BANDWIDTH))
        for place, bucket in (
            ("as it is", direct),
            ("30 ms, 80 MB/s a connection", Bucket(proxy.endpoint, nbytes)),
        ):
            bucket.measure()
            ways: dict[str, Callable[[], object]] = {
                "s3fs file object": bucket.file_object,
                "s3fs, 16 raw ranges": bucket.ranges,
                "obstore, 32 raw ranges": bucket.obstore_ranges,
                "RecordReader": lambda b=bucket: b.ours("fsspec"),
                "RecordReader, obstore": lambda b=bucket: b.ours("obstore"),
            }
            seconds = medians(ways, rounds=rounds, round_s=0)
            slowest = seconds["s3fs file object"]
            for way, taken in seconds.items():
                speed = bucket.nbytes / taken / 1e6
                rows.append([f"{place}: {way}", f"{speed:.0f}", f"{slowest / taken:.1f}"])
    title = f"Reading one object of {nbytes >> 20} MiB from Ceph"
    print(table(title, ["", "MB/s", "x file object"], rows))


def first_batch(rounds: int) -> None:
    """From a dataset's name to its first batch, beside one request to the same store."""
    rows = []
    with ceph() as endpoint, shaped(endpoint, ttfb_ms=TTFB_MS) as proxy:
        bucket = Bucket(proxy.endpoint, 0)
        bucket.fs.mkdir("bench")
        options: dict[str, Any] = {"storage_options": bucket.options}
        with tfs.ShardedWriter("s3://bench/train", num_shards=16, **options) as writer:
            writer.write_batch([os.urandom(100)] * 100_000)
        ways: dict[str, Callable[[], object]] = {
            "one request": lambda: bucket.fs.cat_file("s3://bench/_train.manifest.json"),
            "RecordReader": lambda: next(tfs.RecordReader("s3://bench/train", **options).batches()),
            "RecordSource": lambda: tfs.RecordSource("s3://bench/train", **options)[0],
            "TFRecordDataset": lambda: next(
                iter(tfs.TFRecordDataset("s3://bench/train", batch_size=256, **options))
            ),
        }
        seconds = medians(ways, rounds=rounds, round_s=0)
        for way, taken in seconds.items():
            rows.append([way, f"{taken * 1000:.0f}", f"{taken / seconds['one request']:.1f}"])
    title = f"To the first batch of a dataset of 16 shards on S3, {TTFB_MS} ms for each request"
    print(table(title, ["", "ms", "x one request"], rows))


def cached_epochs(nbytes: int, rounds: int) -> None:
    """The first epoch of a dataset behind the proxy, the second from a local cache, and the same
    dataset as local files on the same disk."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ceph() as endpoint,
        shaped(endpoint, ttfb_ms=TTFB_MS, bandwidth=BANDWIDTH) as proxy,
    ):
        bucket = Bucket(proxy.endpoint, 0)
        bucket.fs.mkdir("bench")
        direct = {**bucket.options, "endpoint_url": endpoint}
        records, numbers = [os.urandom(1000)] * (nbytes // 1016), itertools.count()
        for where, options in (("s3://bench", direct), (folder, None)):
            with tfs.ShardedWriter(
                f"{where}/train", num_shards=8, storage_options=options
            ) as writer:
                writer.write_batch(records)

        def opened(cache: str) -> tfs.RecordReader:
            where = f"{folder}/{cache}"
            return tfs.RecordReader(
                "s3://bench/train", storage=tfs.Storage(bucket.options, cache=where)
            )

        reader = opened("cache")
        drain(reader.batches())
        ways: dict[str, Callable[[], object]] = {
            "local files": lambda: drain(tfs.RecordReader(f"{folder}/train").batches()),
            "first epoch": lambda: drain(opened(f"cache-{next(numbers)}").batches()),
            "second epoch": lambda: drain(reader.batches()),
            "epoch of another reader": lambda: drain(opened("cache").batches()),
        }
        seconds = medians(ways, rounds=rounds, round_s=0)
        for way, taken in seconds.items():
            rows.append(
                [way, f"{nbytes / taken / 1e6:.0f}", f"{seconds['local files'] / taken:.2f}"]
            )
    title = f"Epochs of a dataset of {nbytes >> 20} MiB on S3, {TTFB_MS} ms, with cache="
    print(table(title, ["", "MB/s", "x local files"], rows))


def compressed(nbytes: int, rounds: int) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    # words of a small vocabulary: compresses about as text and JSON do
    words = [rng.bytes(int(n)) for n in rng.integers(3, 12, 2000)]
    items = [b" ".join(words[i] for i in rng.zipf(1.3, 60) % 2000) for _ in range(5000)]
    items = items * (nbytes // sum(map(len, items)) + 1)
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if Path("/dev/shm").exists() else None
    ) as folder:
        for codec in ("GZIP", "ZLIB"):
            with tfs.ShardedWriter(f"{folder}/{codec}", num_shards=4, compression=codec) as writer:
                writer.write_batch(items)
        frames = FrameWriter()
        frames.write_many(items)
        (Path(folder) / "foreign.gz").write_bytes(gzip.compress(frames.take(), 6))
        rows = []
        for name, source, codec in (
            ("GZIP written here", f"{folder}/GZIP", "GZIP"),
            ("ZLIB written here", f"{folder}/ZLIB", "ZLIB"),
            ("one foreign GZIP stream", f"{folder}/foreign.gz", "GZIP"),
        ):
            files = sorted(tf.io.gfile.glob(f"{source}*"))

            def native(files: list[str] = files, codec: str = codec) -> None:
                for _ in tf.data.TFRecordDataset(files, codec).batch(256).prefetch(2):
                    pass

            def ours(source: str = source) -> None:
                drain(tfs.RecordReader(source).batches())

            seconds = medians({"native": native, "ours": ours}, rounds=rounds, round_s=0)
            size = sum(map(len, items)) / 1e6
            speeds = [f"{size / seconds[way]:.0f}" for way in ("native", "ours")]
            rows.append([name, *speeds, f"{seconds['native'] / seconds['ours']:.1f}"])
    title = "Decompressing local shards, MB/s of records"
    print(table(title, ["", "tf.data.TFRecordDataset", "RecordReader", "ratio"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=600, help="size of the object")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["store", "first", "cached", "compressed"])
    arguments = parser.parse_args()
    if arguments.only in (None, "store"):
        object_store(arguments.mib << 20, arguments.rounds)
    if arguments.only in (None, "first"):
        first_batch(arguments.rounds)
    if arguments.only in (None, "cached"):
        cached_epochs(arguments.mib << 20, arguments.rounds)
    if arguments.only in (None, "compressed"):
        compressed(200 << 20, arguments.rounds)


if __name__ == "__main__":
    main()
