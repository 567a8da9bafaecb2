"""Times of things side by side: in turns, so that a noisy machine is noisy to all of them."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """Seconds and processor seconds of one call."""

    wall: float
    busy: float


def costs(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    round_s: float = 0,
    between: Callable[[], object] = lambda: None,
) -> dict[str, Cost]:
    """What one call of each costs: the median of the rounds.

    What is shorter than ``round_s`` seconds is repeated in its round. ``between`` is called before
    each round of one, whose clock stands still.
    """
    repeats = {}
    for name, call in candidates.items():
        call()  # warms up
        repeats[name] = max(1, int(round_s / max(_cost(call, 1).wall, 1e-8)))
    found: dict[str, list[Cost]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            between()
            found[name].append(_cost(call, repeats[name]))
    return {
        name: Cost(*map(statistics.median, zip(*several, strict=True)))
        for name, several in found.items()
    }


def medians(candidates: Mapping[str, Callable[[], object]], **how: Any) -> dict[str, float]:
    """The seconds of `costs`."""
    return {name: cost.wall for name, cost in costs(candidates, **how).items()}


def _cost(call: Callable[[], object], repeats: int) -> Cost:
    wall, busy = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    return Cost((time.perf_counter() - wall) / repeats, (time.process_time() - busy) / repeats)


def table(title: str, columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([f"**{title}**", "", line(columns), rule, *map(line, rows), ""])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory where there is such a place: a disk would be all that is measured."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None)


def machine() -> str:
    """What the times were taken on, in one line."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
