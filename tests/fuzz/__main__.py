"""``make fuzz``: every target in turn, on all cores, for a time or until so many executions.

python -m tests.fuzz [--seconds 1200] [--executions N] [--keep]

Most of the time goes to short inputs, a tenth to inputs of some KiB. A target that finds something
ends the run with exit status 1; the input lies in build/ then.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.support.evidence import keep

BUILD = Path("build")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Target:
    """What is run for a while: a libFuzzer binary, or a Python module of this package, with our
    extensions as they are or under AddressSanitizer."""

    name: str
    corpus: str = ""
    most: int = 256
    """Bytes of most inputs."""
    asan: bool = False

    def command(self, seconds: int, seed: int, turn: int) -> list[str]:
        if not self.corpus:
            python = "scripts/asan.sh" if self.asan else sys.executable
            first = str((seed + turn) << 32)  # behind every case of the turn before
            return [
                python, "-m", f"tests.fuzz.{self.name}",
                "--seconds", str(seconds), "--first", first,
            ]  # fmt: skip
        found = BUILD / self.corpus
        found.mkdir(parents=True, exist_ok=True)
        most = 16 * self.most if turn % 10 == 9 else self.most
        return [
            str(BUILD / self.name.replace("_", "-")),
            f"-max_total_time={seconds}", f"-seed={seed + turn}", f"-max_len={most}",
            f"-artifact_prefix={BUILD}/", "-print_final_stats=1",
            str(found), str(HERE / self.corpus),
        ]  # fmt: skip


TARGETS = (
    Target("fuzz_scan", "corpus"),
    Target("fuzz_file", "file_corpus"),
    Target("fuzz_pack", "pack_corpus"),
    Target("fuzz_example", "example_corpus"),
    Target("fuzz_example_write", "example_write_corpus", most=128),
    Target("fuzz_decode", "decode_corpus", most=400),
    Target("codecs"),
    Target("raw_ops", asan=True),
)


def runnable(target: Target) -> bool:
    """The target that is run in TensorFlow needs it."""
    return target.name != "raw_ops" or importlib.util.find_spec("tensorflow") is not None


class Run:
    """Targets taken in turn by as many workers as there are cores."""

    def __init__(
        self, targets: list[Target], seconds: float, executions: int, slice_seconds: int, seed: int
    ) -> None:
        self.targets = targets
        self.seed = seed
        self.executions: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.failed: list[str] = []
        self._wanted = executions
        self._slice = slice_seconds
        self._turns = self._order()
        self._start = time.monotonic()
        self._end = self._start + seconds
        self._lock = threading.Lock()

    def _order(self) -> Iterator[tuple[int, Target]]:
        return ((turn, target) for turn in count() for target in self.targets)

    @property
    def duration(self) -> float:
        return time.monotonic() - self._start

    def work(self, jobs: int) -> None:
        workers = [threading.Thread(target=self._work) for _ in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _work(self) -> None:
        while not self.failed and self.duration + 1 < self._end - self._start:
            with self._lock:
                if 0 < self._wanted <= self.executions.total():
                    return
                turn, target = next(self._turns)
            self._run(target, turn)

    def _run(self, target: Target, turn: int) -> None:
        seconds = max(1, min(self._slice, int(self._end - time.monotonic())))
        began = time.monotonic()
        command = target.command(seconds, self.seed, turn)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        told = re.findall(r"number_of_executed_units: *(\d+)", done.stdout + done.stderr)
        with self._lock:
            self.executions[target.name] += int(told[-1]) if told else 0
            self.seconds[target.name] += round(time.monotonic() - began)
            total = self.executions.total()
            if done.returncode != 0 or not told:
                self.failed.append(target.name)
                print((done.stdout + done.stderr)[-8000:], file=sys.stderr)
        print(f"{self.duration:6.0f} s  {total:>13,} executions  {target.name}", flush=True)

    def table(self) -> str:
        rows = [
            f"| `{target.name}` | {self.executions[target.name]:,} "
            f"| {self.seconds[target.name]:,} s |"
            f" {'stopped the run' if target.name in self.failed else 'nothing'} |\n"
            for target in self.targets
        ]
        return (
            "| target | executions | time | found |\n| --- | --- | --- | --- |\n"
            + "".join(rows)
            + f"| all | {self.executions.total():,} | {self.duration:,.0f} s on the clock | |\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--executions", type=int, default=0, help="end when there are so many")
    parser.add_argument("--slice", type=int, default=0, help="seconds of one turn of a target")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first turn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    names = [target.name for target in TARGETS]
    parser.add_argument("--targets", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    targets = [each for each in TARGETS if each.name in args.targets and runnable(each)]
    turn = args.slice or max(1, min(60, int(args.seconds * args.jobs / len(targets))))
    run = Run(targets, args.seconds, args.executions, turn, args.seed)
    run.work(args.jobs)
    print(run.table())
    if args.keep:
        ran = f"{run.executions.total():,} inputs for {len(targets)} targets"
        keep("fuzzing", run.duration, ran, ", ".join(run.failed) or "nothing")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
