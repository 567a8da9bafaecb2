"""How many requests are in flight, over a network of known speed whose clock is the test's."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from tests.servers.place import Place
from tests.servers.shaping_proxy import Request, Shaped
from tfio_store.storage import read_ahead
from tfio_store.storage.read_ahead import Fetch, Meter, ReadAhead, RequestWindow, Worked

KIB, MIB = 1 << 10, 1 << 20
ENDLESS = float("inf")
ZEROS = memoryview(bytes(8 * MIB))


@dataclass
class Network:
    """A store behind ``latency`` seconds and a link of ``bandwidth`` bytes a second, which takes
    ``each`` seconds for a request beside. Its clock goes on only when somebody waits."""

    latency: float
    bandwidth: float = ENDLESS
    each: float = 0.0
    in_flight: int = 16
    most_in_flight: int = 64
    dice: random.Random | None = None
    now: float = 0.0
    free: float = 0.0
    begun: list[int] = field(default_factory=list)
    """How many requests were in flight as each began, it among them."""
    waiting: int = 0

    def read(self, path: str, start: int, stop: int, *, etag: object) -> Future[memoryview]:
        del path, etag
        self.waiting += 1
        self.begun.append(self.waiting)
        jitter = 1.0 if self.dice is None else self.dice.lognormvariate(0, 0.25)
        arrives = max(self.now + self.latency * jitter, self.free)
        self.free = arrives + (stop - start) / self.bandwidth + self.each
        return Answer(self, self.free, ZEROS[: stop - start])

    def url(self, path: str) -> str:
        return path


class Answer(Future[memoryview]):
    def __init__(self, network: Network, at: float, data: memoryview) -> None:
        super().__init__()
        self.network, self.at, self.data = network, at, data

    def result(self, timeout: float | None = None) -> memoryview:
        self.network.now = max(self.network.now, self.at)
        self.network.waiting -= 1
        return self.data


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., float]:
    """Seconds that it takes to read ``count`` ranges of ``nbytes``, if the reader takes ``work``
    seconds for each."""

    def drain(
        network: Any, count: int, nbytes: int, *, work: float = 0.0, budget: int = 1 << 40
    ) -> float:
        monkeypatch.setattr(read_ahead, "monotonic", lambda: network.now)
        ranges = (
            Fetch(network, "x", i * nbytes, (i + 1) * nbytes, i, nbytes) for i in range(count)
        )
        order = []
        for fetch, data in ReadAhead(ranges, budget=budget):
            order.append(fetch.tag)
            assert len(memoryview(data)) == nbytes
            network.now += work
        assert order == list(range(count))
        return float(network.now)

    return drain


def tiny_ranges(network: Any, count: int) -> Iterator[Fetch[int]]:
    return (Fetch(network, "x", i, i + 1, i, 1) for i in range(count))


def last(network: Network) -> int:
    """The requests in flight in the end, before those that are left run out."""
    return max(network.begun[-64:])


@pytest.mark.parametrize("latency", [0.003, 0.03, 0.3])
def test_requests_grow_while_that_brings_more(
    drained: Callable[..., float], latency: float
) -> None:
    adapted, fixed = Network(latency), Network(latency, most_in_flight=16)
    seconds = drained(adapted, 2000, 10 * KIB)
    assert last(adapted) == 64
    assert seconds < 0.35 * drained(fixed, 2000, 10 * KIB)
    assert max(fixed.begun) == 16


def test_requests_stay_where_more_bring_nothing(drained: Callable[..., float]) -> None:
    for network, nbytes in (
        (Network(0.03, bandwidth=100e6), MIB),  # the link is full
        (Network(0.0003, each=0.001), 10 * KIB),  # the store, or the client, takes its time
    ):
        drained(network, 2000, nbytes)
        assert max(network.begun) == 32  # once
        assert last(network) == 16
        assert sum(number > 16 for number in network.begun) < 100


def test_the_last_doubling_that_helped_stays(drained: Callable[..., float]) -> None:
    network = Network(0.03, each=0.03 / 33)  # 33 requests fill it
    drained(network, 2000, KIB)
    assert max(network.begun) == 64
    assert last(network) == 32


def test_a_slow_reader_asks_for_no_more(drained: Callable[..., float]) -> None:
    network = Network(0.03)
    drained(network, 500, 10 * KIB, work=0.01)
    assert max(network.begun) == 16


def test_a_reader_that_becomes_fast_asks_for_more(drained: Callable[..., float]) -> None:
    network = Network(0.03)
    work = iter([0.01] * 200 + [0.0] * 1800)
    drained(network, 0, 1)  # for its clock
    for _ in ReadAhead(tiny_ranges(network, 2000), budget=MIB):
        network.now += next(work)
    assert last(network) == 64


def test_the_budget_holds(drained: Callable[..., float]) -> None:
    network = Network(0.03)
    drained(network, 500, MIB, budget=30 * MIB)
    assert max(network.begun) == 20  # each takes half of its size more, while it is joined


def test_few_ranges_begin_few_requests(drained: Callable[..., float]) -> None:
    network = Network(0.03)
    drained(network, 0, 1)  # for its clock
    ahead = ReadAhead(tiny_ranges(network, 100), budget=MIB)
    next(ahead)
    assert len(network.begun) == 8


def test_who_closes_keeps_no_range() -> None:
    """A reader that is closed may live on, and its meter with it."""
    network: Any = Network(0.03)
    meter = Meter()

    def work(*_: object) -> Worked:
        return Worked(1, None, Meter())

    ranges = (Fetch(network, "x", i, i + 1, i, 1, work=work) for i in range(9))
    ahead = ReadAhead(ranges, budget=MIB, meter=meter)
    next(ahead)
    assert meter.coming is not None
    ahead.close()
    assert meter.coming is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nbytes", [10 * KIB, 256 * KIB, 8 * MIB])
def test_it_is_never_much_slower_than_the_usual_number(
    drained: Callable[..., float], nbytes: int, seed: int
) -> None:
    for latency, bandwidth, work in product((0.0003, 0.003, 0.03, 0.3), (1e8, 1e9), (0.0, 0.002)):
        adapted, fixed = (
            Network(latency, bandwidth, most_in_flight=most, dice=random.Random(seed))
            for most in (64, 16)
        )
        budget = 256 * MIB
        seconds = drained(adapted, 1000, nbytes, work=work, budget=budget)
        assert seconds < 1.05 * drained(fixed, 1000, nbytes, work=work, budget=budget)


def at_once(requests: list[Request]) -> int:
    """The most requests that waited for their answers at one time."""
    ends = [each.answered for each in requests if each.answered is not None]
    return max(
        sum(each.begin <= begin < end for each, end in zip(requests, ends, strict=True))
        for begin in (each.begin for each in requests)
    )


def test_a_distant_store_gets_more_requests(
    s3: Place, shaped: Callable[..., Shaped], backend: str
) -> None:
    s3.put("x", bytes(1000))
    proxy = shaped(s3.endpoint, ttfb_ms=200, jitter=0)
    store, path = s3.through(proxy.endpoint, backend).open("x")

    def ranges() -> Iterator[Fetch[int]]:
        for i in range(160):
            yield Fetch(store, path, 5 * i, 5 * i + 5, i, 5)

    assert [fetch.tag for fetch, _ in ReadAhead(ranges(), budget=MIB)] == list(range(160))
    asked = [each for each in proxy.timeline() if "bytes=" in each.line]
    assert store.in_flight < at_once(asked) <= store.most_in_flight


@pytest.mark.parametrize(("usual", "most"), [(1, 1), (16, 4), (3, 2)])
def test_a_store_never_gets_more_than_its_most(usual: int, most: int) -> None:
    window = RequestWindow(usual, most)
    sizes = [window.size]
    for second in range(99):
        window.answered(1, second, second + 0.9)
        sizes.append(window.size)
    assert max(sizes) <= most
