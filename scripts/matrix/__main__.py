"""See `scripts.matrix`."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from scripts.matrix.environment import build_wheel, make_environment, suite
from scripts.matrix.outcome import HEAD, Outcome, kept_outcome, run_row
from scripts.matrix.report import write_report
from scripts.matrix.rows import ROWS, Row
from scripts.wheels.build import ROOT, build_sdist
from scripts.wheels.pythons import found_pythons

PLACE = ROOT / "build/matrix"


def outcome_of(row: Row, python: str, given: argparse.Namespace) -> Outcome:
    wheel = _built(given.wheels, row.python) if given.wheels else _built(PLACE / "dist", row.python)
    if wheel is None:
        (sdist,) = (PLACE / "dist").glob("*.tar.gz")
        wheel = build_wheel(sdist, python)
    inside = make_environment(row, python, wheel, PLACE / row.name)
    return run_row(row, inside, PLACE / "suite", workers=given.workers)


def _built(folder: Path, version: str) -> Path | None:
    """The wheel for that Python and this platform."""
    found = folder.glob(f"*-cp{version.replace('.', '')}-*linux*x86_64.whl")
    return next((wheel for wheel in found if "musllinux" not in wheel.name), None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts.matrix")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--wheels", type=Path, help="take those that `make wheels` left here")
    parser.add_argument("--report", type=Path, help="write all rows' last runs into this page")
    given = parser.parse_args()
    rows = [row for row in ROWS if not given.row or row.name in given.row]
    wanted = {row.python for row in rows}
    pythons = found_pythons(wanted)
    missing = sorted(wanted - set(pythons))
    if missing:
        sys.exit(f"no Python {', '.join(missing)} with headers and venv was found")
    shutil.rmtree(PLACE / "dist", ignore_errors=True)
    suite(build_sdist(PLACE / "dist"), PLACE / "suite")
    print(HEAD, flush=True)
    whole = True
    for row in rows:
        try:
            outcome = outcome_of(row, pythons[row.python], given)
        except RuntimeError as error:  # the others can still tell something
            print(f"{row.name}: {error}", flush=True)
            whole = False
            continue
        print(outcome.line(), *outcome.failures, sep="\n", flush=True)
        whole &= not outcome.failures and outcome.passed > 0
    if given.report:
        kept = (kept_outcome(PLACE, row.name) for row in ROWS)
        write_report([outcome for outcome in kept if outcome is not None], given.report)
    sys.exit(not whole)


if __name__ == "__main__":
    main()
