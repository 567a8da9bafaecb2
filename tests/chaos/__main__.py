"""``make long ONLY=chaos``: writers that are killed, on a bad line, and in crowds.

python -m tests.chaos [--kills 200] [--writers 100] [--minutes 20] [--parts crowd] [--keep]

After each writer the dataset must be, record for record, the old one or the new one, and `clean`
must leave the manifest and the objects that it names, and nothing else. A crowd is eight processes
at one dataset, of which one is killed every few seconds: two that append, one that overwrites, one
that runs jobs, one that commits, aborts or goes on with copies of these, one that cleans, two that
read. All versions that anybody made or read must be one history. The first thing that is not so
stops the run with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.chaos.crowd import crowd_at
from tests.chaos.faults import write_through_faults
from tests.chaos.kill import kill_writers
from tests.chaos.sites import SITES, bad_line, installed, site
from tests.servers import ceph
from tests.servers.moto import moto
from tests.servers.place import Place, fresh
from tests.servers.shaping_proxy import shaped
from tests.support.evidence import keep

CROWD_LINE = {
    "p_503": 0.01, "p_reset": 0.01, "p_truncate": 0.005, "p_deny": 0.002, "p_forge": 0.005,
    "p_late": 0.005, "p_overtaken": 0.01, "late_s": 2,
}  # fmt: skip
LINE = {"p_503": 0.05, "p_reset": 0.05, "p_truncate": 0.05, "p_stall": 0.02, "stall_s": 6}


@contextlib.contextmanager
def s3() -> Iterator[tuple[str, Place]]:
    name, server = ("Ceph", ceph.ceph) if ceph.installed() else ("moto", moto)
    with server() as endpoint:
        yield name, fresh("s3", endpoint)


def tell(line: str) -> None:
    print(f"\r{line}", end="", flush=True)


def told(what: str, run: Callable[[], Counter[str]]) -> Counter[str]:
    start = time.monotonic()
    print(what)
    counts = run()
    parts = ", ".join(f"{name}: {count}" for name, count in counts.items())
    print(f"\n  {parts}; {time.monotonic() - start:.0f} s", flush=True)
    return counts


def killed(args: argparse.Namespace) -> str:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        places = {"local files": Place(folder)}
        with s3() as (name, place):
            for where, at in {**places, name: place}.items():
                counts += told(
                    f"killed by kill -9, {where}",
                    lambda at=at: kill_writers(at, args.kills, seed=args.seed, tell=tell),
                )
    return f"{counts['kills']} writers killed by `kill -9`, on local files and {name}"


def on_bad_lines(args: argparse.Namespace) -> str:
    committed = []
    for attempts in (1, 2, 8):
        with s3() as (name, place), shaped(place.endpoint, seed=args.seed, **LINE) as line:
            faulty = place.through(line.endpoint)
            counts = told(
                f"17 % of requests fail, at most {attempts} attempts, {name}",
                lambda place=place, faulty=faulty, attempts=attempts: write_through_faults(
                    place, faulty, args.writers, attempts=attempts, seed=args.seed, tell=tell
                ),
            )
        committed.append(str(counts["committed"]))
    return (
        f"{3 * args.writers} writers while 17 % of requests fail; of {args.writers} each with at "
        f"most 1, 2 and 8 attempts {', '.join(committed)} committed"
    )


def in_crowds(args: argparse.Namespace) -> str:
    meetings = [(name, False) for name in args.sites if installed(name)]
    meetings += [(name, True) for name, _ in meetings if name != "local"]
    seconds = args.minutes * 60 / len(meetings)
    kills = 0
    for name, faulty in meetings:
        kills += in_a_crowd(name, faulty, seconds, args.seed)["kills"]
    where = ", ".join(dict.fromkeys(name for name, _ in meetings))
    faults = sum(faulty for _, faulty in meetings)
    return (
        f"{len(meetings)} crowds of eight processes on {where}, {faults} with faults; {kills} kills"
    )


def in_a_crowd(name: str, faulty: bool, seconds: float, seed: int) -> Counter[str]:
    line_has = "; refused, lost, cut off, forged, late and overtaken answers"
    what = f"a crowd; {name}" + line_has * faulty
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(site(name))
        line = stack.enter_context(bad_line(place, seed=seed, **CROWD_LINE)) if faulty else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return told(what, lambda: crowd_at(place, folder, seconds, line=line, seed=seed, tell=tell))


PARTS = {
    "killed": ("writers killed", killed),
    "line": ("writers on a bad line", on_bad_lines),
    "crowd": ("crowds of writers", in_crowds),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=20, help="for the crowds together")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=list(SITES))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--keep", action="store_true", help="write rows of docs/evidence.md")
    args = parser.parse_args()
    for part in args.parts:
        begun = time.monotonic()
        name, run = PARTS[part]
        ran = run(args)
        if args.keep:
            keep(name, time.monotonic() - begun, ran, "nothing")


if __name__ == "__main__":
    main()
