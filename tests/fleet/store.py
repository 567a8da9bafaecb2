"""A model of a store of buckets, and `BucketStore` over it.

One prefix answers so many reads a second, and SlowDown to those beyond. An answer takes a time that
is log-normal with a tail, and then its bytes go through the connection and the host's link.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from tests.fleet.clock import Answer, Clock
from tests.support.framed import framed
from tests.support.million import BLOCKS, LIST, many
from tfio_store.dataset.block_tables import BlockTable, ShardInfo
from tfio_store.storage import ObjectInfo, Retry, Storage, Store, Version
from tfio_store.storage.answers import StatusError
from tfio_store.storage.cloud.bucket_store import BucketStore, Page

__all__ = ["READS", "Bucket", "HostStore", "Service", "early", "reached"]

T = TypeVar("T")

MIB = 1 << 20
"""The size of each block, which is one record."""

READS = 5500
"""Reads a second that a prefix of S3 answers."""

_BURST_S = 0.1
_CONNECTION = 90e6
_LINK = 1.25e9
_SLOW = 0.003
"""The share of answers that take ten times as long."""


class Bucket:
    """The objects of one dataset, all shards of which are the same, and so are the pages."""

    def __init__(self, pages: int) -> None:
        frame = framed([bytes(MIB - 16)])
        self._data = memoryview(frame * 8)
        offsets = np.arange(BLOCKS + 1, dtype=np.int64)
        blocks = BlockTable(offsets * MIB, offsets * MIB, offsets)
        shard = ShardInfo("any", BLOCKS * MIB, BLOCKS, 0, blocks)
        made = many(shard, "train-{:05d}-of-1000000.tfrecord", pages)
        self._table, self._page, self.manifest = made.table, made.page, made.manifest.to_bytes()

    def bytes_of(self, path: str, start: int, stop: int) -> memoryview | bytes:
        if path.endswith(LIST):
            return self._page * ((stop - start) // len(self._page))
        if ".index." in path:
            return self._table
        first = start % MIB
        return self._data[first : first + stop - start]


@dataclass
class Service:
    """What all hosts share: the store's allowance, and what was asked of it."""

    clock: Clock
    bucket: Bucket
    reads: float = READS
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by their kind. "refused" are those that got a SlowDown."""
    nbytes: int = 0
    answered: list[float] = field(default_factory=list)
    """When each answer was given that is none of SlowDown."""
    refusals: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left, self._at = self.reads * _BURST_S, 0.0

    def _allowed(self) -> bool:
        now = self.clock.now
        most = self.reads * _BURST_S
        self._left = min(most, self._left + (now - self._at) * self.reads)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    async def answer(self, kind: str, nbytes: int, link: Link) -> None:
        """Take the time of one request, or raise what a store does that wants less of them."""
        self.asked[kind] += 1
        first = 0.03 * self.dice.lognormvariate(0, 0.4)
        if self.dice.random() < _SLOW:
            first *= 10
        if not self._allowed():
            self.refusals.append(self.clock.now)
            self.asked["refused"] += 1
            await asyncio.sleep(first / 2)
            raise StatusError(503, "SlowDown: Please reduce your request rate.")
        self.answered.append(self.clock.now)
        await asyncio.sleep(first)
        self.nbytes += nbytes
        await asyncio.sleep(link.takes(nbytes))


class Link:
    """A host's connection to the network."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._free = clock, 0.0

    def takes(self, nbytes: int) -> float:
        now = self._clock.now
        self._free = max(self._free, now) + nbytes / _LINK
        return max(self._free - now, nbytes / _CONNECTION)


class HostStore(BucketStore):
    """A host's own store: the library's code down to single requests."""

    def __init__(self, service: Service, retry: Retry) -> None:
        super().__init__("s3", {}, retry, cast(Any, None))
        self._service = service
        self._link = Link(service.clock)
        self.nbytes = 0
        self.requests = 0

    def _start(self, path: str, work: Coroutine[Any, Any, T]) -> Answer[T]:
        return self._service.clock.begin(work)

    def _wait(self, path: str, work: Coroutine[Any, Any, T]) -> T:
        return self._start(path, work).result()

    async def _ask_for(self, path: str, kind: str, nbytes: int = 0) -> None:
        async def attempt() -> None:
            self.requests += 1
            await self._service.answer(kind, nbytes, self._link)

        await self._ask(path, attempt, nbytes=nbytes)
        self.nbytes += nbytes

    async def _look(self, path: str) -> ObjectInfo | None:
        await self._ask_for(path, "look")
        return None

    async def _get(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        data = self._service.bucket.manifest if path.endswith(".json") else b""
        await self._ask_for(path, "manifest" if data else "missing", len(data))
        if not data:
            raise FileNotFoundError(2, "No such file or directory", self.url(path))
        return data, ObjectInfo(path, len(data), "etag")

    async def _read(self, path: str, start: int, stop: int, version: Version) -> Any:
        kind = "page" if path.endswith(LIST) else "table" if ".index." in path else "data"
        await self._ask_for(path, kind, stop - start)
        version.hold("etag", path)
        return self._service.bucket.bytes_of(path, start, stop)

    async def _page(
        self, prefix: str, deep: bool, token: str | None, most: int | None = None
    ) -> Page:
        await self._ask_for(prefix, "list")
        return [], [], None

    async def _put(self, *_: Any) -> ObjectInfo:
        raise NotImplementedError("the model is of readers")

    _upload: Any = _put
    _delete: Any = _put
    _copy: Any = _put
    _range: Any = _put
    _whole: Any = _put


class _Reached(Storage):
    """A `Storage` of one host."""

    def open(self, url: Any) -> tuple[Store, str]:
        return _STORES[self.options["host"]], str(url).removeprefix("s3://")  # type: ignore[index]


_STORES: dict[int, HostStore] = {}


def reached(store: HostStore) -> Storage:
    """What ``storage=`` takes of this host."""
    _STORES[id(store)] = store
    return _Reached({"host": id(store)})


def early(store: HostStore, ask: Callable[..., T], *args: Any) -> Callable[[], T]:
    """`tfio_store.storage.store.early`, with a greenlet in the place of a thread."""
    clock = store._service.clock
    answer = clock.host(lambda: ask(*args))

    def wait() -> T:
        clock.wait(answer)
        return answer.result()

    return wait
