"""Cases by the thousand, in processes of their own: one that dies or hangs is a difference too."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.servers.place import Place

PATIENCE = 900.0
"""Seconds without an answer after which a case hangs."""


@dataclass
class Result:
    cases: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0


def run_seeds(connection: Connection, seeds: list[int], s3: Place | None, only: str | None) -> None:
    """A worker: says which case begins, then how it went."""
    prepare()
    from tests.differential.cases import run_case
    from tests.differential.sources import World

    with tempfile.TemporaryDirectory(prefix="tfio_store-differential") as folder:
        world = World(Path(folder), s3)
        for seed in seeds:
            connection.send(("begin", seed, "", None))
            connection.send(("end", seed, *run_case(seed, world, only)))
    connection.close()
    os._exit(0)  # servers of tf.data service end with the process, and not before


def prepare() -> None:
    """TensorFlow quiet, with two devices for MirroredStrategy."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    warnings.simplefilter("ignore", RuntimeWarning)
    import tensorflow as tf

    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)


class Worker:
    """A process with the seeds that are still its own."""

    def __init__(self, seeds: list[int], s3: Place | None, only: str | None) -> None:
        self._s3, self._only = s3, only
        self.seeds = seeds
        self.start()

    def start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe(duplex=False)
        given = (theirs, self.seeds, self._s3, self._only)
        self.process = spawn.Process(target=run_seeds, args=given)
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()
        self.now: int | None = None

    def messages(self) -> Iterator[tuple[Any, ...]]:
        """What the worker said meanwhile; EOFError when it is gone."""
        while self.connection.poll():
            message = self.connection.recv()
            self.heard, self.now = time.monotonic(), message[1]
            if message[0] == "end":
                self.seeds = self.seeds[self.seeds.index(message[1]) + 1 :]
            yield message

    def end(self) -> int | None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        return self.process.exitcode


def run(
    seeds: list[int],
    jobs: int,
    seconds: float,
    s3: Place | None,
    tell: Callable[[str], None],
    only: str | None = None,
) -> Result:
    """All the seeds, or as many as there is time for; of one kind if ``only`` that is wanted."""
    result, start = Result(), time.monotonic()
    workers = [Worker(seeds[i::jobs], s3, only) for i in range(jobs) if seeds[i::jobs]]
    while workers and time.monotonic() - start < seconds:
        wait([worker.connection for worker in workers], timeout=1)
        for worker in list(workers):
            if not heard(worker, result, tell):
                workers.remove(worker)
    for worker in workers:
        worker.end()
    result.seconds = time.monotonic() - start
    return result


def heard(worker: Worker, result: Result, tell: Callable[[str], None]) -> bool:
    """Whether the worker has more to do. One that died or hangs is started anew behind its case."""
    gone = False
    try:
        for kind, seed, name, fault in worker.messages():
            if kind == "end":
                note(result, seed, name, fault, tell)
    except EOFError:
        gone = True
    hangs = time.monotonic() - worker.heard > PATIENCE
    if not gone and not hangs:
        return True
    exit_code = worker.end()
    if gone and not worker.seeds:
        return False
    seed = worker.now if worker.now is not None else worker.seeds[0]
    what = f"hangs for {PATIENCE:.0f} s" if hangs else f"the process ended with {exit_code}"
    note(result, seed, "died", what, tell)
    worker.seeds = worker.seeds[worker.seeds.index(seed) + 1 :]
    if worker.seeds:
        worker.start()
    return bool(worker.seeds)


def note(
    result: Result, seed: int, kind: str, fault: str | None, tell: Callable[[str], None]
) -> None:
    result.cases[kind] += 1
    if fault is not None:
        result.differences.append((seed, fault))
        tell(f"\npython -m tests.differential --seed {seed}\n{fault}")
    elif result.cases.total() % 100 == 0:
        tell(f"{result.cases.total()} cases, {len(result.differences)} differences")
