"""``make long ONLY=chaos-read``: reads with a fault, from every store.

python -m tests.chaos_read [--reads 10000] [--seconds 3600] [--seed N] [--sites local moto …]

A read is right if it brings each record of one generation once, in order; or the first of them
(under "skip": some), and then an error that names the file and is the library's own, the storage's
(`OSError`) or TensorFlow's of the same meaning; under "skip" also if it lacks records and has told
so (of another compressed file nothing decompresses where its blocks lie elsewhere, and that looks
like damage). A raw file that is cut between two records, and has no manifest, looks whole, and
counts as right. Behind damage in a compressed file that was told of, a record may come again: wrong
bytes may decode to what came before, checksums included. All else is a failure: a loss without a
word, a mixture, a record twice, an exception of another kind, or a minute without an end.
`python -m tests.chaos_read --seed N --sites S --reads 1` reads that one again.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections import Counter

from tests.chaos_read.run import one, small_ranges, tally, watched
from tests.chaos_read.sites import SITES, Site, installed, site
from tests.chaos_read.verdict import WrongError
from tests.support.evidence import keep


def reads(args: argparse.Namespace) -> tuple[Counter[tuple[str, str]], Counter[str], list[str]]:
    """What became of the reads, by fault; where they were; and what went wrong."""
    found: Counter[tuple[str, str]] = Counter()
    where: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + args.seconds
    names = [name for name in args.sites if installed(name)]
    weights = [SITES[name] for name in names]
    with contextlib.ExitStack() as stack:
        opened: dict[str, Site] = {}
        stack.enter_context(small_ranges())
        for seed in range(args.seed, args.seed + args.reads):
            name = random.Random(f"site {seed}").choices(names, weights)[0]
            if name not in opened:
                opened[name] = stack.enter_context(site(name))
            if time.monotonic() > end:
                break
            met, what = opened[name], f"--seed {seed} --sites {name}"
            try:
                fault, _, became = watched(
                    lambda seed=seed, met=met: one(seed, met, tensorflow=args.tensorflow), what
                )
                found[fault, became] += 1
            except WrongError as error:
                wrong.append(f"{what}: {error}")
                print(f"\nWRONG {wrong[-1]}", flush=True)
            where[name] += 1
            if sys.stdout.isatty() or not where.total() % 500:
                print(f"\r{where.total()} reads, {len(wrong)} wrong", end="", flush=True)
    return found, where, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--reads", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sites", nargs="+", choices=SITES, default=list(SITES))
    parser.add_argument("--no-tensorflow", dest="tensorflow", action="store_false")
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    args = parser.parse_args()
    begun = time.monotonic()
    found, where, wrong = reads(args)
    print("\n| fault | reads | what became of them |\n| --- | --- | --- |\n" + tally(found))
    ran = f"{where.total():,} reads: " + ", ".join(f"{n} {c:,}" for n, c in where.most_common())
    if args.keep:
        said = f"{len(wrong)} wrong reads" if wrong else "nothing"
        keep("reads with a fault", time.monotonic() - begun, ran, said)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
