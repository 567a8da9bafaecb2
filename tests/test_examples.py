"""The programs of examples/ that need no framework. Tests of the frameworks run theirs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: str | Path, status: int = 0) -> list[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines()


@pytest.mark.tensorflow
def test_demo() -> None:
    for package in ("tensorflow", "moto", "sklearn"):
        pytest.importorskip(package)
    assert any("accuracy" in line for line in run("demo.py"))


def test_resume(tmp_path: Path) -> None:
    whole = run("resume.py", tmp_path / "whole")
    run("resume.py", tmp_path / "killed", "--kill-at", "3500", status=-signal.SIGKILL)
    run("resume.py", tmp_path / "killed", "--kill-at", "8001", status=-signal.SIGKILL)
    last = run("resume.py", tmp_path / "killed")
    assert (whole[0], last[0]) == ("begins at record 0", "begins at record 8000")
    assert whole[1] == last[1]


def test_salvage(tmp_path: Path) -> None:
    told = run("salvage.py", tmp_path)
    assert told[0].startswith("a plain reader stops:")
    assert "lost: train-00000-of-00003.tfrecord at 13290, 27 bytes" in told[1]
    assert told[-1] == "2995 of 3000 records are kept"


NOTEBOOKS = ["look_at_a_bucket.ipynb", "train_from_a_bucket.ipynb"]


@pytest.mark.parametrize(
    "name", [NOTEBOOKS[0], pytest.param(NOTEBOOKS[1], marks=pytest.mark.tensorflow)]
)
def test_a_notebook_runs(name: str) -> None:
    """`python -m scripts.notebooks` keeps what it shows."""
    needed = ("moto", "sklearn", "PIL", *(["keras"] if name.startswith("train") else []))
    for package in needed:
        pytest.importorskip(package)
    command = [sys.executable, "-m", "scripts.notebooks", str(EXAMPLES / name), "--check"]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
