"""What every benchmark shares: interleaved runs, medians, and a table."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

__all__ = ["machine", "medians", "print_table"]


def medians(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int = 5
) -> dict[str, float]:
    """Median seconds of each, after one warm-up. They take turns, so that a machine whose speed drifts is
    unfair to none."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            begin = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def machine() -> str:
    """One line on what this runs on."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
        model = names[0]
    except (OSError, IndexError):
        pass
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}, {sys.platform}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table; the first column is text, the others are numbers."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for number, row in enumerate(cells):
        aligned = [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        print("| " + " | ".join(aligned) + " |")
        if number == 0:
            rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
            print("| " + " | ".join(rule) + " |")
