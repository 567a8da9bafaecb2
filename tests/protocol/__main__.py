"""``make protocol``: the long form, whose figures are written to docs/protocol.md.

python -m tests.protocol [--seconds 1200] [--only TEXT] [--every N] [--report docs/protocol.md]
python -m tests.protocol --replay SCENARIO TRACE
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import Counter
from pathlib import Path

import tfio_store as tfs
from tests.protocol.environment import simulated
from tests.protocol.explore import lengthened, replay
from tests.protocol.suite import scenarios
from tests.protocol.survey import check

HEADER = """\
# The commit protocol, checked

Written by `make protocol`. The library's own code (`ShardedWriter`, `WriteJob`, `clean`,
`RecordReader`) runs over a simulated store. Every actor stops before each request; the order in
which they go on is varied, and what becomes of each request: it is carried out, refused, or fails;
its answer is lost, for good or until a retry that is answered or refused; it is carried out late,
or twice; a client below repeats it, and is refused while the first copy is still under way; or the
actor dies there. States are told apart by what the store holds and what each actor
was told, and *every order* means that no state which can be reached was left out.

After each step the dataset must be whole, and be what a serial order of commits gives, and nothing
of others may be touched. What a pattern such as `train-*` finds is a part of one generation, never
of two, where no first writer is at work and no stranger's file has such a name; at the end it is
all of the last one. At each end every writer's report must be true, every reader must have
read one whole generation, and `clean` must leave the dataset alone.

One thing is left to chance: a first writer's shard, whose upload a client repeats by itself and
keeps until that writer has given up and gone. It has a plain name and no claim, so `clean` takes it
for another program's file and leaves it. Readers of ours warn of such a file.

"""
TABLE = (
    "| what | scenarios | states | ends | faults put in | violations |\n|---|---|---|---|---|---|\n"
)


def again(name: str, trace: str) -> str:
    """A violation's steps, one a line, and what it is."""
    with simulated():
        found, lines = replay(scenarios()[name], lengthened(trace))
    return "\n".join([*lines, found.violation or "no violation"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--only", default="", help="scenarios with this in their name")
    parser.add_argument("--every", type=int, default=1, help="take each so-manieth of them")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--replay", nargs=2, metavar=("SCENARIO", "TRACE"))
    args = parser.parse_args()
    if args.replay:
        print(again(*args.replay))
        return
    start = time.monotonic()
    names = [name for name in scenarios() if args.only in name][:: args.every]
    rows = check(names, args.seconds, args.seed)
    report = HEADER + f"tfio_store {tfs.__version__}, Python {platform.python_version()}, "
    report += (
        f"{time.strftime('%Y-%m-%d')}, seed {args.seed}, {time.monotonic() - start:.0f} s.\n\n"
    )
    report += TABLE + "".join(row.line(what) for what, row in rows.items())
    fates = sum((row.fates for row in rows.values()), Counter[str]())
    report += "\nFaults: " + ", ".join(f"{fate} {n:,}" for fate, n in fates.most_common()) + ".\n"
    print(report)
    if args.report:
        args.report.write_text(report)
    sys.exit(any(row.violations for row in rows.values()))


if __name__ == "__main__":
    main()
