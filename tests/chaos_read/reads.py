"""How is read: each way gives the records in the order in which they came, and what was said."""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tfio_store as tfs
from tests.servers.place import Place

__all__ = ["WAYS", "Asked", "Seen", "draw", "read"]

RETRY = tfs.Retry(attempts=3, base_delay=0.001, max_delay=0.01, timeout=5)


@dataclass
class Seen:
    """What a read brought. ``said``: how often it reported that something was skipped."""

    records: list[bytes] = field(default_factory=list)
    error: BaseException | None = None
    said: int = 0
    ordered: bool = True
    partial: bool = False
    """Not everything was asked for."""


@dataclass(frozen=True)
class Asked:
    """A read: ``midway`` is called once, after some of the records."""

    url: str
    place: Place
    dice: random.Random
    skip: bool
    midway: Callable[[], None]
    after: int
    cache: tfs.LocalCache | None = None

    @property
    def where(self) -> dict[str, Any]:
        return {"storage": self.place.storage(retry=RETRY, cache=self.cache)}

    def reader(self, seen: Seen, *, small: bool = True) -> tfs.RecordReader:
        def report(_: object) -> None:
            seen.said += 1

        policy: Any = self.dice.choice(["skip", report]) if self.skip else "raise"
        budget = self.dice.choice([200_000, 2 << 20]) if small else 256 << 20
        return tfs.RecordReader(self.url, on_corrupt=policy, memory_budget=budget, **self.where)


def take(asked: Asked, seen: Seen, runs: Iterator[list[bytes]]) -> None:
    midway = False
    for run in runs:
        seen.records += run
        if not midway and len(seen.records) > asked.after:
            midway = True
            asked.midway()


def iterate(asked: Asked, seen: Seen) -> None:
    with asked.reader(seen) as reader:
        take(asked, seen, ([record] for record in reader))


def batches(asked: Asked, seen: Seen) -> None:
    with asked.reader(seen) as reader:
        take(asked, seen, (batch.tolist() for batch in reader.batches()))


def shuffle(asked: Asked, seen: Seen) -> None:
    seen.ordered = False
    number, window = asked.dice.randrange(100), asked.dice.choice([1, 16])
    with asked.reader(seen, small=False) as reader, reader.shuffle(number, window=window) as mixed:
        take(asked, seen, ([record] for record in mixed))


def restore(asked: Asked, seen: Seen) -> None:
    """Another reader goes on every so often. What a file is cannot be held by a state."""
    with asked.reader(seen) as reader:
        for record in reader:
            seen.records.append(record)
            if len(seen.records) > asked.after:
                break
        else:
            return
        state = reader.state()
    with asked.reader(seen) as again:
        again.restore(state)
        take(asked, seen, ([record] for record in again))


def source(asked: Asked, seen: Seen) -> None:
    found = tfs.RecordSource(asked.url, cache_bytes=asked.dice.choice([0, 64 << 20]), **asked.where)
    step = max(asked.dice.choice([1, 7, 100]), len(found) // 50)  # each may fetch a block anew
    numbers = (range(at, min(at + step, len(found))) for at in range(0, len(found), step))
    take(asked, seen, (found[list(some)] for some in numbers))


def some(asked: Asked, seen: Seen) -> None:
    """A few records at random."""
    seen.ordered, seen.partial = False, True
    found = tfs.RecordSource(asked.url, cache_bytes=0, **asked.where)
    wanted = [asked.dice.randrange(len(found)) for _ in range(20)] if len(found) else []
    take(asked, seen, (found[[number]] for number in dict.fromkeys(wanted)))


def tfdata(asked: Asked, seen: Seen) -> None:
    options: dict[str, Any] = asked.dice.choice(
        [{}, {"batch_size": 3}, {"batch_size": 64}, {"shuffle": True}, {"shard": (1, 0)}]
    )
    seen.ordered = "shuffle" not in options
    policy = "skip" if asked.skip else "raise"
    dataset = tfs.TFRecordDataset(asked.url, on_corrupt=policy, **options, **asked.where)
    values = (element.numpy() for element in dataset)
    take(asked, seen, ([value] if isinstance(value, bytes) else value.tolist() for value in values))


WAYS = {
    "iterate": iterate,
    "batches": batches,
    "shuffle": shuffle,
    "restore": restore,
    "source": source,
    "some": some,
    "tfdata": tfdata,
}
SKIPPING = ("iterate", "batches", "shuffle", "restore", "tfdata")


def draw(dice: random.Random, *, tensorflow: bool, blocks: bool) -> str:
    """A way that there is to read a source, with ``blocks`` or without."""
    if tensorflow and dice.random() < 0.03:
        return "tfdata"
    ways = [way for way in WAYS if way != "tfdata"]
    return dice.choice(ways if blocks else [way for way in ways if way in SKIPPING])


def read(way: str, asked: Asked) -> Seen:
    """Never raises but for what is no error of a read."""
    seen = Seen()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            WAYS[way](asked, seen)
        except Exception as error:
            seen.error = error.with_traceback(None)
        if way == "tfdata":
            gc.collect()  # where an iterator is collected, TensorFlow waits for what it reads
    seen.said += sum(issubclass(each.category, tfs.errors.DataLossWarning) for each in told)
    return seen
