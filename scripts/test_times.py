"""The slowest tests and the sum of each folder, of the last run that left its times in build/tests.

A time is what the test took on the clock, with its fixtures, while others ran beside it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path("build/tests")
SLOWEST = 30


def times() -> dict[str, float]:
    """Seconds by test."""
    found: dict[str, float] = defaultdict(float)
    for report in sorted(FOLDER.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            found[f"{case.get('classname')}::{case.get('name')}"] += float(case.get("time", 0))
    return found


def folder(test: str) -> str:
    """tests.read.test_x::y is of read/; tests.test_x::y is its own."""
    parts = test.partition("::")[0].split(".")
    return f"{parts[1]}/" if len(parts) > 2 else f"{parts[-1]}.py"


def main() -> int:
    found = times()
    if not found:
        print(f"{FOLDER} holds no times: run `make test` first")
        return 1
    print(f"The {SLOWEST} slowest of {len(found)} tests")
    for test in sorted(found, key=found.__getitem__, reverse=True)[:SLOWEST]:
        print(f"{found[test]:8.1f} s  {test}")
    sums: dict[str, list[float]] = defaultdict(list)
    for test, seconds in found.items():
        sums[folder(test)].append(seconds)
    print("\n| tests of | seconds | tests | over 5 s |\n| --- | --: | --: | --: |")
    for name in sorted(sums, key=lambda one: -sum(sums[one])):
        seconds = sums[name]
        print(f"| {name} | {sum(seconds):.0f} | {len(seconds)} | {sum(s > 5 for s in seconds)} |")
    everything = found.values()
    over = sum(seconds > 5 for seconds in everything)
    print(f"| **all** | {sum(everything):.0f} | {len(found)} | {over} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
