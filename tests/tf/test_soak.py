"""The short form of ``make soak``: nothing grows while datasets come and go."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.long]


@pytest.mark.timeout(290)
def test_nothing_grows() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tf.programs.soak", "--minutes", "0", "--cycles", "108"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
