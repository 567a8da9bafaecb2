"""``make bench-beside BASE=folder``: what reading costs in this tree, beside another one's.

BASE is a checkout of this project with its extensions built, and a .venv. A process of each tree
writes the same records, as its own datasets, and reads them when it is its turn. The turns are
short and change about, so that a noisy machine is noisy to all, and the processes start anew
several times, since where one's memory lies makes a tenth. A third process runs BASE once more:
what it costs more or less than the first is noise. Requests are counted in a store in memory.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

HERE = Path(__file__).resolve().parent.parent
if sys.path[0] == str(HERE / "bench"):  # as a server, it is to import the other tree
    del sys.path[0]

from bench.timing import machine, table  # noqa: E402

SHARDS = 2
COUNTED = "counted"


class Reads:
    """What is measured, in one tree."""

    def __init__(self, folder: str, mib: int) -> None:
        self.folder = folder
        self.counts = {"100 B": (mib << 20) // 116, "10 kB": (mib << 20) // 10_016}
        for name in self.counts:
            self._write(f"{folder}/{name}", name)
        self.frames = b"".join(self._files(f"{folder}/100 B"))[: 512 << 10]

    def calls(self) -> dict[str, Callable[[], object]]:
        import tfio_store as tfs
        from tfio_store.records.framing import scan

        dice = random.Random(1)
        found: dict[str, Callable[[], object]] = {
            "scan of memory, 100 B": lambda: [scan(self.frames) for _ in range(5)],
        }
        for size, count in self.counts.items():
            url = f"{self.folder}/{size}"
            few = dice.sample(range(count), 100)
            # without a cache of blocks, each question is read
            source = tfs.RecordSource(url, cache_bytes=0)
            found |= {
                f"batches, {size}": lambda url=url: exhaust(tfs.RecordReader(url).batches()),
                f"records, {size}": lambda url=url: exhaust(tfs.RecordReader(url)),
                f"list of random records, {size}": lambda s=source, few=few: s[few],
                f"random records one by one, {size}": lambda s=source, few=few: [
                    s[number] for number in few[:25]
                ],
            }
        return found

    def requests(self) -> dict[str, int]:
        """How often each of these asks a store."""
        import tfio_store as tfs

        store = counting_store()
        counted = {}
        for size, count in self.counts.items():
            url = f"{COUNTED}://bench/{size}"
            self._write(url, size)
            few = random.Random(2).sample(range(count), 100)
            reads: dict[str, Callable[[], object]] = {
                f"batches, {size}": lambda url=url: exhaust(tfs.RecordReader(url).batches()),
                f"list of random records, {size}": lambda url=url, few=few: tfs.RecordSource(url)[
                    few
                ],
                f"random records one by one, {size}": lambda url=url, few=few: [
                    source[number] for source in [tfs.RecordSource(url)] for number in few
                ],
            }
            for name, read in reads.items():
                store.asked = 0
                read()
                counted[name] = store.asked
        return counted

    def _write(self, url: str, size: str) -> None:
        import tfio_store as tfs

        count, nbytes = self.counts[size], {"100 B": 100, "10 kB": 10_000}[size]
        dice = random.Random(nbytes)
        with tfs.ShardedWriter(url, num_shards=SHARDS) as writer:
            for first in range(0, count, 1000):
                data = dice.randbytes(nbytes * min(1000, count - first))
                writer.write_batch([data[at : at + nbytes] for at in range(0, len(data), nbytes)])

    def _files(self, url: str) -> Iterator[bytes]:
        folder, _, name = url.rpartition("/")
        for path in sorted(Path(folder).glob(f"{name}-*.tfrecord")):
            yield path.read_bytes()


def exhaust(found: Any) -> None:
    collections.deque(found, maxlen=0)


def counting_store() -> Any:
    """A filesystem of fsspec in memory, the class of which counts what it is ``asked``."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class Counting(MemoryFileSystem):
        protocol = COUNTED
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]
        asked = 0

        def cat_file(self, *args: Any, **options: Any) -> Any:
            Counting.asked += 1
            return super().cat_file(*args, **options)

        def info(self, *args: Any, **options: Any) -> Any:
            Counting.asked += 1
            return super().info(*args, **options)

        def ls(self, *args: Any, **options: Any) -> Any:
            Counting.asked += 1
            return super().ls(*args, **options)

    fsspec.register_implementation(COUNTED, Counting, clobber=True)
    return Counting


