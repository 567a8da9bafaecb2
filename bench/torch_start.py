"""``make bench-torch-start``: how soon a DataLoader with four workers gives its first batch over
1 GiB of records of 4 KiB, and what each worker holds, for each way to start processes.

Memory is the most of a worker's PSS. An idle loader, whose workers have imported the same and read
nothing, stands beside ours. Each loader runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, IterableDataset

import tfio_store as tfs
from bench.timing import machine, table
from tfio_store.torch import TFRecordIterable

WORKERS = 4
METHODS = ("fork", "spawn", "forkserver")
KINDS = ("idle", "in order", "shuffled")


class Idle(IterableDataset[torch.Tensor]):
    """Gives something for four seconds."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(40):
            time.sleep(0.1)
            yield torch.zeros(1)


def write(url: str, mib: int) -> None:
    values = np.random.default_rng(1)
    schema = {"x": tfs.Feature("uint8", (4096,), raw=True)}
    with tfs.ShardedWriter(url, num_shards=8, schema=schema) as writer:
        for _ in range(mib // 32):
            rows = values.integers(0, 255, (8192, 4096), np.uint8)
            writer.write_batch(tfs.encode_examples({"x": rows}, schema=schema))


def one(url: str, method: str, kind: str) -> None:
    """In a process of its own: one epoch."""
    shuffle = kind == "shuffled"
    dataset: Any = (
        Idle() if kind == "idle" else TFRecordIterable(url, batch_size=256, shuffle=shuffle)
    )
    loader = DataLoader(
        dataset, batch_size=None, num_workers=WORKERS, multiprocessing_context=method
    )
    start = time.perf_counter()
    batches: Any = iter(loader)
    next(batches)
    first, ended = time.perf_counter() - start, threading.Event()
    held = dict.fromkeys((worker.pid for worker in batches._workers), 0)

    def watch() -> None:
        while not ended.wait(0.05):
            for process in held:
                try:
                    pss = psutil.Process(process).memory_full_info().pss
                except psutil.Error:  # it has ended
                    continue
                held[process] = max(held[process], pss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in batches:
        pass
    ended.set()
    watcher.join()
    print(json.dumps({"first": first, "nbytes": statistics.median(held.values())}))


def run(url: str, method: str, kind: str) -> tuple[float, float]:
    """Seconds to the first batch, and MiB of a worker."""
    command = [sys.executable, "-m", "bench.torch_start", "--one", url, method, kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["first"], found["nbytes"] / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(*given.one)
        return
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/train"
        write(url, given.mib)
        for method in METHODS:
            found = {kind: run(url, method, kind) for kind in KINDS}
            idle = found["idle"][1]
            lines.append(
                [method, *(f"{found[kind][0]:.1f}" for kind in KINDS), f"{idle:.0f}"]
                + [f"{found[kind][1] - idle:.0f}" for kind in KINDS[1:]]
            )
    head = ["", *(f"first batch, {kind}, s" for kind in KINDS), "a worker, idle, MiB"]
    head += [f"beyond it, {kind}" for kind in KINDS[1:]]
    print(machine())
    print(table(f"{WORKERS} workers over {given.mib} MiB", head, lines))


if __name__ == "__main__":
    main()
