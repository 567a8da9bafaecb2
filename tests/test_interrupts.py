"""Control-C at the lines of the package: some of them here, all of them in the long run."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interrupts.scenarios import SCENARIOS
from tests.support.long import long

STEPS = [240, long(1)]
"""A run takes each line of so many."""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_interrupted_ends(scenario: str, step: int, tmp_path: Path) -> None:
    """And leaves a dataset that is whole, or none. Whatever it needs is free again."""
    first = random.randrange(step)
    command = [sys.executable, "-m", "tests.interrupts", scenario, str(first), str(step)]
    ended = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    said = "\n".join((ended.stdout + ended.stderr).splitlines()[-60:])
    assert ended.returncode == 0, f"every {step}th line from number {first} on:\n{said}"
