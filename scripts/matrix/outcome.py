"""Runs the tests of a row, counts, and keeps what came of it for the page."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

from scripts.matrix.rows import Row
from scripts.wheels.build import plain_environment, run

__all__ = ["HEAD", "Outcome", "kept_outcome", "run_row"]

SHOWN = ("numpy", "fsspec", "pyarrow", "aiobotocore", "google-crc32c")
COLUMNS = ("row", "Python", "TensorFlow", *SHOWN, "passed", "failed", "skipped", "seconds", "on")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"
VERSIONS = """
import json, platform
from importlib.metadata import distributions
names = {d.name.lower().replace("_", "-"): d.version for d in distributions()}
print(json.dumps({"python": platform.python_version(), **names}))
"""


@dataclass(frozen=True)
class Outcome:
    """What came of a row's tests. ``versions``: of Python, and of each installed package."""

    name: str
    versions: dict[str, str]
    passed: int
    failures: list[str]
    skipped: int
    seconds: float
    date: str

    def line(self) -> str:
        """Of the table under `HEAD`."""
        of = ("python", "tensorflow", *SHOWN)
        versions = (self.versions.get(name, "-") for name in of)
        counts = (self.passed, len(self.failures), self.skipped, f"{self.seconds:.0f}")
        return f"| {' | '.join(map(str, (self.name, *versions, *counts, self.date)))} |"


def run_row(row: Row, python: Path, suite: Path, *, workers: int) -> Outcome:
    """Runs all of the row's tests but the slow ones. Its output goes to a log beside ``suite``."""
    report = suite.parent / f"{row.name}.xml"
    report.unlink(missing_ok=True)
    marks = "not long" if row.tensorflow else "not long and not tensorflow"
    options = ("-q", "-n", str(workers), "-m", marks)
    begun = time.monotonic()
    with (suite.parent / f"{row.name}.log").open("wb") as log:
        subprocess.run(
            [python, "-m", "pytest", *options, f"--junitxml={report}", *row.tests],
            cwd=suite,
            env=plain_environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,  # the report tells
        )
    seconds = time.monotonic() - begun
    versions = json.loads(run(python, "-I", "-c", VERSIONS, env=plain_environment()))
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [_named(case) for case in cases if _has(case, "failure", "error")]
    skipped = sum(_has(case, "skipped") for case in cases)
    passed = len(cases) - len(failed) - skipped
    date = time.strftime("%Y-%m-%d")
    outcome = Outcome(row.name, versions, passed, failed, skipped, seconds, date)
    _file(suite.parent, row.name).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    return outcome


def kept_outcome(place: Path, name: str) -> Outcome | None:
    """Of the row's last run, if there was one."""
    file = _file(place, name)
    return Outcome(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def _file(place: Path, name: str) -> Path:
    return place / f"{name}.json"


def _has(case: ElementTree.Element, *kinds: str) -> bool:
    return any(case.find(kind) is not None for kind in kinds)


def _named(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"
