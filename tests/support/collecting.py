"""A program that drops objects of the library where a finalizer has to be careful, one by one.

    python -m tests.support.collecting KIND,KIND... URL OPTIONS

The garbage collector may run in any thread at any moment. Here it runs on the loop that does the
stores' I/O, and inside the locks of `threading` and of executors; what it finds is a cycle with the
object in it, in the middle of its work. Prints each kind after which the loop still answers.
"""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import gc
import itertools
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import fsspec.asyn

import tfio_store as tfs
from tfio_store.storage import open_store, registry
from tfio_store.storage.read_ahead import Fetch, ReadAhead

RECORDS = [bytes([i % 251]) * 100_000 for i in range(120)]

Make = Callable[[str, dict[str, Any]], Any]


def written(url: str, options: dict[str, Any], **kind: Any) -> str:
    with tfs.ShardedWriter(url, num_shards=3, storage_options=options, **kind) as writer:
        writer.write_batch(RECORDS)
    return url


def record_reader(url: str, options: dict[str, Any]) -> Any:
    source = written(f"{url}/reader", options, compression="GZIP")
    reader = tfs.RecordReader(source, storage_options=options, memory_budget=4 << 20)
    return reader, list(itertools.islice(reader, 3))


def reader_iterator(url: str, options: dict[str, Any]) -> Any:
    records = iter(record_reader(url, options)[0])
    return records, next(records)


def batches(url: str, options: dict[str, Any]) -> Any:
    found = record_reader(url, options)[0].batches()
    return found, next(found)


def shuffled_reader(url: str, options: dict[str, Any]) -> Any:
    source = written(f"{url}/shuffled", options, compression="GZIP")
    reader = tfs.RecordReader(source, storage_options=options).shuffle(1, window=1)
    return reader, next(iter(reader))


def raw_reader(url: str, options: dict[str, Any]) -> Any:
    source = written(f"{url}/raw", options)
    reader = tfs.RecordReader(source, storage_options=options, memory_budget=4 << 20)
    return reader, next(iter(reader))


def record_source(url: str, options: dict[str, Any]) -> Any:
    source = written(f"{url}/source", options, compression="GZIP")
    found = tfs.RecordSource(source, storage_options=options)
    return found, found[0]


def read_ahead(url: str, options: dict[str, Any]) -> Any:
    store, path = open_store(f"{url}/object", options)
    store.put(path, bytes(1 << 20))
    ranges = [Fetch(store, path, i << 10, (i + 1) << 10, None, 1 << 10) for i in range(1000)]
    ahead = ReadAhead(ranges, budget=1 << 20)
    return ahead, next(ahead)


def multipart_output(url: str, options: dict[str, Any]) -> Any:
    store, path = open_store(f"{url}/parts", options)
    output = store.open_output(path)
    output.write(bytes(40 << 20))
    return output


def spooled_output(url: str, options: dict[str, Any]) -> Any:
    store, path = open_store("memory://collecting/object")
    output = store.open_output(path)
    output.write(bytes(20 << 20))
    return output


def record_writer(url: str, options: dict[str, Any]) -> Any:
    writer = tfs.TFRecordWriter(f"{url}/file", "GZIP", storage_options=options)
    writer.write_batch(RECORDS)
    return writer


def sharded_writer(url: str, options: dict[str, Any]) -> Any:
    writer = tfs.ShardedWriter(f"{url}/shards", num_shards=4, storage_options=options)
    writer.write_batch(RECORDS)
    return writer


def shuffling_writer(url: str, options: dict[str, Any]) -> Any:
    writer = tfs.ShardedWriter(
        f"{url}/shuffling", num_shards=4, shuffle_seed=1, storage_options=options
    )
    writer.write_batch(RECORDS)
    return writer


def store(url: str, options: dict[str, Any]) -> Any:
    found, path = open_store(f"{url}/object", options)
    found.put(path, b"bytes")
    reads = [found.read(path, 0, 5) for _ in range(20)]
    reads[0].result()
    registry._stores.clear()
    return found, reads


def registered(url: str, options: dict[str, Any]) -> Any:
    import tensorflow as tf

    tfs.register_filesystem("s3", storage_options=options)
    return tf


