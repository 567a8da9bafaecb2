"""The short form of ``make protocol``: the commit protocol in every order, and at random."""

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
    "append, append",
    "append, append; new",
    "overwrite, append",
    "create, clean(0); plain",
    "create, clean(0); new",
    "overwrite, clean(0); alias",
    "job, a copy to commit",
    "job, a copy to abort",
    "job aborted, a copy to commit; new",
    "job, a copy to write",
    "tasks, a copy to commit",
    "tasks, a copy to write",
    "plain tasks, a copy to abort",
)
WITH_A_FAULT = ("create; new", "overwrite", "append", "job", "tasks", "plain tasks")


@pytest.fixture(autouse=True)
def simulation() -> Iterator[None]:
    with simulated():
        yield


def holds(found: Found) -> None:
    assert not found.violation, str(found)


@pytest.mark.parametrize("name", first(9, EVERY_ORDER))
def test_every_order(name: str) -> None:
    found = explore(scenarios()[name])
    holds(found)
    assert found.complete


@pytest.mark.parametrize("name", WITH_A_FAULT)
def test_every_order_with_a_fault(name: str) -> None:
    found = explore(scenarios()[name], faults=1)
    holds(found)
    assert found.complete


def test_many_scenarios_at_random() -> None:
    for seed, scenario in enumerate([*scenarios().values()][::60]):
        holds(wander(scenario, seed=seed, runs=1, faults=2))


def test_a_store_that_decides_no_conditions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    put = World.put

    def unconditional(world: World, path: str, data: bytes, *conditions: Any) -> Any:
        return put(world, path, data)

    monkeypatch.setattr(World, "put", unconditional)
    scenario = scenarios()["append, append"]
    found = explore(scenario)
    assert "made" in found.violation
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
