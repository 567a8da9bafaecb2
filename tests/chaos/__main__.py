"""``make chaos``: the long form, whose result is written to docs/chaos.md.

python -m tests.chaos [--kills 200] [--writers 100] [--minutes 20] [--report docs/chaos.md]
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import tfio_store as tfs
from tests.chaos.crowd import crowd_at
from tests.chaos.faults import write_through_faults
from tests.chaos.kill import kill_writers
from tests.chaos.sites import SITES, bad_line, installed, site
from tests.conftest import fresh_bucket, s3_options
from tests.servers import ceph
from tests.servers.moto import moto
from tests.servers.place import Place
from tests.servers.shaping_proxy import shaped

HEADER = """\
# Writers under fire

Written by `make chaos`. Each run writes generation after generation of one dataset (records of
9 kB, up to 13 MB, all compressions; overwritten or appended to; by `ShardedWriter` with fixed and
with rolling shards, and by `WriteJob`). After each writer the dataset is read whole through its
manifest and must be, record for record, the old one or the new one; then `clean` is run and
must leave the manifest, the objects that it names, with the CRC32C that it says, and neither
another object nor a pending upload. The first thing that is not so stops the run with an error.

A crowd is eight processes at one dataset, one of which is killed every few seconds: two that
append, one that overwrites, one that runs jobs, one that commits, aborts or goes on with copies of
these at any time, one that cleans (`older_than` from 0 to a day), two that read. Every read must
be whole and of one version; all versions that anybody made or read must be one history, in which no
append is missing; other programs' files, a neighbouring dataset, and one that a copied manifest
describes must be as they were; at the end `clean` must leave the dataset and these.

"""
CROWD_LINE = {
    "p_503": 0.01, "p_reset": 0.01, "p_truncate": 0.005, "p_deny": 0.002, "p_forge": 0.005,
    "p_late": 0.005, "p_overtaken": 0.01, "late_s": 2,
}  # fmt: skip
LINE = {"p_503": 0.05, "p_reset": 0.05, "p_truncate": 0.05, "p_stall": 0.02, "stall_s": 6}


@contextlib.contextmanager
def s3() -> Iterator[tuple[str, Place]]:
    name, server = ("Ceph", ceph.ceph) if ceph.installed() else ("moto", moto)
    with server() as endpoint:
        yield name, fresh_bucket(endpoint)


def tell(line: str) -> None:
    print(f"\r{line}", end="", flush=True)


def row(what: str, run: Callable[[], Counter[str]]) -> str:
    start = time.monotonic()
    print(what)
    counts = run()
    print()
    told = ", ".join(f"{name}: {count}" for name, count in counts.items())
    return f"| {what} | {told} | {time.monotonic() - start:.0f} s |\n"


def on_local_files(args: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return row(
            "killed with -9, local files",
            lambda: kill_writers(Place(folder), args.kills, seed=args.seed, tell=tell),
        )


def on_s3(args: argparse.Namespace) -> str:
    with s3() as (name, place):
        return row(
            f"killed with -9, S3 ({name})",
            lambda: kill_writers(place, args.kills, seed=args.seed, tell=tell),
        )


def on_bad_lines(args: argparse.Namespace) -> str:
    return "".join(on_a_bad_line(attempts, args.writers, args.seed) for attempts in (1, 2, 8))


def on_a_bad_line(attempts: int, writers: int, seed: int) -> str:
    with s3() as (name, place), shaped(place.endpoint, seed=seed, **LINE) as line:
        faulty = Place(place.root, s3_options(line.endpoint), line.endpoint)
        return row(
            "of requests 5 % refused (503), 5 % reset after the store carried them out, 5 % cut "
            f"off, 2 % stalled beyond the timeout; at most {attempts} attempts; S3 ({name})",
            lambda: write_through_faults(
                place, faulty, writers, attempts=attempts, seed=seed, tell=tell
            ),
        )


def in_crowds(args: argparse.Namespace) -> str:
    meetings = [(name, False) for name in args.sites if installed(name)]
    meetings += [(name, True) for name, _ in meetings if name != "local"]
    seconds = args.minutes * 60 / len(meetings)
    return "".join(in_a_crowd(name, faulty, seconds, args.seed) for name, faulty in meetings)


def in_a_crowd(name: str, faulty: bool, seconds: float, seed: int) -> str:
    line_has = "; refused, lost, cut off, forged, late and overtaken answers"
    what = f"a crowd; {name}" + line_has * faulty
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(site(name))
        line = stack.enter_context(bad_line(place, seed=seed, **CROWD_LINE)) if faulty else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return row(what, lambda: crowd_at(place, folder, seconds, line=line, seed=seed, tell=tell))


PARTS = {"local": on_local_files, "s3": on_s3, "line": on_bad_lines, "crowd": in_crowds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=20, help="for the crowds together")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=list(SITES))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    report = HEADER + f"tfio_store {tfs.__version__}, Python {platform.python_version()}, "
    report += f"{time.strftime('%Y-%m-%d')}, seed {args.seed}.\n\n"
    report += "| writers | what became of them | took |\n| --- | --- | --- |\n"
    for part in args.parts:
        report += PARTS[part](args)
    print(report)
    if args.report:
        args.report.write_text(report)


if __name__ == "__main__":
    main()
