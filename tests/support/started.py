"""Programs in a Python of their own, as users start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["python", "run"]


def python(program: str, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the program's text, in the same place and environment."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=check)


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    root = str(Path(__file__).parents[2])  # not every environment has the package
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **quiet, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
