"""``make bench-compare BASE=commit``: what this tree costs, beside another commit of it.

BASE is a commit, which is built in ``build/compare``, or a folder that holds another checkout with
its extensions built; without it, the last release, or the last commit. A process of each writes the
same records, as its own datasets, and runs a row when it is its turn. The turns are short and
change about, so that a noisy machine is noisy to both, and the processes start anew a few times,
since where one's memory lies makes a tenth. A ratio above 1 says that this tree is faster. It is
the median of the ratios of single turns, and behind it stand its quartiles. ``BASE=HEAD`` in a
clean checkout shows what noise there is.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from bench.fast_store import fast_store
from bench.timing import machine, scratch, table

HERE = Path(__file__).resolve().parent.parent
BUILT = HERE / "build/compare"
ROWS = HERE / "bench/compare_rows.py"
LATENCY_MS = 20
TURN_S = 0.03
"""What is shorter is repeated in its turn."""

Costs: TypeAlias = list[list[float]]
"""Seconds, processor seconds and MiB of fresh memory, of each turn."""


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=HERE, check=True, capture_output=True).stdout


def last_release() -> str:
    """The newest tag behind this commit; the commit itself where there is none."""
    try:
        return git("describe", "--tags", "--abbrev=0").decode().strip()
    except subprocess.CalledProcessError:
        return "HEAD"


def checkout(base: str) -> Path:
    """The folder of ``base``, built for this Python."""
    if Path(base).is_dir():
        return Path(base).resolve()
    commit = git("rev-parse", "--verify", f"{base}^{{commit}}").decode().strip()
    folder = BUILT / f"{commit[:12]}-{sys.implementation.cache_tag}"
    done = folder / ".built"
    if not done.exists():
        print(f"building {base} in {folder} …", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as tar:
            tar.extractall(folder, filter="data")
        subprocess.run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            cwd=folder,
            check=True,
            env={**os.environ, "TFIO_STORE_CORE": "compiled"},
            stdout=subprocess.DEVNULL,
        )
        done.touch()
    return folder


class Tree:
    """A process that runs one tree's code."""

    def __init__(self, process: subprocess.Popen[str], root: Path, first: Any) -> None:
        self._process = process
        path, self.names = self.ask(first)
        if not Path(path).is_relative_to(root):
            raise RuntimeError(f"tfio_store is {path}, which does not lie in {root}")

    def ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process ended: its last words stand above")
        return json.loads(line)


@contextmanager
def tree(root: Path, folder: str, endpoints: dict[str, str]) -> Iterator[Tree]:
    with subprocess.Popen(
        [sys.executable, str(ROWS)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Tree(process, root, [folder, endpoints])
        finally:
            assert process.stdin is not None
            process.stdin.close()


class Comparison:
    """What was measured so far: by row, the costs of each turn of base and of ours."""

    def __init__(self, only: Sequence[str]) -> None:
        self.costs: dict[str, tuple[Costs, Costs]] = {}
        self.failures: dict[str, list[str]] = {}
        self._only, self._dice = only, random.Random(3)

    def run(self, trees: list[Tree], rounds: int, deadline: float) -> None:
        """Take turns until the rounds or the time is over; each row has two turns at least."""
        repeats: dict[str, int] = {}
        for turn in range(rounds + 1):
            for name in trees[1].names:
                late = turn > 1 and time.monotonic() > deadline
                if late or name in self.failures or not any(x in name for x in self._only):
                    continue
                found: list[Any] = [None, None]
                for at in self._dice.sample((0, 1), 2):
                    found[at] = trees[at].ask([name, repeats.get(name, 1)])
                if any(isinstance(each, str) for each in found):
                    self.failures[name] = [x if isinstance(x, str) else "works" for x in found]
                elif not turn:  # it warms up, and shows how long one takes
                    repeats[name] = max(1, min(10, int(TURN_S / found[0][0])))
                else:
                    both = self.costs.setdefault(name, ([], []))
                    for all_costs, cost in zip(both, found, strict=True):
                        all_costs.append(cost)

    def lines(self) -> Iterator[list[str]]:
        for name, (base, ours) in self.costs.items():
            if name in self.failures:
                continue
            memory = (statistics.median(cost[2] for cost in costs) for costs in (base, ours))
            yield [
                name,
                *(cell for which in (0, 1) for cell in spread(base, ours, which)),
                " → ".join(f"{mib:.0f}" for mib in memory),
            ]


def spread(base: Costs, ours: Costs, which: int) -> list[str]:
    """Milliseconds of base, and how many times faster ours is, with quartiles."""
    ratios = [there[which] / max(here[which], 1e-9) for there, here in zip(base, ours, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    milliseconds = 1e3 * statistics.median(cost[which] for cost in base)
    return [f"{milliseconds:.1f}", f"{middle:.2f} ({low:.2f} to {high:.2f})"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="a commit, or another built checkout")
    parser.add_argument("--starts", type=int, default=3, help="of the processes")
    parser.add_argument("--rounds", type=int, default=5, help="of each start")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of rows")
    parser.add_argument("--seconds", type=float, default=330, help="after which turns are fewer")
    options = parser.parse_args()
    base = options.base or last_release()
    roots = [checkout(base), HERE]
    begin, comparison = time.monotonic(), Comparison(options.only)
    for start in range(options.starts):
        # each start may take its part of the time
        share = options.seconds * (start + 1) / options.starts
        with ExitStack() as stack:
            root = stack.enter_context(scratch())
            near = stack.enter_context(fast_store(root))
            far = stack.enter_context(fast_store(root, wait_ms=LATENCY_MS))
            trees: list[Tree] = []
            for at, name in enumerate(("base", "ours")):
                os.mkdir(f"{root}/{name}")
                endpoints = {"near": near, "far": far}
                trees.append(stack.enter_context(tree(roots[at], f"{root}/{name}", endpoints)))
            comparison.run(trees, options.rounds, begin + share)
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, base {base}\n")
    heads = ["", "base, ms", "times faster", "base, CPU ms", "times less CPU", "fresh memory, MiB"]
    print(table("This tree beside base, medians (quartiles)", heads, list(comparison.lines())))
    for name, outcome in comparison.failures.items():
        print(f"{name}: base {outcome[0]}; ours {outcome[1]}\n")


if __name__ == "__main__":
    main()
