"""Loaders side by side: each run is a process of its own, and the loaders take turns.

The speed is that of the first epoch, from the loader's start to its last batch, or of the first
seconds of a longer one. The processor time is that of the loader and its workers: without waiting
for cores, that is the limit. Memory is what they hold at most beyond their imports, in a run of its
own. What processes share is counted once (PSS).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.timing import machine, scratch
from tests.servers.ceph import KEY, SECRET, ceph, installed
from tests.servers.moto import moto
from tests.servers.shaping_proxy import shaped

COLUMNS = ["records/s", "times", "processor µs a record", "memory, MiB"]
SHAPE: dict[str, float] = {"ttfb_ms": 30, "bandwidth": 80e6}
"""Of a bucket in the same region: the wait of each request, and bytes/s of a connection."""


@dataclass(frozen=True)
class Work:
    """One loader over one kind of records. ``endpoint``: of S3; "" for local files."""

    loader: str
    what: str
    folder: str
    endpoint: str = ""

    @property
    def where(self) -> str:
        return "S3" if self.endpoint else "local"


def options(endpoint: str) -> dict[str, Any]:
    """The ``storage_options`` of `bucket`; none for local files."""
    return {"endpoint_url": endpoint, "key": KEY, "secret": SECRET} if endpoint else {}


@contextmanager
def bucket() -> Iterator[tuple[Callable[[Path, str], str], str]]:
    """What uploads a folder and returns its URL, and the endpoint from which it is read: Ceph's, or
    moto's where there is no Ceph, behind a proxy with the latency and bandwidth of a bucket."""
    with (ceph if installed() else moto)() as endpoint, shaped(endpoint, **SHAPE) as proxy:
        import s3fs

        fs = s3fs.S3FileSystem(**options(endpoint))

        def upload(folder: Path, name: str) -> str:
            fs.mkdir(name)
            fs.put(f"{folder}/", f"{name}/", recursive=True)
            return f"s3://{name}"

        yield upload, proxy.endpoint


class Peak(threading.Thread):
    """The most memory that this process and its children hold."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.nbytes = self.before = self.held()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.nbytes = max(self.nbytes, self.held())

    @staticmethod
    def held() -> int:
        me, total = psutil.Process(), 0
        for process in (me, *me.children(recursive=True)):
            with contextlib.suppress(psutil.Error):  # it has ended
                total += process.memory_full_info().pss
        return total

    def end(self) -> int:
        self._ended.set()
        self.join()
        return self.nbytes - self.before


def processor_seconds() -> float:
    """Of this process, and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def child(batches: Callable[[], Any], size: Callable[[Any], int]) -> None:
    """Run one loader in this process, which `run` has started, and print what it took."""
    most, weigh = float(sys.argv[3]), bool(sys.argv[4])
    warnings.simplefilter("ignore")
    peak = Peak()
    if weigh:  # looking at memory takes processor time
        peak.start()
    busy, start, count, taken = processor_seconds(), time.perf_counter(), 0, 0.0
    with closing(batches()) as found:  # its workers end, and their time counts
        for batch in found:
            count += size(batch)
            taken = time.perf_counter() - start
            if taken > most:
                break
    nbytes = peak.end() if weigh else 0
    busy = (processor_seconds() - busy) / count
    told = {"speed": count / taken, "busy": busy, "nbytes": nbytes, "records": count}
    print(json.dumps(told | {"whole": taken <= most}), flush=True)
    os._exit(0)  # what is still read ahead is not waited for


def run(module: str, work: Any, most: float, *, weigh: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", module, "--one", json.dumps(asdict(work)), str(most)]
    quiet = os.environ | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [*command, "yes" if weigh else ""], capture_output=True, text=True, timeout=600, env=quiet
    )
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{work}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(
    module: str,
    counts: dict[str, int],
    write: Callable[[str, int, Path], None],
    works: Callable[[str, str, str], list[Any]],
) -> Iterator[tuple[str, list[list[str]]]]:
    """Each kind of records, and the `lines` of its works: of local files, then of a bucket.

    ``counts`` of records are usual. ``write`` puts so many into a folder. ``works`` are on a kind
    in a folder or at a URL of an endpoint."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--part", type=float, default=1, help="of the usual number of records")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="the most for a run")
    parser.add_argument("--kinds", nargs="+", default=list(counts))
    given = parser.parse_args()
    print(machine(), "load", *os.getloadavg(), flush=True)
    with scratch() as top, bucket() as (upload, endpoint):
        for what in given.kinds:
            folder, count = Path(top, what), int(counts[what] * given.part)
            folder.mkdir()
            write(what, count, folder)
            found: list[list[str]] = []
            for place, address in ((str(folder), ""), (upload(folder, f"bench-{what}"), endpoint)):
                some = works(what, place, address)
                found += lines(module, some, count, given.rounds, given.seconds)
            yield what, found


def lines(module: str, works: list[Any], count: int, rounds: int, most: float) -> list[list[str]]:
    """A row for each work: its name, and `COLUMNS`. ``times`` is beside the first work. There are
    ``count`` records."""
    held = {work: run(module, work, most, weigh=True)["nbytes"] for work in works}
    found: dict[Any, list[dict[str, float]]] = {work: [] for work in works}
    for _ in range(rounds):
        for work in works:
            found[work].append(run(module, work, most))
            last = found[work][-1]  # some leave out a last batch
            assert not last["whole"] or 0.98 <= last["records"] / count <= 1.02, (work, last)
    told = []
    speeds = {w: statistics.median(each["speed"] for each in found[w]) for w in works}
    for work in works:
        busy = statistics.median(each["busy"] for each in found[work])
        times = speeds[work] / speeds[works[0]]
        cells = [work.name, f"{speeds[work]:,.0f}", f"{times:.{1 if times >= 1 else 2}f}x"]
        told.append([*cells, f"{busy * 1e6:,.1f}", f"{held[work] / 2**20:.0f}"])
        print(*told[-1], sep=" | ", flush=True)
    return told
