"""The short form of ``make long ONLY=differential``: as many cases as a minute holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow


@pytest.mark.long
def test_random_cases_show_no_difference() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.differential", "--seconds", "25"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
