"""The short form of ``make stress-filesystem``."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("s3fs")

pytestmark = [pytest.mark.tensorflow, pytest.mark.long]


def test_many_threads_under_faults() -> None:
    command = [sys.executable, "-m", "bench.filesystem_stress", "--seconds", "8", "--threads", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "0 failures" in done.stdout
