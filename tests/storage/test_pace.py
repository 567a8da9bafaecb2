"""How fast requests follow each other at a store that refuses some. The clock is the test's."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

import pytest

from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped
from tfio_store.storage import Retry, Store
from tfio_store.storage.answers import StatusError
from tfio_store.storage.faults import is_slow_down
from tfio_store.storage.pace import Pace


class Fleet:
    """Hosts that keep 16 requests each in flight at a store, of which each takes a twentieth of a
    second. ``allowed`` says at the end of each, by its time, whether it is answered."""

    def __init__(self, hosts: int, allowed: Callable[[float], bool]) -> None:
        self.paces = [Pace() for _ in range(hosts)]
        self.given = [0] * hosts
        self.begun = 0
        self._allowed = allowed
        self._dice = random.Random(hosts)
        self._due: list[tuple[float, int, int, float | None]] = []
        for host, pace in enumerate(self.paces):
            for _ in range(16):
                self._push(0.0, host, pace.join(), None)

    def _push(self, at: float, host: int, number: int, begun: float | None) -> None:
        heappush(self._due, (at, host, number, begun))

    def run(self, until: float) -> None:
        while self._due[0][0] < until:
            now, host, number, begun = heappop(self._due)
            pace = self.paces[host]
            if begun is None:
                wait = pace.wait(number, now)
                self.begun += not wait
                took = 0.05 * self._dice.lognormvariate(0, 0.3)
                self._push(now + (wait or took), host, number, None if wait else now)
                continue
            answered = self._allowed(now)
            pace.ended(now, begun, refused=not answered)
            self.given[host] += answered
            if answered:
                pace.leave(number)
                number = pace.join()
            self._push(now + 1e-6 if answered else now + 0.1, host, number, None)


class Limit:
    """So many requests a second."""

    def __init__(self, rate: float) -> None:
        self._rate, self._room, self._at = rate, rate / 10, 0.0

    def __call__(self, now: float) -> bool:
        self._room = min(self._rate / 10, self._room + (now - self._at) * self._rate)
        self._at = now
        answered = self._room >= 1
        self._room -= answered
        return answered


def refused(pace: Pace) -> list[int]:
    """The numbers of three requests that a store has refused."""
    numbers = [pace.join() for _ in range(3)]
    for number in numbers:
        assert pace.wait(number, 0.0) == 0
    for _ in numbers:
        pace.ended(0.1, 0.0, refused=True)
    return numbers


def test_nothing_is_held_up_before_a_refusal() -> None:
    fleet = Fleet(1, lambda _: True)
    fleet.run(20)
    assert fleet.begun > 0.9 * 16 * 20 * 20
    assert fleet.paces[0].rate == inf


def test_a_refusal_lowers_the_rate_and_answers_raise_it_again() -> None:
    fleet = Fleet(1, lambda now: not 1 < now < 1.5)
    fleet.run(1.5)
    low = fleet.paces[0].rate
    assert low < 250
    fleet.run(30)
    assert 1.5 * low < fleet.paces[0].rate < inf


def test_a_store_that_refuses_all_is_asked_twice_in_a_second() -> None:
    fleet = Fleet(1, lambda _: False)
    fleet.run(100)
    before = fleet.begun
    fleet.run(200)
    assert 45 <= fleet.begun - before <= 55


def test_a_store_that_is_only_faulty_is_not_spared() -> None:
    dice = random.Random(1)
    fleet = Fleet(1, lambda _: dice.random() > 0.05)
    fleet.run(60)
    assert fleet.given[0] > 0.5 * 16 * 20 * 60


def test_what_is_repeated_goes_before_what_is_new() -> None:
    pace = Pace()
    first, *_ = refused(pace)
    new = pace.join()
    while (wait := pace.wait(new, 0.1)) == 0:  # one may begin at once
        new = pace.join()
    assert 0 < pace.wait(first, 0.1) == wait < pace.wait(new, 0.1)
    pace.leave(first)  # it wants nothing any more
    assert pace.wait(new, 0.1) == wait


def test_a_refusal_is_forgotten() -> None:
    pace = Pace()
    first, *_ = refused(pace)
    assert pace.rate < inf
    assert pace.wait(first, 100.0) == 0
    assert pace.rate == inf


def test_a_fault_of_a_server_is_no_wish_for_fewer_requests() -> None:
    assert is_slow_down(StatusError(429, "Too Many Requests"))
    assert is_slow_down(StatusError(503, "<Code>SlowDown</Code>"))
    assert not is_slow_down(StatusError(503, "upstream connect error"))
    assert not is_slow_down(StatusError(500, "InternalError"))


@pytest.mark.parametrize("hosts", [2, 16, 64])
def test_hosts_share_what_a_store_gives(hosts: int) -> None:
    """They begin at once, and ask for far more. None knows of the others."""
    fleet = Fleet(hosts, Limit(100))
    fleet.run(60)
    before, asked = list(fleet.given), fleet.begun
    fleet.run(180)
    given = sorted(now - then for now, then in zip(fleet.given, before, strict=True))
    assert sum(given) > 0.95 * 100 * 120
    assert fleet.begun - asked < 1.25 * sum(given)
    assert given[0] > 0.15 * 100 * 120 / hosts  # nobody starves


def read(store: Store, path: str) -> None:
    store.read(path, 0, 5).result()


def put(store: Store, path: str) -> None:
    store.put(path, b"one")


def write(store: Store, path: str) -> None:
    output = store.open_output(path)
    output.write(bytes(9 << 20))
    output.commit()


@pytest.mark.parametrize("ask", [read, put, write], ids=lambda ask: ask.__name__)
def test_requests_to_a_bucket_are_paced(
    s3: Place, shaped: Callable[..., Shaped], ask: Callable[[Store, str], object], backend: str
) -> None:
    s3.put("x", b"12345")
    proxy = shaped(s3.endpoint, p_503=1.0)
    retry = Retry(attempts=3, base_delay=0)
    store, path = s3.through(proxy.endpoint, backend).open("x", retry=retry)
    with pytest.raises(OSError, match="SlowDown"):
        ask(store, path)
    pace = store._pace.here  # type: ignore[attr-defined]
    assert pace.rate < 5
    assert (pace._waiting, pace._under_way) == ([], 0)
