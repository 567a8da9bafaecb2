"""``make bench-host BASE=commit``: how one process fills the machine at hand.

One reader with 1 to 16 threads, and as many readers as threads, each in a thread of the program,
beside what `pread` gives in so many threads, and beside another commit of this tree. Local files,
all checksums taken. Each figure is the median of its rounds, in which all take turns.

"under the GIL" is the processor time of a reader when the call that reads and scans a span is taken
out: its results are kept from a first pass, and a second one is handed them. So many seconds for a
GiB allow no more than their inverse in GiB/s, on however many cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):  # run as a script: PYTHONPATH says whose tfio_store it measures
    del sys.path[0]

SIZES = {"100 B": 100, "1 kB": 1000, "120 kB": 120_000}
CODECS = {"raw": None, "GZIP": "GZIP"}
THREADS = (1, 2, 4, 8, 16)
PIECE = 4 << 20
GIB = float(1 << 30)
HERE = FOLDER.parent


def drain(url: str, **options: Any) -> None:
    import tfio_store as tfs

    with tfs.RecordReader(url, **options) as reader:
        for _ in reader.batches():
            pass


def in_threads(works: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def preads(files: list[Path], count: int) -> None:
    """All bytes of the files, read by so many threads."""
    pieces = [(path, at) for path in files for at in range(0, path.stat().st_size, PIECE)]
    pieces.reverse()

    def work() -> None:
        buffer = bytearray(PIECE)
        while True:
            try:
                path, at = pieces.pop()
            except IndexError:
                return
            descriptor = os.open(path, os.O_RDONLY)
            os.preadv(descriptor, [buffer], at)
            os.close(descriptor)

    in_threads([work] * count)


def under_the_gil(url: str) -> float:
    """Seconds of a reader but for those of the calls that read and scan."""
    from tfio_store.read import spans
    from tfio_store.records.framing import scan_file

    kept: dict[tuple[Any, ...], Any] = {}

    def first(path: str, start: int, stop: int, **options: Any) -> Any:
        found = kept[path, start, stop] = scan_file(path, start, stop, **options)
        return found

    with patch.object(spans, "scan_file", first):
        drain(url, threads=1)
    with patch.object(spans, "scan_file", lambda path, start, stop, **_: kept[path, start, stop]):
        begin = time.process_time()
        drain(url, threads=1)
        return time.process_time() - begin


def measured(url: str, ours: bool) -> list[list[Any]]:
    """Name and seconds of each way to read a dataset once, one after the other."""
    found: list[list[Any]] = []

    def take(name: str, call: Callable[[], object]) -> None:
        begin = time.perf_counter()
        call()
        found.append([name, time.perf_counter() - begin])

    if not ours:
        take("before", lambda: drain(url))
    for count in THREADS if ours else ():
        take(f"{count} threads", lambda n=count: drain(url, threads=n))
    for count in THREADS:
        shares = [lambda i=i, n=count: drain_share(url, i, n) for i in range(count)]
        take(f"{count} readers" + ("" if ours else " before"), lambda s=shares: in_threads(s))
    return found


def drain_share(url: str, index: int, count: int) -> None:
    import tfio_store as tfs

    with tfs.RecordReader(url).shard(index, count) as reader:
        for _ in reader.batches():
            pass


def rates(seconds: dict[str, list[float]], nbytes: int) -> dict[str, float]:
    return {name: nbytes / statistics.median(each) / 1e9 for name, each in seconds.items()}


def child(root: Path, url: str) -> list[list[Any]]:
    ran = subprocess.run(
        [sys.executable, __file__, "--measure", url, *(["--ours"] if root == HERE else [])],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: list[list[Any]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def write(url: str, nbytes: int, size: int, codec: str | None) -> None:
    import tfio_store as tfs

    record = os.urandom(size // 2) + bytes(size - size // 2)
    with tfs.ShardedWriter(url, num_shards=4, compression=codec, level=1 if codec else None) as w:
        w.write_batch([record] * (nbytes // (size + 16)))


def main() -> None:
    from bench.compare import checkout
    from bench.timing import machine, table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="a commit, or another built checkout")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        drain(options.measure)  # imports, and warms up
        print(json.dumps(measured(options.measure, options.ours)))
        return
    roots = [HERE, *([checkout(options.base)] if options.base else [])]
    rows, held = [], []
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    for size_name, size in SIZES.items():
        for codec_name, codec in CODECS.items():
            with tempfile.TemporaryDirectory(dir=memory) as folder:
                url = f"{folder}/train"
                nbytes = options.mib << (20 if codec is None else 18)
                write(url, nbytes, size, codec)
                files = sorted(Path(folder).glob("train*"))
                seconds: dict[str, list[float]] = {}
                for _ in range(options.rounds):
                    found = [each for root in roots for each in child(root, url)]
                    for count in THREADS if codec is None else ():
                        begin = time.perf_counter()
                        preads(files, count)
                        found.append([f"{count} pread", time.perf_counter() - begin])
                    for name, took in found:
                        seconds.setdefault(name, []).append(took)
                rate = rates(seconds, nbytes)
                if codec is None:
                    gil = statistics.median(under_the_gil(url) for _ in range(options.rounds))
                    held.append([size_name, f"{gil * GIB / nbytes:.3f}"])
            for kind in ("threads", "readers", "readers before", "pread"):
                cells = [rate.get(f"{count} {kind}") for count in THREADS]
                if any(cells):
                    name = f"{size_name}, {codec_name}, {kind}"
                    before = (
                        f"{rate['before']:.1f}" if kind == "threads" and "before" in rate else ""
                    )
                    rows.append([name, *(f"{cell or 0:.1f}" for cell in cells), before])
    print(machine())
    print(table("GB/s of records", ["", *map(str, THREADS), "before"], rows))
    print(table("Seconds under the GIL for a GiB", ["raw records", "s"], held))


if __name__ == "__main__":
    main()
