"""All orders of a scenario; some at random; one again, by its trace."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from tests.protocol.invariants import Violation
from tests.protocol.scenario import Scenario
from tests.protocol.state import State


@dataclass(slots=True)
class Found:
    """What was tried, and the first violation, with the trace that leads to it."""

    states: int = 0
    """Different ones, of all orders; of orders at random, one after the other."""
    ends: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    """Faults, and how often each was put in."""
    complete: bool = False
    """Whether every order was tried."""
    violation: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.violation}\n    {shortened(self.trace)}"


@dataclass(slots=True)
class _Step:
    state: State
    untried: list[str]
    acting: str = ""
    turns: int = 0
    """How often another has begun to act where the one who acted could have gone on."""
    taken: str = ""


def explore(
    scenario: Scenario, *, faults: int = 0, turns: int | None = None, seconds: float = 1e9
) -> Found:
    """Every order of the actors' requests, with up to so many faults, depth first. With ``turns``,
    only the orders in which the actors seldom take turns: there are few, and most mistakes show.

    A state that was seen before is not gone into again.
    """
    found = Found(complete=True)
    seen: dict[tuple[int, str], int] = {(scenario.start.fingerprint(), ""): 0}
    steps = [_Step(scenario.start, scenario.start.choices(faults))]
    deadline = time.monotonic() + seconds
    try:
        while steps:
            step = steps[-1]
            if not step.untried:
                steps.pop()
                continue
            step.taken = step.untried.pop()
            acting, turned = "", 0
            if turns is not None:
                acting = step.taken.partition(":")[0]
                could_go_on = step.acting in step.state.choices(0)
                turned = step.turns + (acting != step.acting and could_go_on)
                if turned > turns:
                    continue
            state = scenario.promises.moved(step.state, step.taken)
            mark = state.fingerprint(), acting
            if seen.get(mark, turned + 1) <= turned:
                continue
            seen[mark] = turned
            found.fates[step.taken.partition(":")[2]] += 1
            choices = state.choices(faults)
            steps.append(_Step(state, choices, acting, turned))
            if not choices:
                found.ends += 1
                scenario.promises.check_end(state)
            if time.monotonic() > deadline:
                found.complete = False
                break
    except Violation as broken:
        found.violation, found.complete = str(broken), False
        found.trace = [step.taken for step in steps if step.taken]
    found.states = len(seen)
    del found.fates[""]
    return found


def wander(
    scenario: Scenario, *, seed: int, runs: int, faults: int = 2, seconds: float = 1e9
) -> Found:
    """So many orders at random: who acts goes on more often than not; faults are rare."""
    dice, found = random.Random(seed), Found()
    deadline = time.monotonic() + seconds
    while found.ends < runs and time.monotonic() < deadline and not found.violation:
        state, acting, trace = scenario.start, "", list[str]()
        likely = dice.choice((0.0, 0.02, 0.1, 0.3))
        try:
            while choices := state.choices(faults if dice.random() < likely else 0):
                going_on = [choice for choice in choices if choice.partition(":")[0] == acting]
                trace.append(dice.choice(going_on if going_on and dice.random() < 0.6 else choices))
                acting, _, fate = trace[-1].partition(":")
                found.fates[fate] += bool(fate)
                state = scenario.promises.moved(state, trace[-1])
            scenario.promises.check_end(state)
        except Violation as broken:
            found.violation, found.trace = str(broken), trace
        found.ends += 1
        found.states += len(trace)
    return found


def replay(scenario: Scenario, trace: list[str]) -> tuple[Found, list[str]]:
    """That order again, with a line for each step. Steps that can't be taken are passed by; after
    the last one each actor goes on to its end."""
    found, lines, state = Found(), list[str](), scenario.start
    left = iter(trace)
    try:
        while True:
            choice = next(left, None)
            choices = state.choices(99 if choice is not None else 0)
            if choice is None:
                if not choices:
                    break
                choice = choices[0]
            elif choice not in choices:
                continue
            lines.append(state.line(choice))
            found.trace.append(choice)
            state = scenario.promises.moved(state, choice)
        scenario.promises.check_end(state)
    except Violation as broken:
        found.violation = str(broken)
    for name, moment in state.actors.items():
        ended = "dead" if name in state.dead else "waits" if not moment.ended else "done"
        lines.append(f"{name}: {moment.error!r}" if moment.error else f"{name}: {ended}")
    return found, lines


def shrink(scenario: Scenario, found: Found) -> Found:
    """The same violation, or another, by a trace that is as short as leaving steps out makes it."""
    best, size = found, max(len(found.trace) // 2, 1)
    while size:
        for start in range(len(best.trace), -1, -size):
            tried, _ = replay(scenario, best.trace[:start] + best.trace[start + size :])
            if tried.violation and effort(tried.trace) < effort(best.trace):
                best = tried
        size //= 2
    return replace(found, violation=best.violation, trace=best.trace)


def effort(trace: list[str]) -> tuple[int, int, int]:
    """How hard a trace is to read: its faults, its changes of actor, its length."""
    turns = sum(a != b for a, b in itertools.pairwise(trace))
    return sum(":" in choice for choice in trace), turns, len(trace)


def shortened(trace: list[str]) -> str:
    """``a a a b:lost`` as ``a*3 b:lost``."""
    groups = ((choice, len(list(group))) for choice, group in itertools.groupby(trace))
    return " ".join(choice if count == 1 else f"{choice}*{count}" for choice, count in groups)


def lengthened(text: str) -> list[str]:
    """The inverse of `shortened`."""
    found = re.findall(r"(\S+?)(?:\*(\d+))?(?=\s|$)", text)
    return [choice for choice, count in found for _ in range(int(count or 1))]
