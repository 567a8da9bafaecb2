"""``make long ONLY=protocol``: the commit protocol over a simulated store, in every order.

python -m tests.protocol [--seconds 1200] [--only TEXT] [--every N] [--keep]
python -m tests.protocol --replay SCENARIO TRACE

The library's own code (`ShardedWriter`, `WriteJob`, `clean`, `RecordReader`) runs over a simulated
store. Every actor stops before each request; the order in which they go on is varied, and what
becomes of each request: it is carried out, refused, or fails; its answer is lost, for good or until
a retry that is answered or refused; it is carried out late, or twice; a client below repeats it,
and is refused while the first copy is still under way; or the actor dies there. States are told
apart by what the store holds and what each actor was told, and *every order* means that no state
which can be reached was left out, as long as there was time. *Two turns*: of the orders in which
an actor is interrupted at most twice, none was.

After each step the dataset must be whole, and be what a serial order of commits gives, and nothing
of others may be touched. What a pattern such as `train-*` finds is a part of one generation, never
of two, where no first writer is at work and no stranger's file has such a name; at the end it is
all of the last one. At each end every writer's report must be true, every reader must have read one
whole generation, and `clean` must leave the dataset alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.protocol.environment import simulated
from tests.protocol.explore import lengthened, replay
from tests.protocol.suite import scenarios
from tests.protocol.survey import check
from tests.support.evidence import keep

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
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    parser.add_argument("--replay", nargs=2, metavar=("SCENARIO", "TRACE"))
    args = parser.parse_args()
    if args.replay:
        print(again(*args.replay))
        return
    start = time.monotonic()
    names = [name for name in scenarios() if args.only in name][:: args.every]
    rows = check(names, args.seconds, args.seed)
    print(TABLE + "".join(row.line(what) for what, row in rows.items()))
    fates = sum((row.fates for row in rows.values()), Counter[str]())
    print("Faults: " + ", ".join(f"{fate} {n:,}" for fate, n in fates.most_common()) + ".")
    if args.keep:
        states = sum(row.states for row in rows.values())
        wrong = sum(len(row.violations) for row in rows.values())
        ran = f"{len(names):,} scenarios, {states:,} states, {fates.total():,} faults"
        found = f"{wrong} violations" if wrong else "nothing"
        keep("commit protocol", time.monotonic() - start, ran, found)
    sys.exit(any(row.violations for row in rows.values()))


if __name__ == "__main__":
    main()
