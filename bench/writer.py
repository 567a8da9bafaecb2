"""``make bench-writer``: writing, side by side with TensorFlow and with bare uploads.

    python -m bench.writer [files] [images] [gzip] [s3]

files  one local file, record by record and in batches, beside `tf.io.TFRecordWriter`
images 5.6 kB and a label as a mapping, beside `tfrecord`'s writer
gzip   one file and sharded at level 6, beside TensorFlow's at its default, which is 6 too
s3     1 GiB into 16 shards on Ceph's gateway on this machine, beside 16 multipart uploads of as
       many bytes made by the same client (s3fs's) with nothing else to do, each in a process of
       its own, and the memory that the process took
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tfio_store as tfs
from bench.timing import machine, table

SHARDS = 16
PART_BYTES = 8 << 20
S3_BYTES = 1 << 30
BUDGET = 256 << 20
MIB = 1 << 20


def rounds(candidates: dict[str, Callable[[], object]], count: int = 5) -> dict[str, float]:
    """Median seconds of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(count + 1):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def one_by_one(writer: Any, records: Iterable[Any]) -> None:
    with writer:
        write = writer.write
        for record in records:
            write(record)


def in_batches(writer: Any, records: list[bytes] | tfs.RecordBatch) -> None:
    with writer:
        writer.write_batch(records)


def sharded(folder: str, **options: Any) -> tfs.ShardedWriter:
    return tfs.ShardedWriter(f"{folder}/ds", num_shards=SHARDS, if_exists="overwrite", **options)


