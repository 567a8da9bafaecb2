"""``make long ONLY=stress``: 32 threads in TensorFlow read and write S3 while requests fail.

Behind a proxy that answers 1 request in 20 each with 503, a reset and a cut body, threads read
records, whole files and pieces of files, write, append, rename, list and delete, for two minutes;
every byte is compared. Then the process has to end by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from typing import Any

from tests.servers.ceph import KEY, SECRET, ceph, installed
from tests.servers.moto import moto
from tests.servers.shaping_proxy import shaped
from tests.support.evidence import keep

THREADS = 32
SHARED_FILES = 4
PATIENCE_S = 240
"""Added to the time of the work for the process to start, and to end."""


def content(name: str, size: int) -> bytes:
    """Bytes that anyone can make again from the name."""
    seed = hashlib.sha256(name.encode()).digest()
    return random.Random(seed).randbytes(size)


class Worker(threading.Thread):
    """Does one thing after another in a folder of its own, until the time is up."""

    def __init__(self, number: int, root: str, until: float, shared: dict[str, bytes]) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()
        self.failure = ""
        self._random = random.Random(number)
        self._folder = f"{root}/worker-{number}"
        self._until = until
        self._shared = shared
        self._files: dict[str, bytes] = {}

    def run(self) -> None:
        acts = [self.write, self.read, self.piece, self.records, self.append, self.rename]
        acts += [self.delete, self.list, self.shared, self.shared]
        try:
            while time.monotonic() < self._until and not self.failure:
                act = self._random.choice(acts)
                act()
                self.done[act.__name__] += 1
        except Exception:
            self.failure = traceback.format_exc()

    def any(self) -> str:
        if not self._files:
            self.write()
        return self._random.choice(list(self._files))

    def write(self) -> None:
        path = f"{self._folder}/{self._random.randrange(8)}"
        size = self._random.choice([0, 1, 1000, 300_000, 3_000_000])
        data = content(f"{path}{time.monotonic()}", size)
        with gfile().GFile(path, "wb") as file:
            for start in range(0, size, 100_000) if size else [0]:
                file.write(data[start : start + 100_000])
        self._files[path] = data

    def read(self) -> None:
        import tensorflow as tf

        path = self.any()
        expect(tf.io.read_file(path).numpy() == self._files[path], path)

    def piece(self) -> None:
        path = self.any()
        data = self._files[path]
        start = self._random.randrange(len(data) + 1)
        with gfile().GFile(path, "rb") as file:
            file.seek(start)
            expect(file.read(50_000) == data[start : start + 50_000], path)

    def records(self) -> None:
        import tensorflow as tf

        path = f"{self._folder}/records"
        records = [self._random.randbytes(self._random.randrange(20_000)) for _ in range(50)]
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        found = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        expect(found == records, path)

    def append(self) -> None:
        path = self.any()
        with gfile().GFile(path, "ab") as file:
            file.write(b"more")
        self._files[path] += b"more"

    def rename(self) -> None:
        path = self.any()
        target = f"{self._folder}/renamed"
        gfile().rename(path, target, overwrite=True)
        self._files[target] = self._files.pop(path)

    def delete(self) -> None:
        path = self.any()
        gfile().remove(path)
        del self._files[path]
        expect(not gfile().exists(path), path)

    def list(self) -> None:
        self.any()
        found = {name for name in gfile().listdir(self._folder) if name != "records"}
        expect(found == {path.rpartition("/")[2] for path in self._files}, self._folder)

    def shared(self) -> None:
        """A dataset over the files that all threads read."""
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices(list(self._shared))
        dataset = dataset.map(tf.io.read_file, num_parallel_calls=4)
        for path, data in zip(self._shared, dataset.as_numpy_iterator(), strict=True):
            expect(data == self._shared[path], path)


def gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def expect(right: bool, path: str) -> None:
    if not right:
        raise AssertionError(f"{path}: not the bytes that were written")


def work(endpoint: str, seconds: float, threads: int, backend: str) -> None:
    """In a process of its own."""
    import tfio_store as tfs

    options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
    tfs.register_filesystem(
        "s3", storage=tfs.Storage(options, backend=backend), cache_bytes=64 << 20
    )
    shared = {
        f"s3://bench/shared-{i}": content(f"shared-{i}", 5 << 20) for i in range(SHARED_FILES)
    }
    for path, data in shared.items():
        gfile().GFile(path, "wb").write(data)
    until = time.monotonic() + seconds
    workers = [Worker(number, "s3://bench", until, shared) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = sum((worker.done for worker in workers), Counter())
    failures = [worker.failure for worker in workers if worker.failure]
    print(f"{total.total()} operations: {dict(total)}; {len(failures)} failures", flush=True)
    if failures:
        sys.exit(failures[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--backend", default="fsspec")
    parser.add_argument("--fault-rate", type=float, default=0.05)
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.seconds, args.threads, args.backend)
        return
    import s3fs

    server = ceph if installed() else moto
    rate = args.fault_rate
    with server() as endpoint:
        s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET).mkdir("bench")
        with shaped(endpoint, ttfb_ms=2, p_503=rate, p_reset=rate, p_truncate=rate) as proxy:
            command = [sys.executable, "-m", "tests.tf.programs.filesystem_stress", *sys.argv[1:]]
            env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
            done = subprocess.run(
                [*command, "--worker", proxy.endpoint], env=env, timeout=args.seconds + PATIENCE_S
            )
            faults = proxy.counts()
    print("faults:", faults, "exit status:", done.returncode)
    if args.keep:
        ran = f"{args.threads} threads in TensorFlow, {sum(faults.values()):,} faults"
        found = f"exit status {done.returncode}" if done.returncode else "nothing"
        keep("filesystem under stress", args.seconds, ran, found)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
