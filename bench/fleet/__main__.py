"""``make sim-fleet``: 1 to 4,096 hosts on one dataset of a million shards, by a model.

The hosts run the library's own code: opening, sharing out, reading ahead, retries. Only the store,
the network and the clock are modelled. Each host reads a part of its share of an epoch: what an
epoch costs is computed from that.
"""

from __future__ import annotations

import argparse
import random
import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import tfio_store as tfs
import tfio_store.dataset.folder as folder
import tfio_store.dataset.paged_shards as paged_shards
import tfio_store.dataset.resolver as resolver
import tfio_store.storage.read_ahead as read_ahead
from bench.fleet.clock import Clock
from bench.fleet.store import READS, Bucket, HostStore, Service, early, reached
from bench.timing import table

URL = "s3://bucket/ds/train"
PAGES = 489


@dataclass
class Host:
    """What was seen of one host."""

    begun: float = 0.0
    opened: float = 0.0
    first: float = 0.0
    """When its first batch was there."""
    opening: int = 0
    """Requests that opening took, with those that were repeated."""
    blocks: int = 0
    seen: list[float] = field(default_factory=list)
    """When each batch was there."""
    fault: str = ""


@dataclass
class Run:
    """What a fleet did in some seconds."""

    hosts: list[Host]
    service: Service
    seconds: float

    def reached(self, since: float) -> float:
        """The share of the permitted rate, from a second on."""
        answered = sum(at >= since for at in self.service.answered)
        return answered / (self.seconds - since) / self.service.reads

    def refused(self, since: float = 0.0) -> float:
        """How many refusals there are for each answer."""
        answered = sum(at >= since for at in self.service.answered)
        return sum(at >= since for at in self.service.refusals) / max(answered, 1)


def fleet(
    count: int,
    *,
    seconds: float,
    over: float = 0.0,
    seed: int = 1,
    reads: float = READS,
    bucket: Bucket | None = None,
    retry: tfs.Retry | None = None,
) -> Run:
    """Let so many hosts read for some seconds. They begin within ``over`` seconds."""
    random.seed(seed)  # of which the waits of `Retry` are drawn
    clock = Clock()
    service = Service(clock, bucket or Bucket(PAGES), reads, random.Random(seed))
    hosts = [Host() for _ in range(count)]

    def read(number: int) -> None:
        host, store = hosts[number], HostStore(service, retry or tfs.Retry())
        host.begun = clock.now
        try:
            reader = tfs.RecordReader(URL, storage=reached(store))
            host.opened, host.opening = clock.now, store.requests
            for batch in reader.shard(number, count).batches():
                host.first = host.first or clock.now
                host.blocks += len(batch)
                host.seen.append(clock.now)
        except OSError as error:
            host.fault = str(error)

    with ExitStack() as patched:
        for module in (folder, resolver):
            patched.enter_context(patch.object(module, "early", early))
        patched.enter_context(patch.object(read_ahead, "monotonic", clock))
        patched.enter_context(patch.object(paged_shards, "decode_page", _once(paged_shards)))
        for number in range(count):
            clock.host(lambda number=number: read(number), after=service.dice.uniform(0, over))
        clock.loop.call_at(seconds, clock.loop.stop)
        clock.loop.run_forever()
    return Run(hosts, service, seconds)


def _once(module: Any) -> Any:
    """All pages are the same, and thousands of hosts need not decode and keep each its own."""
    decode, kept = module.decode_page, {}

    def decoded(data: Any) -> Any:
        key = bytes(memoryview(data)[-4:])
        if key not in kept:
            kept[key] = decode(data)
        return kept[key]

    return decoded


def row(run: Run, since: float) -> list[str]:
    alive = [host for host in run.hosts if not host.fault]
    first = sorted(host.first - host.begun for host in alive if host.first)
    late = [sum(at >= since for at in host.seen) for host in alive]
    deciles = statistics.quantiles(late, n=10) if len(late) > 1 else [late[0]] * 9
    asked = run.service.asked
    answered = len(run.service.answered)
    blocks = sum(host.blocks for host in run.hosts)
    return [
        f"{len(run.hosts):,}",
        f"{max(host.opening for host in run.hosts)}",
        f"{statistics.median(first):.2f}, {first[int(0.99 * len(first))]:.2f}",
        f"{answered / max(blocks, 1):.2f}",
        f"{run.service.nbytes / max(blocks, 1) / 2**20:.2f}",
        f"{answered / run.seconds:,.0f}",
        f"{run.reached(since):.0%}",
        f"{run.refused():.2f}",
        f"{deciles[0]:.0f} to {deciles[-1]:.0f}",
        f"{len(run.hosts) - len(alive)}",
        f"{asked['data']}/{asked['table']}/{asked['page']}",
    ]


COLUMNS = [
    "hosts", "opening: most requests", "first batch, s: median, 99 %", "requests a block",
    "MiB a block", "answers/s", "of the permitted rate", "refused for each answer",
    "blocks a host: 10 %, 90 %", "hosts that failed", "data/tables/pages",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="*", default=[1, 8, 64, 512, 4096])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--over", type=float, default=0)
    given = parser.parse_args()
    bucket = Bucket(PAGES)
    rows = []
    for count in given.hosts:
        run = fleet(count, seconds=given.seconds, over=given.over, bucket=bucket)
        rows.append(row(run, given.seconds / 2))
        print(rows[-1], next((h.fault for h in run.hosts if h.fault), ""), flush=True)
    print(table("All begin at once", COLUMNS, rows))


if __name__ == "__main__":
    main()