def written_gfile(url: str, options: dict[str, Any]) -> Any:
    file = registered(url, options).io.gfile.GFile(f"{url}/gfile", "w")
    file.write("text")
    return file


def appended_gfile(url: str, options: dict[str, Any]) -> Any:
    tf = registered(url, options)
    with tf.io.gfile.GFile(f"{url}/gfile", "w") as file:
        file.write("text")
    file = tf.io.gfile.GFile(f"{url}/gfile", "a")
    file.write("more")
    return file


def read_gfile(url: str, options: dict[str, Any]) -> Any:
    tf = registered(url, options)
    with tf.io.gfile.GFile(f"{url}/gfile", "wb") as file:
        file.write(bytes(30 << 20))
    file = tf.io.gfile.GFile(f"{url}/gfile", "rb")
    return file, [file.read(1 << 20) for _ in range(6)]


def tensorflow_writer(url: str, options: dict[str, Any]) -> Any:
    tf = registered(url, options)
    writer = tf.io.TFRecordWriter(f"{url}/records")
    for record in RECORDS:
        writer.write(record)
    return writer


def summary_writer(url: str, options: dict[str, Any]) -> Any:
    """As a thread leaves it that trained: it has an event that was not flushed."""
    tf = registered(url, options)
    writer = tf.summary.create_file_writer(f"{url}/logs")

    def train() -> None:
        writer.set_as_default()
        tf.summary.scalar("loss", 1.0, step=1)
        writer.flush()
        tf.summary.scalar("loss", 0.5, step=2)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    return writer


def dataset_iterator(url: str, options: dict[str, Any]) -> Any:
    registered(url, options)
    source = written(f"{url}/reader", options, compression="GZIP")
    found = iter(tfs.TFRecordDataset(source, storage_options=options))
    return found, next(found)


KINDS: dict[str, Make] = {
    make.__name__: make
    for make in (
        record_reader, reader_iterator, batches, shuffled_reader, raw_reader, record_source,
        read_ahead, multipart_output, spooled_output, record_writer, sharded_writer,
        shuffling_writer, store,
    )
}  # fmt: skip

TENSORFLOW_KINDS: dict[str, Make] = {
    make.__name__: make
    for make in (
        written_gfile, appended_gfile, read_gfile, tensorflow_writer, summary_writer,
        dataset_iterator,
    )
}  # fmt: skip


def locks() -> list[Any]:
    """What this thread may hold when the collector runs: as many of those as this Python has."""
    found = [
        getattr(module, name, None)
        for module, name in (
            (threading, "_active_limbo_lock"),
            (threading, "_shutdown_locks_lock"),
            (concurrent.futures.thread, "_global_shutdown_lock"),
        )
    ]
    return [lock for lock in found if lock is not None]


def collect_inside() -> None:
    with contextlib.ExitStack() as stack:
        for lock in locks():
            stack.enter_context(lock)
        gc.collect()


def drop(make: Make, url: str, options: dict[str, Any]) -> None:
    cycle: list[Any] = [make(url, options)]
    cycle.append(cycle)


def collect(kind: str, url: str, options: dict[str, Any]) -> None:
    drop((KINDS | TENSORFLOW_KINDS)[kind], url, options)
    time.sleep(0.2)  # so that what travels or is being decoded is under way, not all at its start
    loop, collected = fsspec.asyn.get_loop(), threading.Event()

    def here() -> None:
        collect_inside()
        collected.set()

    loop.call_soon_threadsafe(here)
    collected.wait()
    found, path = open_store(f"{url}/after", options)
    found.put(path, b"bytes")
    if kind in TENSORFLOW_KINDS:
        import tensorflow as tf

        assert tf.io.gfile.exists(f"{url}/after")
        if kind in ("written_gfile", "appended_gfile"):
            assert tf.io.gfile.GFile(f"{url}/gfile").read().startswith("text")


def main() -> None:
    kinds, url, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    warnings.simplefilter("ignore")
    gc.disable()
    for kind in kinds.split(","):
        collect(kind, f"{url}/{kind}", options)
        print(kind, flush=True)


if __name__ == "__main__":
    main()
