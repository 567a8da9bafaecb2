"""The scenarios: which actors meet, and how thoroughly each meeting is looked into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Literal

from tests.protocol.actors import Clean, Copy, Glob, Job, Night, Program, Read, Write
from tests.protocol.scenario import Scenario

WRITERS: dict[str, Write | Job] = {
    "create": Write("error"),
    "overwrite": Write("overwrite"),
    "append": Write("append"),
    "job": Job("overwrite"),
    "appending job": Job("append", shards=2),
}

TASKS: dict[str, Job] = {
    "tasks": Job("overwrite", fixed=False),
    "appending tasks": Job("append", shards=2, fixed=False),
    "plain tasks": Job("overwrite", shards=2, fixed=False, options={"names": "plain"}),
    "appending plain tasks": Job("append", fixed=False, options={"names": "plain"}),
}
"""Jobs without a number of shards."""

COMPANIONS: dict[str, Mapping[str, Program]] = {
    "": {},
    "reader": {"r": Read()},
    "globbing reader": {"g": Glob()},
    "clean(0)": {"x": Clean(0)},
    "a night, clean": {"n": Night(), "x": Clean()},
}


def scenarios() -> dict[str, Scenario]:
    """All of them, by name."""
    return {scenario.name: scenario for scenario in _all()}


def _all() -> Iterator[Scenario]:
    for name, writer in WRITERS.items():
        yield from _with_company(name, {"a": writer})
    yield from _copies({kind: WRITERS[kind] for kind in ("job", "appending job")})
    yield from _copies(TASKS)
    for name, tasks in TASKS.items():
        yield from _with_company(name, {"a": tasks})
        for other, writer in {**WRITERS, **TASKS}.items():
            yield from _with_company(f"{name}, {other}", {"a": tasks, "b": writer})
    for one, other in combinations_with_replacement(WRITERS, 2):
        yield from _with_company(f"{one}, {other}", {"a": WRITERS[one], "b": WRITERS[other]})
    for three in combinations_with_replacement(WRITERS, 3):
        writers = {who: WRITERS[name] for who, name in zip("abc", three, strict=True)}
        yield from _with_company(", ".join(three), writers)


def _copies(jobs: Mapping[str, Program]) -> Iterator[Scenario]:
    for kind, job in jobs.items():
        assert isinstance(job, Job)
        kinds: tuple[Literal["commit", "abort", "write"], ...] = ("commit", "abort", "write")
        for does in kinds:
            pair: dict[str, Program] = {"a": job, "c": Copy("a", does)}
            yield from _with_company(f"{kind}, a copy to {does}", pair)
            for other in ("overwrite", "append"):
                crowd = {**pair, "b": WRITERS[other]}
                yield from _with_company(f"{kind}, a copy to {does}, {other}", crowd)
        aborted: dict[str, Program] = {
            "a": replace(job, commits=False),
            "c": Copy("a", "commit"),
        }
        yield from _with_company(f"{kind} aborted, a copy to commit", aborted)


def _with_company(name: str, actors: Mapping[str, Program]) -> Iterator[Scenario]:
    """With nobody else, a reader, a cleaner; on a dataset, and where there is none."""
    for company, more in COMPANIONS.items():
        everybody = {**actors, **more}
        told = f"{name}, {company}" if company else name
        staged = "clean" in company
        yield Scenario(told, everybody, staged=staged)
        yield Scenario(f"{told}; new", everybody, exists=False, staged=staged)
        if company == "clean(0)":
            yield Scenario(f"{told}; alias", everybody, alias=True)
            yield Scenario(f"{told}; plain", everybody, exists=False, plain=True)
            yield Scenario(f"{told}; versions", everybody, etags_count=True)
