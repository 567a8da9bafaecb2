"""Every scenario in every way, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.protocol.environment import simulated
from tests.protocol.explore import Found, explore, shrink, wander
from tests.protocol.scenario import Scenario
from tests.protocol.suite import scenarios


@dataclass
class Row:
    """What one way of looking found, over all scenarios."""

    scenarios: int = 0
    complete: int = 0
    states: int = 0
    ends: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, name: str, found: Found) -> None:
        self.scenarios += 1
        self.complete += found.complete
        self.states += found.states
        self.ends += found.ends
        self.fates += found.fates
        if found.violation:
            self.violations.append(f"{name}: {found}")

    def line(self, what: str) -> str:
        cells = (
            what,
            f"{self.scenarios} ({self.complete} whole)" if self.complete else f"{self.scenarios}",
            f"{self.states:,}",
            f"{self.ends:,}",
            f"{sum(self.fates.values()):,}",
            f"{len(self.violations)}",
        )
        return "| " + " | ".join(cells) + " |\n"


Way = Callable[[Scenario, float, int], Found]


def work(what: str, name: str, seconds: float, seed: int) -> Found:
    """One scenario in one way, in a process of its own."""
    with simulated():
        scenario = scenarios()[name]
        found = WAYS[what](scenario, seconds, seed)
        return shrink(scenario, found) if found.violation else found


def _explore(**options: int) -> Way:
    return lambda scenario, seconds, _: explore(scenario, seconds=seconds, **options)


WAYS: dict[str, Way] = {
    "two turns, no faults": _explore(turns=2),
    "one turn, one fault": _explore(turns=1, faults=1),
    "every order, no faults": _explore(),
    "every order, one fault": _explore(faults=1),
    "orders at random, up to three faults": lambda scenario, seconds, seed: wander(
        scenario, seed=seed, runs=sys.maxsize, faults=3, seconds=seconds
    ),
}


def check(names: list[str], seconds: float, seed: int) -> dict[str, Row]:
    """Every scenario in every way, in about so many seconds.

    A scenario that is through early leaves its time to those that come after it.
    """
    rows = {what: Row() for what in WAYS}
    processes, start = os.cpu_count() or 1, time.monotonic()
    context = multiprocessing.get_context("forkserver")
    with (
        context.Pool(processes, maxtasksperchild=64) as pool,
        ThreadPoolExecutor(processes) as threads,
    ):
        for turn, what in enumerate(WAYS, 1):
            deadline = start + seconds * turn / len(WAYS)

            def look(
                number: int, what: str = what, deadline: float = deadline
            ) -> tuple[str, Found]:
                left = max(deadline - time.monotonic(), 1) / (len(names) - number)
                task = what, names[number], left * processes, seed + number
                return names[number], pool.apply(work, task)

            for name, found in threads.map(look, range(len(names))):
                rows[what].add(name, found)
                print(f"\r{what}: {rows[what].scenarios} of {len(names)}", end="", flush=True)
                if found.violation:
                    print(f"\n{name}: {found}")
            print("\n" + rows[what].line(what), flush=True)
    return rows
