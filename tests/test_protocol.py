"""The short form of ``make long ONLY=protocol``: every order, and orders at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocol.environment import simulated
from tests.protocol.explore import Found, explore, lengthened, replay, shortened, shrink, wander
from tests.protocol.store import SimulatedStore
from tests.protocol.suite import scenarios
from tests.protocol.world import World
from tests.support.long import first

EVERY_ORDER = (
    "overwrite, reader",
    "overwrite, globbing reader",
    "create, clean(0); plain",
    "overwrite, clean(0); alias",
    "job, a copy to abort",
    "create, clean(0); new",
    "job aborted, a copy to commit; new",
    "job, a copy to write",
    "append, append",
    "overwrite, append",
    "job, a copy to commit",
    "append, append; new",
    "tasks, a copy to commit",
    "tasks, a copy to write",
    "plain tasks, a copy to abort",
)
TWO_TURNS = (
    "append, clean(0)",
    "overwrite, clean(0)",
    "append, clean(0); plain",
    "overwrite, clean(0); alias",
    "appending tasks, clean(0)",
    "append, a night, clean",
    "overwrite, append",
    "append, globbing reader",
    "plain tasks, clean(0)",
    "job, a copy to abort, clean(0)",
    "appending job, a copy to write, append",
    "append, append, clean(0); plain",
)
WITH_A_FAULT = (
    "create; new",
    "overwrite",
    "append",
    "job",
    "tasks",
    "plain tasks",
    "overwrite, globbing reader",
)


@pytest.fixture(autouse=True)
def simulation() -> Iterator[None]:
    with simulated():
        yield


def holds(found: Found) -> None:
    assert not found.violation, str(found)


@pytest.mark.parametrize("name", first(6, EVERY_ORDER))
def test_every_order(name: str) -> None:
    found = explore(scenarios()[name])
    holds(found)
    assert found.complete


@pytest.mark.parametrize("name", first(5, TWO_TURNS))
def test_every_order_of_two_turns(name: str) -> None:
    found = explore(scenarios()[name], turns=2)
    holds(found)
    assert found.complete


@pytest.mark.parametrize("name", first(4, WITH_A_FAULT))
def test_every_order_with_a_fault(name: str) -> None:
    found = explore(scenarios()[name], faults=1)
    holds(found)
    assert found.complete


def test_many_scenarios_at_random() -> None:
    for seed, scenario in enumerate([*scenarios().values()][::100]):
        holds(wander(scenario, seed=seed, runs=1, faults=2))


ORDERS = {
    "a refused look at a claim tells nothing of the job": (
        "job, a copy to commit; new",
        "a*7 a:refused c*5 a c*3 a*4 c:refused",
    ),
    "a copy that timed out knows less than one whose manifest came late": (
        "appending job, a copy to commit, reader; new",
        "a r*2 a*2 r*2 a*8 r*2 c a c:failed a*5 a:late a ~0",
    ),
    "copies noted after clean has read the claim": (
        "plain tasks, a copy to write, clean(0); plain",
        "x a*14 x*3 a*4 a:dies x*3 c x*3 c x*3",
    ),
    "a shard noted after clean has read the claim": (
        "create, create, clean(0); new",
        "b*4 x a b x*4 b*2 a*3 x*2 b*4 b:refused x*3 a*12 x",
    ),
    "copies of an append that was first": (
        "appending plain tasks, appending plain tasks",
        "a b*6 a*10 b*3 a*9 b*2 a*10 b*13",
    ),
    "a commit that clean has taken over, and that another writer has overtaken": (
        "overwrite, append, job, clean(0)",
        "b*4 a b*2 a*3 b c*4 x*2 b c*8 a x*3 a*2 c x*2 a b*3 a x*5 b a*4 b*3 x*4 c*9 x*5 a b*10 "
        "x*2",
    ),
    "a copy that gives up deletes the index with which another one has published": (
        "tasks, a copy to abort, overwrite",
        "b*5 a*4 b*4 a*2 b*2 a*36",
    ),
    "the same beside a job that is appended to": (
        "appending job, a copy to abort, append, clean(0)",
        "a*2 b*5 a*2 b*2 a*2 b*5 a*7 c*5 b a*19 c*2 a",
    ),
    "an index that clean takes for a leftover while it is about to be named": (
        "append, clean(0)",
        "a*16 x*9 a x*6",
    ),
    "the same, as soon as clean has deleted it": ("appending tasks, clean(0)", "a*26 x*17 a"),
    "an index with which a copy has published, and that another copy sweeps": (
        "job, a copy to commit, overwrite; new",
        "a*16 b*14 c*9 a*4",
    ),
    "a reader of a hidden name behind a publication and the overwrite of what was published": (
        "tasks, appending plain tasks, reader; new",
        "b*16 r*3 b*16 a*37 r*6",
    ),
    "a plain index that is the next writer's by the time clean deletes it": (
        "create, create, clean(0); new",
        "b*12 x*14 b*12 a*15 x",
    ),
    "a claim that was listed, and whose writer has copied to plain names since": (
        "appending plain tasks, append; new",
        "a*13 b*5 a*19 b*9",
    ),
    "a doubled shard that comes behind its writer's end is a stranger's file": (
        "appending job, a copy to abort, overwrite, globbing reader; new",
        "b*7 b:twice b:refused b*7 a*24 c*4 g ~0",
    ),
}
"""Orders that broke a promise once."""


@pytest.mark.parametrize("what", ORDERS)
def test_an_order_that_broke_a_promise_once(what: str) -> None:
    name, trace = ORDERS[what]
    found, _ = replay(scenarios()[name], lengthened(trace))
    holds(found)


def test_a_store_that_decides_no_conditions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    put = World.put

    def unconditional(world: World, path: str, data: bytes, *_: Any, **conditions: Any) -> Any:
        return put(world, path, data)

    monkeypatch.setattr(World, "put", unconditional)
    scenario = scenarios()["append, append"]
    found = explore(scenario)
    assert found.violation
    shorter = shrink(scenario, found)
    assert replay(scenario, shorter.trace)[0].violation == shorter.violation
    assert len(shorter.trace) <= len(found.trace)


def test_a_store_that_repeats_requests_and_does_not_say_so_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimulatedStore, "asks_once", True)
    found = explore(scenarios()["overwrite"], faults=1)
    assert found.violation
    assert any(step.endswith(":overtaken") for step in found.trace)


def test_a_trace_reads_as_it_was_written() -> None:
    trace = ["a", "a", "b:lost403", "~0", "b", "b", "b"]
    assert shortened(trace) == "a*2 b:lost403 ~0 b*3"
    assert lengthened(shortened(trace)) == trace
