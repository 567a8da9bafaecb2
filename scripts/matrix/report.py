"""Writes what the rows' last runs found into a page."""

from __future__ import annotations

from pathlib import Path

from bench.timing import machine
from scripts.matrix.outcome import HEAD, Outcome
from scripts.matrix.rows import ROWS

__all__ = ["write_report"]

TEXT = """\
# Versions that are tested

Written by `make test-matrix REPORT=docs/versions.md`. Each row is an environment of its own, into
which a wheel was installed that was built of the source distribution. The tests are out of the
source distribution, too. The row *lowest* has each dependency at the lower bound that
`pyproject.toml` gives; obstore has no wheel for Python 3.10. The rows without TensorFlow have what
`requirements/constraints.txt` names, which is the newest that goes together. TensorFlow 2.18 is the
first without `s3://`.

A row without TensorFlow runs the tests of
{rooms}.
A row with TensorFlow runs the tests of what hangs on its version: the ops, the filesystem, saved
datasets and states. All other tests, the long ones too, are left to `make
test-all`. Tests that are skipped need what the environment does not have.

tfio_store {version}. {machine}. Other work ran beside it, so the seconds say little.

"""


def write_report(outcomes: list[Outcome], page: Path) -> None:
    plain = next(row for row in ROWS if not row.tensorflow)
    rooms = ", ".join(test.rpartition("/")[2] for test in plain.tests)
    version = outcomes[0].versions["tfio-store"]
    of = machine().rpartition(",")[0]  # without the Python that runs this
    told = TEXT.format(rooms=rooms, version=version, machine=of)
    failed = [f"- {each.name}: `{test}`" for each in outcomes for test in each.failures]
    page.write_text(told + "\n".join([HEAD, *map(Outcome.line, outcomes)]) + "\n", encoding="utf-8")
    missing = [row.name for row in ROWS if row.name not in {each.name for each in outcomes}]
    with page.open("a", encoding="utf-8") as file:
        if failed:
            file.write("\nWhat failed:\n\n" + "\n".join(failed) + "\n")
        if missing:
            file.write(f"\nNot run yet: {', '.join(missing)}.\n")
