"""``make differential``: see the package's text.

python -m tests.differential [--cases 10000] [--seconds 3600] [--report docs/differential.md]
python -m tests.differential --seed N
python -m tests.differential --only chains [--cases 10000] …
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tfio_store as tfs
from tests.differential.run import Result, prepare, run
from tests.servers.place import Place

TITLE = "## The last long run\n"
TITLE_ONLY = "## The last long run of pipelines\n"


@contextlib.contextmanager
def s3_bucket() -> Iterator[Place]:
    from tests.conftest import fresh_bucket
    from tests.servers.moto import moto

    with moto() as endpoint:
        yield fresh_bucket(endpoint)


def run_one(seed: int, only: str | None) -> bool:
    """One case in this process, told whole."""
    prepare()
    from tests.differential.cases import run_case
    from tests.differential.sources import World

    with tempfile.TemporaryDirectory() as folder, s3_bucket() as s3:
        kind, fault = run_case(seed, World(Path(folder), s3), only)
    print(fault or f"{kind}: no difference")
    return fault is None


def report(result: Result, jobs: int, first: int) -> str:
    lines = [
        f"{time.strftime('%Y-%m-%d')}, tfio_store {tfs.__version__}, Python "
        f"{platform.python_version()}, {jobs} processes, {result.seconds:,.0f} s, seeds from "
        f"{first} on: {result.cases.total():,} cases, {len(result.differences)} differences.\n",
        "| cases of | number |\n| --- | --- |",
        *(f"| {kind} | {count:,} |" for kind, count in result.cases.most_common()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, help="this case alone")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, help="the first seed (default: the time)")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="writes the figures to the end of this page")
    parser.add_argument("--only", choices=["chains", "sequences"], help="cases of this kind alone")
    args = parser.parse_args()
    if args.seed is not None:
        sys.exit(0 if run_one(args.seed, args.only) else 1)
    first = int(time.time()) * 100_000 if args.first is None else args.first
    seeds = list(range(first, first + args.cases))
    with s3_bucket() as s3:
        result = run(seeds, args.jobs, args.seconds, s3, lambda line: print(line, flush=True),
                     args.only)  # fmt: skip
    text = report(result, args.jobs, first)
    print(f"\n{text}")
    if args.report:
        before, _, after = args.report.read_text().partition(TITLE)
        if args.only:
            before = f"{before.partition(TITLE_ONLY)[0]}{TITLE_ONLY}\n{text}\n"
        else:
            after = f"\n{text}"
        args.report.write_text(before + TITLE + after)
    sys.exit(1 if result.differences else 0)


if __name__ == "__main__":
    main()
