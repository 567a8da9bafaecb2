"""``make long ONLY=fleet``: 1 to 4,096 hosts on one dataset of a million shards, by a model.

The hosts run the library's own code: opening, sharing out, reading ahead, retries. Only the store,
the network and the clock are modelled. Each host reads a part of its share of an epoch: what an
epoch costs is computed from that.
"""

from __future__ import annotations

import argparse
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any
from unittest.mock import patch

import tfio_store as tfs
import tfio_store.dataset.folder as folder
import tfio_store.dataset.pages as pages
import tfio_store.dataset.resolver as resolver
import tfio_store.storage.read_ahead as read_ahead
import tfio_store.storage.retry as retry
from bench.timing import machine, table
from tests.fleet.clock import Clock
from tests.fleet.store import READS, Bucket, HostStore, Service, early, reached
from tfio_store.storage.pace import Pace

URL = "s3://bucket/ds/train"
PAGES = 489

ATTEMPTS = 8
"""A host gives up after so many refusals in a row, as no host should meet. By itself it would wait
for minutes."""


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
    deaths: float = 0.0,
    paced: bool = True,
    seed: int = 1,
    reads: float = READS,
    bucket: Bucket | None = None,
) -> Run:
    """Let so many hosts read for some seconds.

    They begin within ``over`` seconds. A share of ``deaths`` of them dies in the first half of the
    time, and two seconds later another process goes on from the host's last state. ``paced``: False
    for what happens without `Pace`.
    """
    random.seed(seed)  # of which the waits of `Retry` are drawn
    clock = Clock()
    service = Service(clock, bucket or Bucket(PAGES), reads, random.Random(seed))
    hosts = [Host() for _ in range(count)]
    dice = random.Random(seed)

    def read(number: int, death: float, state: dict[str, Any] | None = None) -> None:
        host, store = hosts[number], HostStore(service, tfs.Retry(attempts=ATTEMPTS))
        host.begun = host.begun or clock.now
        try:
            reader = tfs.RecordReader(URL, storage=reached(store)).shard(number, count)
            host.opened, host.opening = clock.now, store.requests
            if state is not None:
                reader.restore(state)
            for batch in reader.batches():
                host.first = host.first or clock.now
                host.blocks += len(batch)
                host.seen.append(clock.now)
                if clock.now > death:
                    clock.sleep(2)
                    return read(number, 2 * seconds, reader.state())
        except OSError as error:
            host.fault = str(error)

    with ExitStack() as patched:
        for module in (folder, resolver):
            patched.enter_context(patch.object(module, "early", early))
        for module in (read_ahead, retry):
            patched.enter_context(patch.object(module, "monotonic", clock))
        # the watch goes by the machine's clock, and what the end of the run leaves waits for ever
        patched.enter_context(patch.object(retry.Waiting, "begin", lambda _: None))
        patched.enter_context(patch.object(pages, "decode_page", _once(pages)))
        if not paced:
            patched.enter_context(patch.object(Pace, "wait", lambda *_: 0.0))
        for number in range(count):
            death = dice.uniform(0, seconds / 2) if dice.random() < deaths else 2 * seconds
            clock.host(partial(read, number, death), after=dice.uniform(0, over))
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


def row(name: str, scale: int, run: Run) -> list[str]:
    """What a table says of a run. Its second half shows what the rate settles at."""
    since = run.seconds / 2
    alive = [host for host in run.hosts if not host.fault]
    first = sorted(host.first - host.begun if host.first else inf for host in alive)
    late = sorted(sum(at >= since for at in host.seen) / since for host in alive)
    blocks = max(sum(host.blocks for host in run.hosts), 1)
    asked, answered = run.service.asked, len(run.service.answered)
    return [
        name,
        f"{len(run.hosts) * scale:,}",
        f"{max((host.opening for host in alive), default=0)}",
        f"{asked['data'] / blocks:.2f} + {(asked['table'] + asked['page']) / blocks:.2f}",
        f"{run.service.nbytes / blocks / 2**20:.2f}",
        f"{first[len(first) // 2]:.1f}, {first[int(0.95 * len(first))]:.1f}" if first else "",
        f"{answered / run.seconds * scale:,.0f}",
        f"{run.reached(since):.0%}",
        f"{run.refused():.2f}, {run.refused(since):.2f}",
        f"{late[len(late) // 10]:.1f} to {late[-1 - len(late) // 10]:.1f}" if late else "",
        f"{(len(run.hosts) - len(alive)) * scale}",
    ]


COLUMNS = [
    "start", "hosts", "requests to open", "for a block: data + tables, pages", "MiB a block",
    "first batch, s: 50 %, 95 %", "answers/s", "of the permitted rate, later",
    "refusals an answer, and later", "blocks/s a host, later: 10 %, 90 %", "hosts that gave up",
]  # fmt: skip

SCALED = 8
"""Of more than 64 hosts an eighth is modelled, at a store that permits an eighth."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="*", default=[1, 8, 64, 512, 4096])
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    bucket, most = Bucket(PAGES), max(given.hosts)
    ways: list[tuple[str, int, dict[str, Any]]] = [("at once", n, {}) for n in given.hosts]
    ways += [
        ("at once, without Pace", most, {"paced": False}),
        ("within 10 s", most, {"over": 10.0}),
        ("a tenth dies", min(most, 512), {"deaths": 0.1}),
    ]
    rows = []
    for name, count, how in ways:
        scale = SCALED if count > 64 else 1
        seconds = given.seconds if scale > 1 else given.seconds / 4
        run = fleet(
            count // scale, seconds=seconds, reads=READS / scale, bucket=bucket, seed=1, **how
        )
        rows.append(row(name, scale, run))
        print(*rows[-1], sep=" | ", flush=True)
    print(machine(), "", table("Hosts that read as fast as they can", COLUMNS, rows), sep="\n")


if __name__ == "__main__":
    main()
