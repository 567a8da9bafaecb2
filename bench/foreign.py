"""``make bench-foreign``: a GZIP stream that zlib wrote, once it is indexed.

It holds Examples of 10 kB. The dataset beside it has the same records in blocks of GZIP, which this
library wrote. Peers are gzip, indexed_gzip and rapidgzip, each with an index of its own. They know
no records, so they are told where to read. The bucket is Ceph's gateway on this machine, behind a
proxy that makes each request wait 30 ms and gives each connection 80 MB/s. Where Ceph is not
installed, a server that only reads files takes its place. Local files are in the page cache.

"processor" is the time of all threads, which hardly changes where other programs are at work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tfio_store as tfs
from bench import fast_store
from bench.timing import machine, table
from tests.servers import ceph
from tests.servers.shaping_proxy import Shaped, shaped
from tests.support.framed import framed

TOKENS = 7_000
STREAM, OWN, BUCKET = "foreign.gz", "own", "bench"


class Took(NamedTuple):
    """Seconds: of the clock, and of the processor."""

    wall: float
    busy: float


def took(call: Callable[[], object]) -> Took:
    """What a call takes, with the processes that it starts and waits for."""
    began, before = time.perf_counter(), _busy()
    call()
    return Took(time.perf_counter() - began, _busy() - before)


def _busy() -> float:
    sides = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in sides)


def in_turns(ways: Mapping[str, Callable[[], Took]], rounds: int) -> dict[str, Took]:
    """The medians of so many rounds, in which the ways take turns."""
    found: dict[str, list[Took]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {
        name: Took(*(statistics.median(column) for column in zip(*each, strict=True)))
        for name, each in found.items()
    }


# The data.


def write(folder: Path, nbytes: int) -> int:
    """The stream, of about ``nbytes`` stored bytes, and the same records in blocks. Their
    number."""
    dice = np.random.default_rng(1)
    tokens = np.minimum(dice.zipf(1.2, (1024, TOKENS)), 50_000)
    records = list(tfs.encode_examples({"tokens": tokens.astype(np.int64)}))
    frames, packer = framed(records), zlib.compressobj(6, zlib.DEFLATED, 31)
    stored = rounds = 0
    with open(folder / STREAM, "wb") as file:
        while stored < nbytes:
            stored += file.write(packer.compress(frames))
            rounds += 1
        file.write(packer.flush())
    with tfs.ShardedWriter(f"{folder}/{OWN}", num_shards=1, compression="GZIP") as writer:
        for _ in range(rounds):
            writer.write_batch(records)
    return rounds * len(records)


# What is measured.


def build(folder: Path, rounds: int, peers: dict[str, Any]) -> list[list[str]]:
    stream = folder / STREAM
    index = folder / f"_{STREAM}.checkpoints"

    def ours() -> Took:
        index.unlink(missing_ok=True)
        return took(lambda: tfs.build_index(str(stream)))

    def gzip() -> Took:
        return took(lambda: subprocess.run(["gzip", "-t", str(stream)], check=True))

    times = in_turns({"gzip -t": gzip, "tfs.build_index": ours}, rounds)
    sizes = {"tfs.build_index": index.stat().st_size}
    for name, found in peers.items():
        times[name], sizes[name] = Took(*found["build"]), found["index"]
    return [
        [
            name,
            f"{each.wall:.1f}",
            f"{each.busy:.1f}",
            f"{each.busy / times['gzip -t'].busy:.2f}",
            f"{sizes[name] / stream.stat().st_size:.2%}" if name in sizes else "",
        ]
        for name, each in times.items()
    ]


def scattered(
    sources: dict[str, tfs.RecordSource], numbers: list[int], rounds: int, peers: dict[str, Any]
) -> list[list[str]]:
    """Single records, and all of them as one list."""

    def singly(source: tfs.RecordSource) -> Took:
        return took(lambda: [source[number] for number in numbers])

    def at_once(source: tfs.RecordSource) -> Took:
        return took(lambda: source[numbers])

    ways: dict[str, Callable[[], Took]] = {
        f"{name}, {how}": partial(way, source)
        for how, way in (("one by one", singly), ("as one list", at_once))
        for name, source in sources.items()
    }
    times = in_turns(ways, rounds)
    for name, found in peers.items():
        times[f"{name}, one by one"] = Took(*found["scattered"])
    rows, count = [], len(numbers)
    for name, each in times.items():
        own = times[f"blocks of GZIP{name[name.rindex(', ') :]}"]
        rows.append(
            [
                name,
                f"{count / each.wall:,.0f}",
                f"{own.wall / each.wall:.0%}",
                f"{each.busy / count * 1e6:,.0f}",
            ]
        )
    return rows


def sequential(folder: Path, rounds: int, peer_python: str | None) -> list[list[str]]:
    """The whole file, by one core and by both."""
    stream = str(folder / STREAM)
    ours = [sys.executable, "-m", "bench.foreign", "--read"]
    ways: dict[str, list[str]] = {
        "gzip -dc": ["gzip", "-dc", stream],
        "RecordReader": [*ours, stream],
        "RecordReader, blocks of GZIP": [*ours, f"{folder}/{OWN}"],
    }
    if peer_python:
        program = str(Path(peer_python).with_name("rapidgzip"))
        ways["rapidgzip"] = [program, "-dc", stream]

    def run(command: list[str], cores: int) -> Took:
        """On the first so many cores."""
        only = set(sorted(os.sched_getaffinity(0))[:cores])
        call = lambda: subprocess.run(  # noqa: E731
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, only),
        )
        return took(call)

    times = in_turns(
        {f"{name} {n}": partial(run, way, n) for name, way in ways.items() for n in (1, 2)}, rounds
    )
    nbytes = os.path.getsize(stream)
    rows = []
    for name in ways:
        one, two = times[f"{name} 1"], times[f"{name} 2"]
        rows.append(
            [
                name,
                f"{nbytes / one.wall / 1e6:,.0f}",
                f"{nbytes / two.wall / 1e6:,.0f}",
                f"{one.wall / two.wall:.2f}",
                f"{two.busy / nbytes * 1e9:.1f}",
            ]
        )
    return rows


def read(url: str) -> None:
    for _ in tfs.RecordReader(url).batches():
        pass


# A bucket.


@contextmanager
def bucket(folder: Path) -> Iterator[tuple[str, Shaped, dict[str, Any]]]:
    """A store that holds the files, shaped: its name, the proxy, and ``storage_options``."""
    shape = {"ttfb_ms": 30, "bandwidth": 80e6}
    if not ceph.installed():
        with fast_store.fast_store(folder) as endpoint, shaped(endpoint, **shape) as proxy:
            yield "a server of files", proxy, fast_store.options(proxy.endpoint)
        return
    import s3fs

    keys = {"key": ceph.KEY, "secret": ceph.SECRET}
    with ceph.ceph() as endpoint, shaped(endpoint, **shape) as proxy:
        fs = s3fs.S3FileSystem(endpoint_url=endpoint, **keys)
        fs.mkdir(BUCKET)
        for path in (folder / BUCKET).iterdir():
            fs.put_file(str(path), f"{BUCKET}/{path.name}")
        yield "Ceph", proxy, {"endpoint_url": proxy.endpoint, **keys}


def fetched(proxy: Shaped, source: tfs.RecordSource, numbers: list[int]) -> tuple[float, float]:
    """Requests and MiB that a record takes which is read alone."""
    before = proxy.counts()
    for number in numbers:
        source[number]
    after = proxy.counts()
    asked, nbytes = (after[name] - before[name] for name in ("requests", "bytes"))
    return asked / len(numbers), nbytes / len(numbers) / 2**20


def sources(place: str, storage: tfs.Storage | None = None) -> dict[str, tfs.RecordSource]:
    named = {"foreign GZIP": f"{place}/{STREAM}", "blocks of GZIP": f"{place}/{OWN}"}
    return {
        name: tfs.RecordSource(url, storage=storage, cache_bytes=0) for name, url in named.items()
    }


def measure_peers(python: str | None, stream: Path, numbers: list[int]) -> dict[str, Any]:
    if python is None:
        return {}
    frame = round(_raw_bytes(stream) / len(tfs.RecordSource(str(stream))))
    places = [str(number * frame) for number in numbers]
    script = Path(__file__).with_name("foreign_peers.py")
    done = subprocess.run(
        [python, str(script), str(stream), *places], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _raw_bytes(stream: Path) -> int:
    blocks = tfs.open(str(stream)).shards[0].blocks
    assert blocks is not None
    return int(blocks.raw_offsets[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the stream")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=300, help="how many are read in a round")
    parser.add_argument("--no-s3", action="store_true")
    parser.add_argument("--peer-python", help="one that has indexed_gzip and rapidgzip")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read)
        return
    print(machine(), "load", *os.getloadavg(), "\n", flush=True)
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top, BUCKET)
        folder.mkdir()
        count = write(folder, given.mib << 20)
        stream = folder / STREAM
        tfs.build_index(str(stream))
        numbers = random.Random(2).sample(range(count), given.records)
        peers = measure_peers(given.peer_python, stream, numbers)
        size = f"{stream.stat().st_size / 1e9:.2f} GB that zlib wrote"

        rows = build(folder, min(3, given.rounds), peers)
        heads = ["", "s", "processor s", ": gzip -t", "index"]
        print(table(f"To index {size}", heads, rows), flush=True)

        rows = sequential(folder, min(3, given.rounds), given.peer_python)
        heads = ["", "MB/s, 1 core", "MB/s, 2 cores", "times", "processor s per GB"]
        print(table(f"{size}, from beginning to end, stored MB/s", heads, rows), flush=True)

        rows = scattered(sources(str(folder)), numbers, given.rounds, peers)
        heads = ["", "records/s", "of blocks", "processor µs a record"]
        title = f"{given.records} scattered records of 10 kB out of {size}"
        print(table(f"{title}, local", heads, rows), flush=True)
        if given.no_s3:
            return
        with bucket(folder.parent) as (name, proxy, options):
            storage = tfs.Storage(options, backend="obstore")
            found = sources(f"s3://{BUCKET}", storage)
            rows = scattered(found, numbers, given.rounds, {})
            print(table(f"{title}, {name}, 30 ms and 80 MB/s", heads, rows), flush=True)
            rows = [
                [each, f"{asked:.2f}", f"{mib:.2f}"]
                for each, source in found.items()
                for asked, mib in [fetched(proxy, source, numbers[:100])]
            ]
            heads = ["", "requests", "MiB"]
            print(table("What a record takes that is read alone", heads, rows), flush=True)


if __name__ == "__main__":
    main()
