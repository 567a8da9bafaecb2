"""``make bench-start``: how long ``tfio-store --help`` and ``import tfio_store`` take, beside a
Python that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

from bench.timing import machine, medians, table

WAYS = {
    "python -c pass": ["-c", "pass"],
    "import tfio_store": ["-c", "import tfio_store"],
    "tfio-store --help": ["-m", "tfio_store", "--help"],
}
ROUNDS = 11


def start(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    calls = {way: partial(start, argv) for way, argv in WAYS.items()}
    took = medians(calls, rounds=ROUNDS, round_s=0)
    python = took["python -c pass"]
    rows = [
        [way, f"{seconds * 1e3:.0f}", f"{(seconds - python) * 1e3:.0f}"]
        for way, seconds in took.items()
    ]
    print(machine(), f"load {os.getloadavg()[0]:.1f}", "", sep="\n")
    print(table(f"Medians of {ROUNDS} rounds", ["way", "ms", "beyond Python"], rows))


if __name__ == "__main__":
    main()