def serve(folder: str, mib: int) -> None:
    """Answer the questions of another process: one name a line, and seconds as JSON."""
    reads = Reads(folder, mib)
    calls = reads.calls()
    answer: Any = list(calls)
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        name = json.loads(line)
        if name == "requests":
            answer = reads.requests()
        else:
            wall, cpu = time.perf_counter(), time.process_time()
            calls[name]()
            answer = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps(answer), flush=True)


class Tree:
    """A process that runs one tree's code."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.names: list[str] = self._answer()

    def ask(self, name: str) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(name), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def tree(root: Path, mib: int) -> Iterator[Tree]:
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [str(root / ".venv/bin/python"), __file__, "--serve", folder, "--mib", str(mib)]
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Tree(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()


Times: TypeAlias = list[tuple[float, float]]
"""Seconds, and seconds of the processors, of each round."""


def compare(trees: list[Tree], rounds: int, only: str) -> dict[str, list[Times]]:
    """By what was measured, the times of each tree."""
    names = [name for name in trees[0].names if only in name]
    taken: dict[str, list[Times]] = {name: [[] for _ in trees] for name in names}
    dice = random.Random(3)
    for turn in range(rounds + 1):
        for name in names:
            for number in dice.sample(range(len(trees)), len(trees)):
                found = trees[number].ask(name)
                if turn:  # the first one warms up
                    taken[name][number].append(found)
    return taken


def row(name: str, base: Times, ours: Times, again: Times) -> list[str]:
    cells = [name]
    for which in (0, 1):
        there, here, noise = (
            statistics.median(each[which] for each in times) for times in (base, ours, again)
        )
        cells += [f"{1e3 * there:.2f}", f"{1e3 * here:.2f}"]
        cells += [f"{100 * (each / there - 1):+.1f} %" for each in (here, noise)]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", type=Path, help="the other tree")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--mib", type=int, default=8, help="size of each dataset")
    parser.add_argument("--starts", type=int, default=10, help="of the processes")
    parser.add_argument("--rounds", type=int, default=15, help="of each start")
    parser.add_argument("--only", default="", help="a part of the names of what to measure")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.mib)
        return
    if options.base is None:
        parser.error("which tree?")
    base = options.base.resolve()
    roots, dice = [base, HERE, base], random.Random(4)
    taken: dict[str, list[Times]] = {}
    for _ in range(options.starts):
        with ExitStack() as stack:
            order = dice.sample(range(len(roots)), len(roots))
            started = {at: stack.enter_context(tree(roots[at], options.mib)) for at in order}
            trees = [started[at] for at in range(len(roots))]
            for name, times in compare(trees, options.rounds, options.only).items():
                for all_times, more in zip(
                    taken.setdefault(name, [[] for _ in roots]), times, strict=True
                ):
                    all_times += more
            before, now = (one.ask("requests") for one in trees[:2])
    print(machine(), "\n")
    heads = ["", *("base, ms", "ours, ms", "cost", "noise")]
    heads += ["base, CPU ms", "ours, CPU ms", "cost in CPU", "noise in CPU"]
    title = f"Reading, medians of {options.rounds} rounds of each of {options.starts} starts"
    print(table(title, heads, [row(name, *times) for name, times in taken.items()]))
    requests = [[name, str(before[name]), str(now[name])] for name in before]
    print(table("Requests", ["", "base", "ours"], requests))


if __name__ == "__main__":
    main()
