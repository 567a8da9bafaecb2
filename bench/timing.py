"""Times of things side by side: in turns, so that a noisy machine is noisy to all of them."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def medians(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 25,
    round_s: float = 0.004,
    clock: Callable[[], float] = time.perf_counter,
    between: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Seconds that one call of each takes: the median of ``rounds`` rounds of ``round_s``.

    ``clock``: `time.thread_time` leaves out what other processes took of the CPU, for work that
    neither waits nor starts threads. ``between`` is called where the clock stands still.
    """
    repeats = {name: _repeats(call, round_s, clock) for name, call in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            between()
            times[name].append(_time(call, repeats[name], clock))
    return {name: statistics.median(values) for name, values in times.items()}


def _time(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def _repeats(call: Callable[[], object], round_s: float, clock: Callable[[], float]) -> int:
    call()  # warms up
    return max(1, int(round_s / max(_time(call, 1, clock), 1e-8)))


def table(title: str, columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([f"**{title}**", "", line(columns), rule, *map(line, rows), ""])


def machine() -> str:
    """What the times were taken on, in one line."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
