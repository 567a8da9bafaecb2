"""``make chaos-read``: the long form, whose result is written to docs/chaos-read.md.

python -m tests.chaos_read [--reads 10000] [--seconds 3600] [--seed N] [--sites local moto …]
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import random
import sys
import time
from collections import Counter
from pathlib import Path

import tfio_store as tfs
from tests.chaos_read.run import LIMIT, one, small_ranges, tally, watched
from tests.chaos_read.sites import SITES, Site, installed, site
from tests.chaos_read.verdict import WrongError

HEADER = """\
# Reading under fire

Written by `make chaos-read`. Each read draws, from a seed of its own, a source (raw, GZIP and ZLIB
files; datasets with a manifest, raw, GZIP, ZLIB, ZSTD), a store, a fault and a way to read:
`RecordReader` (records, batches, shuffled, by another reader from the state of the first; under
`on_corrupt="skip"` too), `RecordSource` (all, and some at random), `TFRecordDataset`. Ranges are 32
KiB, so that small objects take many requests. The faults: short, capped, shifted, empty and
unlabelled answers, a lone 416, 503, connections reset, late answers, flipped bits, each now and
then or always; files cut anywhere or between two records, with flipped bits, overwritten by zeros,
or gone; damaged or missing indexes, damaged manifests, manifests that claim absurd sizes; one shard
of another generation of the same sizes, or two swapped, before the read, and all objects replaced
by others of the same sizes, in mid-read; in a cache that held all of the source, before the read
and in the middle of it, pipes, folders, links to these, to nothing, to themselves and to devices,
and empty, longer, shorter, random and other ranges' files in the place of ranges, and pipes, files
and links in that of folders, which must not even cause an error.

A read is right if it brings each record of one generation once, in order; or the first of them
(under "skip": some), and then an error that names the file and is the library's own, the storage's
(`OSError`) or TensorFlow's of the same meaning; under "skip" also if it lacks records and has told
so (of another compressed file nothing decompresses where its blocks lie elsewhere, and that looks
like damage). A raw file that is cut between two records, and has no manifest, looks whole, and
counts as right. Behind damage in a compressed file that was told of, a record may come again: wrong
bytes may decode to what came before, checksums included. All else is a failure: a loss without a
word, a mixture, a record twice, an exception of another kind, or {limit:.0f} s without an end.
`python -m tests.chaos_read --seed N --sites S --reads 1` reads that one again.

"""


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
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    begun = time.monotonic()
    found, where, wrong = reads(args)
    took = (time.monotonic() - begun) / 60
    report = HEADER.format(limit=LIMIT)
    report += f"tfio_store {tfs.__version__}, Python {platform.python_version()}, "
    report += f"{time.strftime('%Y-%m-%d')}, seed {args.seed}: {where.total():,} reads in "
    report += f"{took:.0f} minutes, {len(wrong)} of them wrong, none hung. Where: "
    report += ", ".join(f"{name} {count:,}" for name, count in where.most_common()) + ".\n\n"
    report += "| fault | reads | what became of them |\n| --- | --- | --- |\n" + tally(found)
    print(f"\n{report}")
    if args.report:
        args.report.write_text(report)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
