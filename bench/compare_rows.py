"""What `bench.compare` measures of one tree, by public names alone, in a process of its own.

It imports nothing of this checkout: ``PYTHONPATH`` says whose `tfio_store` it runs.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
if sys.path[0] == str(HERE):
    del sys.path[0]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # and its line in the log

SIZES = {"100 B": 100, "10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
MIB = {"100 B": 8, "10 kB": 32, "100 kB": 64, "1 MB": 64}
SHARDS = 4
MANY = 400
KEYS = {"key": "bench", "secret": "bench-secret"}

Call: TypeAlias = Callable[[], object]


def exhaust(found: Any) -> None:
    collections.deque(found, maxlen=0)


class Rows:
    """The calls of each room, by the name of a row. Their data lie in ``folder``."""

    def __init__(self, folder: str, endpoints: dict[str, str]) -> None:
        import tfio_store as tfs

        self.tfs, self.folder, self.endpoints = tfs, folder, endpoints
        self.counts = {size: (MIB[size] << 20) // (n + 16) for size, n in SIZES.items()}
        for size, count in self.counts.items():
            self._write(self._url(size), size, count)
        self._write(self._url("many"), "100 B", 2 * MANY, MANY)
        images = random.Random(1).randbytes(5600 + 2000)
        self.labelled = [{"image": images[i : i + 5600], "label": i} for i in range(2000)]
        self.numbers = [{f"x{k}": i * k for k in range(5)} | {"w": i / 7} for i in range(50_000)]
        for name, rows in (("labelled", self.labelled), ("numbers", self.numbers)):
            with tfs.ShardedWriter(self._url(name), num_shards=SHARDS) as writer:
                writer.write_batch(rows)

    def calls(self) -> dict[str, Call]:
        found: dict[str, Call] = {}
        rooms = self.reading, self.writing, self.tensorflow, self.accelerated, self.bucket
        for room in (*rooms, self.torch):
            with contextlib.suppress(ImportError):  # such as of torch: its rows are left out
                found |= room()
        return found | {"import": self.imported}

    def imported(self) -> None:
        subprocess.run([sys.executable, "-c", "import tfio_store as t; t.RecordReader"], check=True)

    def reading(self) -> dict[str, Call]:
        tfs, found = self.tfs, {}
        for size in SIZES:
            files = self._files(size)
            found[f"reader, batches, {size}"] = lambda f=files: exhaust(
                batch for file in f for batch in tfs.RecordReader(file).batches()
            )
            found[f"reader, records, {size}"] = lambda f=files: exhaust(
                record for file in f for record in tfs.RecordReader(file)
            )
        dice = random.Random(2)
        few = {size: dice.sample(range(self.counts[size]), 100) for size in ("100 B", "10 kB")}
        # without a cache of blocks, each question is read
        sources = {size: tfs.RecordSource(self._url(size), cache_bytes=0) for size in few}
        many = self._url("many")
        return {
            **found,
            "source, list of 100 records, 100 B": lambda: sources["100 B"][few["100 B"]],
            "source, one by one, 10 kB": lambda: [sources["10 kB"][i] for i in few["10 kB"]],
            f"source, open {MANY} shards": lambda: [tfs.RecordSource(many) for _ in range(5)],
        }

    def writing(self) -> dict[str, Call]:
        tfs, dice = self.tfs, random.Random(3)
        data = dice.randbytes(8 << 20)
        small = [data[i : i + 100] for i in range(0, 4 << 20, 100)]
        large = [data[i : i + 100_000] for i in range(0, len(data) - 100_000, 50_000)]

        def one_by_one(records: list[bytes]) -> None:
            with tfs.TFRecordWriter(f"{self.folder}/w.tfrecord") as writer:
                for record in records:
                    writer.write(record)

        def at_once(records: list[bytes]) -> None:
            with tfs.TFRecordWriter(f"{self.folder}/b.tfrecord") as writer:
                writer.write_batch(records)

        def mappings(rows: list[dict[str, Any]]) -> None:
            target = f"{self.folder}/mappings"
            with tfs.ShardedWriter(target, num_shards=SHARDS, if_exists="overwrite") as writer:
                for row in rows:
                    writer.write(row)

        return {
            "write, 100 B": lambda: one_by_one(small),
            "write, 100 kB": lambda: one_by_one(large),
            "write_batch, 100 B": lambda: at_once(small),
            "write, image and label": lambda: mappings(self.labelled),
        }

    def tensorflow(self) -> dict[str, Call]:
        import tensorflow as tf

        tfs, found = self.tfs, {}
        spec = {f"x{k}": tf.io.FixedLenFeature([], tf.int64) for k in range(5)}
        spec["w"] = tf.io.FixedLenFeature([], tf.float32)

        def run(dataset: Any) -> None:
            """To its end, in TensorFlow's own code: each batch is looked at there."""
            dataset.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1).numpy()

        for size in SIZES:
            files = self._files(size)
            found[f"tf.data, batch_size=, {size}"] = lambda f=files: run(
                tfs.TFRecordDataset(f, batch_size=64)
            )
        kilo, numbers = self._files("100 kB"), self._url("numbers")
        return {
            **found,
            "tf.data, shuffled, 100 kB": lambda: run(
                tfs.TFRecordDataset(kilo, batch_size=16, shuffle=True)
            ),
            "tf.data, parsed, 6 numbers": lambda: run(
                tfs.TFRecordDataset(numbers, batch_size=256, schema=spec)
            ),
            "tf.data, shuffled, parsed": lambda: run(
                tfs.TFRecordDataset(numbers, batch_size=256, schema=spec, shuffle=True)
            ),
        }

    def accelerated(self) -> dict[str, Call]:
        """The pipelines of `bench.dropin`, unchanged."""
        sys.path.insert(0, str(HERE.parent))
        from bench import dropin

        tfs, found = self.tfs, dict[str, Call]()
        for kind, size, codec in (("100 B", 100, None), ("100 B, GZIP", 100, "GZIP"),
                                  ("1 kB", 1000, None), ("10 kB", 10_000, None)):  # fmt: skip
            url = self._url(f"examples-{size}-{codec}")
            with tfs.ShardedWriter(url, num_shards=SHARDS, compression=codec) as writer:
                writer.write_batch(dropin.examples(size, 32 << 20))
            if codec:  # as others compress, without an index
                Path(url).with_name("_train.manifest.json").unlink()
            files = self._files(f"examples-{size}-{codec}")
            for name, make in dropin.pipelines(256).items():
                if codec is None or "features" not in name:
                    found[f"accelerate(), {kind}, {name}"] = partial(self._run, make, files, codec)
        return found

    def _run(self, make: Any, files: list[str], codec: str | None) -> None:
        import tensorflow as tf

        with self.tfs.accelerate():
            reader = tf.data.TFRecordDataset
            if codec is not None:
                reader = partial(reader, compression_type=codec)
            made = make(files, reader)
            made.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1).numpy()

    def bucket(self) -> dict[str, Call]:
        import s3fs  # noqa: F401

        tfs = self.tfs
        near, far = ({"endpoint_url": self.endpoints[which], **KEYS} for which in ("near", "far"))

        def read(size: str, options: dict[str, Any]) -> None:
            url = f"s3://{self._key(size)}"
            exhaust(tfs.RecordReader(url, storage_options=options).batches())

        def one(options: dict[str, Any]) -> None:
            source = tfs.RecordSource(f"s3://{self._key('10 kB')}", storage_options=options)
            source[[7, 1000, 2000]]

        return {
            "S3, batches, 100 B": lambda: read("100 B", near),
            "S3, batches, 100 kB": lambda: read("100 kB", near),
            "S3 at 20 ms, batches, 100 kB": lambda: read("100 kB", far),
            "S3 at 20 ms, open and 3 records": lambda: one(far),
        }

    def torch(self) -> dict[str, Call]:
        import torch  # noqa: F401

        from tfio_store.torch import TFRecordIterable

        return {
            "torch, batches of 6 numbers": lambda: exhaust(
                TFRecordIterable(self._url("numbers"), batch_size=256)
            )
        }

    def _url(self, name: str) -> str:
        return f"{self.folder}/{name}/train"

    def _key(self, name: str) -> str:
        return f"{Path(self.folder).name}/{name}/train"

    def _files(self, name: str) -> list[str]:
        return sorted(str(path) for path in Path(self.folder, name).glob("train-*.tfrecord"))

    def _write(self, url: str, size: str, count: int, shards: int = SHARDS) -> None:
        nbytes = SIZES[size]
        dice, step = random.Random(nbytes), max(1, (1 << 20) // nbytes)
        with self.tfs.ShardedWriter(url, num_shards=shards) as writer:
            for first in range(0, count, step):
                data = dice.randbytes(nbytes * min(step, count - first))
                writer.write_batch([data[at : at + nbytes] for at in range(0, len(data), nbytes)])


def used() -> tuple[float, float, int]:
    """The clock, processor seconds of this process and its children, and page faults of both."""
    cpu, faults = 0.0, 0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        found = resource.getrusage(who)
        cpu, faults = cpu + found.ru_utime + found.ru_stime, faults + found.ru_minflt
    return time.perf_counter(), cpu, faults


def measured(call: Call, repeats: int) -> list[float]:
    """Seconds, processor seconds, and MiB of memory that was mapped anew, of one call."""
    before = used()
    for _ in range(repeats):
        call()
    wall, cpu, faults = (now - then for now, then in zip(used(), before, strict=True))
    return [wall / repeats, cpu / repeats, faults * resource.getpagesize() / (1 << 20) / repeats]


def main() -> None:
    """Answer the questions of another process: a row and how often, a line each, as JSON."""
    answers, sys.stdout = sys.stdout, sys.stderr
    asked = map(json.loads, sys.stdin)
    folder, endpoints = next(asked)
    rows = Rows(folder, endpoints)
    calls = rows.calls()
    answer: Any = [rows.tfs.__file__, list(calls)]
    print(json.dumps(answer), file=answers, flush=True)
    for name, repeats in asked:
        try:
            answer = measured(calls[name], repeats)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
