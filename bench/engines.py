"""``make bench-engines``: what engines read and write a second, each beside a peer in the same run.

    python -m bench.engines [ENGINE ...]

A module measures each engine, ``bench/engines_ENGINE.py``, in a process of its own.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

from bench.timing import machine

PREFIX = "engines_"
ENGINES = sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob("engines_*"))


def main(names: list[str]) -> None:
    if len(names) == 1:
        print(importlib.import_module(f"bench.{PREFIX}{names[0]}").report())
        return
    print(f"Median times. {machine()}\n", flush=True)
    for name in names or ENGINES:
        subprocess.run([sys.executable, "-m", "bench.engines", name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