def files() -> Iterator[str]:
    import tensorflow as tf

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = f"{folder}/file"
        for size, count in ((100, 500_000), (1024, 200_000), (102_400, 3000)):
            records = [os.urandom(size) for _ in range(min(count, 1000))] * max(1, count // 1000)
            batch = tfs.RecordBatch.from_records(records)
            times = rounds(
                {
                    "tf.io, write": lambda r=records: one_by_one(tf.io.TFRecordWriter(path), r),
                    "write": lambda r=records: one_by_one(tfs.TFRecordWriter(path), r),
                    "write_batch(list)": lambda r=records: in_batches(tfs.TFRecordWriter(path), r),
                    "write_batch(RecordBatch)": lambda b=batch: in_batches(
                        tfs.TFRecordWriter(path), b
                    ),
                    "16 shards, write": lambda r=records: one_by_one(sharded(folder), r),
                    "16 shards, write_batch(list)": lambda r=records: in_batches(
                        sharded(folder), r
                    ),
                }
            )
            yield rate_table(f"{len(records):,} records of {size:,} B, tmpfs", times, records)


def images() -> Iterator[str]:
    # no TensorFlow here: its protos and this peer's do not go into one process
    from tfrecord.writer import TFRecordWriter as Peer

    rows = [{"image": os.urandom(5600), "label": i % 10} for i in range(1000)] * 20
    schema = {"image": tfs.Feature("bytes"), "label": tfs.Feature("int64")}

    def peer(path: str) -> None:
        writer = Peer(path)
        for row in rows:
            writer.write({"image": (row["image"], "byte"), "label": (row["label"], "int")})
        writer.close()

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        times = rounds(
            {
                "tfrecord": lambda: peer(f"{folder}/file"),
                "16 shards, write": lambda: one_by_one(sharded(folder), rows),
                "16 shards, write, schema=": lambda: one_by_one(
                    sharded(folder, schema=schema), rows
                ),
            }
        )
        title = "Images of 5,600 B with a label, mappings, tmpfs"
        yield rate_table(title, times, [row["image"] for row in rows], "times tfrecord")


def gzip() -> Iterator[str]:
    import tensorflow as tf

    data = source_text(64 * MIB)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = f"{folder}/file"
        for size in (1024, 102_400):
            records = [data[i : i + size] for i in range(0, len(data), size)]
            times = rounds(
                {
                    "tf.io": lambda r=records: one_by_one(tf.io.TFRecordWriter(path, "GZIP"), r),
                    "TFRecordWriter": lambda r=records: in_batches(
                        tfs.TFRecordWriter(path, "GZIP"), r
                    ),
                    "16 shards": lambda r=records: in_batches(
                        sharded(folder, compression="GZIP", level=6), r
                    ),
                },
                count=3,
            )
            yield rate_table(f"GZIP level 6, records of {size:,} B of text", times, records)


def source_text(nbytes: int) -> bytes:
    """Python's own library: text with the redundancy that text has."""
    found = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    return (found * (nbytes // len(found) + 1))[:nbytes]


def rate_table(
    title: str, times: dict[str, float], records: list[bytes], ratio: str = "times tf.io"
) -> str:
    base, nbytes = next(iter(times.values())), sum(map(len, records))
    rows = [
        [name, f"{nbytes / t / 1e6:,.0f}", f"{t / len(records) * 1e9:,.0f}", f"{base / t:.2f}"]
        for name, t in times.items()
    ]
    return table(title, ["", "MB/s", "ns/record", ratio], rows)


def s3() -> Iterator[str]:
    from tests.conftest import fresh_bucket
    from tests.servers.ceph import ceph

    kinds = ["bare uploads", "1 KiB", "100 KiB", "1 KiB, GZIP 1"]
    with ceph() as endpoint:
        found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        for _ in range(4):
            for kind in kinds:
                place = fresh_bucket(endpoint)
                found[kind].append(in_a_process(kind, place.root, place.storage_options))
                place.fs.rm(place.root, recursive=True)
    seconds = {k: statistics.median(r["seconds"] for r in runs[1:]) for k, runs in found.items()}
    memory = {k: max(r["memory"] for r in runs) for k, runs in found.items()}
    rows = [
        [
            kind,
            f"{S3_BYTES / seconds[kind] / 1e6:,.0f}",
            f"{seconds['bare uploads'] / seconds[kind]:.0%}",
            f"{memory[kind] / MIB:,.0f}",
        ]
        for kind in kinds
    ]
    title = f"1 GiB into {SHARDS} shards on S3 (Ceph, memory); budget {BUDGET // MIB} MiB"
    yield table(title, ["", "MB/s", "of bare", "memory taken, MiB"], rows)


def in_a_process(kind: str, root: str, options: dict[str, Any]) -> dict[str, float]:
    argv = [sys.executable, "-m", "bench.writer", "child", kind, root, json.dumps(options)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def child(kind: str, root: str, options: dict[str, Any]) -> dict[str, float]:
    import s3fs

    fs = s3fs.S3FileSystem(**options, asynchronous=False)
    fs.ls(root)  # connected
    size = 102_400 if kind.startswith("100") else 1024
    records = [os.urandom(size) for _ in range(1000)]
    part = os.urandom(PART_BYTES)
    before = peak_memory()
    start = time.perf_counter()
    if kind == "bare uploads":
        asyncio.run(bare_uploads(root.removeprefix("s3://"), options, part))
    else:
        level: dict[str, Any] = {"compression": "GZIP", "level": 1} if "GZIP" in kind else {}
        with tfs.ShardedWriter(
            f"{root}/ds/train",
            num_shards=SHARDS,
            memory_budget=BUDGET,
            storage_options=options,
            **level,
        ) as writer:
            for batch in repeat(records, S3_BYTES // size // 1000):
                writer.write_batch(batch)
    return {"seconds": time.perf_counter() - start, "memory": peak_memory() - before}


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def bare_uploads(bucket: str, options: dict[str, Any], part: bytes) -> None:
    """As many uploads as shards, with as many parts in flight as the writer has."""
    import s3fs

    config = {"max_pool_connections": 64}
    fs = s3fs.S3FileSystem(**options, asynchronous=True, config_kwargs=config)
    await fs.set_session()
    gate = asyncio.Semaphore(SHARDS)

    async def send(number: int, upload: dict[str, str]) -> dict[str, Any]:
        async with gate:
            answer = await fs._call_s3("upload_part", **upload, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    async def one(shard: int) -> None:
        target = {"Bucket": bucket, "Key": f"bare-{shard}"}
        begun = await fs._call_s3("create_multipart_upload", **target)
        upload = {**target, "UploadId": begun["UploadId"]}
        count = S3_BYTES // SHARDS // PART_BYTES
        parts = await asyncio.gather(*(send(i + 1, upload) for i in range(count)))
        await fs._call_s3("complete_multipart_upload", **upload, MultipartUpload={"Parts": parts})

    await asyncio.gather(*map(one, range(SHARDS)))


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))))
        return
    print(machine(), "\n")
    parts = {"files": files, "images": images, "gzip": gzip, "s3": s3}
    for name in sys.argv[1:] or [name for name in parts if name != "images"]:
        for text in parts[name]():
            print(text, flush=True)


if __name__ == "__main__":
    main()
