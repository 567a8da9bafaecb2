"""``make long ONLY=differential``: see the package's text.

python -m tests.differential [--cases 10000] [--seconds 3600] [--keep]
python -m tests.differential --seed N
python -m tests.differential --only chains [--cases 10000] …
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.differential.run import prepare, run
from tests.servers.place import Place, fresh
from tests.support.evidence import keep

ROWS = {None: "random reading", "chains": "random pipelines", "sequences": "random sequences"}
"""Of docs/evidence.md."""


@contextlib.contextmanager
def s3_bucket() -> Iterator[Place]:
    from tests.servers.moto import moto

    with moto() as endpoint:
        yield fresh("s3", endpoint)


def run_one(seed: int, only: str | None) -> bool:
    """One case in this process, told whole."""
    prepare()
    from tests.differential.cases import run_case
    from tests.differential.sources import World

    with tempfile.TemporaryDirectory() as folder, s3_bucket() as s3:
        kind, fault = run_case(seed, World(Path(folder), s3), only)
    print(fault or f"{kind}: no difference")
    return fault is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, help="this case alone")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, help="the first seed (default: the time)")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    parser.add_argument("--only", choices=["chains", "sequences"], help="cases of this kind alone")
    args = parser.parse_args()
    if args.seed is not None:
        sys.exit(0 if run_one(args.seed, args.only) else 1)
    first = int(time.time()) * 100_000 if args.first is None else args.first
    seeds = list(range(first, first + args.cases))
    with s3_bucket() as s3:
        result = run(seeds, args.jobs, args.seconds, s3, lambda line: print(line, flush=True),
                     args.only)  # fmt: skip
    print("\n| cases of | number |\n| --- | --- |")
    for kind, count in result.cases.most_common():
        print(f"| {kind} | {count:,} |")
    wrong = len(result.differences)
    print(f"{result.cases.total():,} cases from seed {first} on, {wrong} differences")
    if args.keep:
        found = f"{wrong} differences" if wrong else "nothing"
        keep(ROWS[args.only], result.seconds, f"{result.cases.total():,} cases", found)
    sys.exit(1 if result.differences else 0)


if __name__ == "__main__":
    main()
