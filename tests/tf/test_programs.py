"""The short forms of long programs: nothing grows, strings stay whole, threads agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.long]


def ran(program: str, *arguments: str, timeout: float, **env: str) -> str:
    """What a program printed, which ended well."""
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(290)
def test_nothing_grows() -> None:
    """The short form of ``make long ONLY=soak``: datasets come and go."""
    ran("tests.tf.programs.soak", "--minutes", "0", "--cycles", "108", timeout=280)


@pytest.mark.timeout(190)
def test_every_change_leaves_strings_and_heap_whole(tmp_path: Path) -> None:
    """The string tensors of the bridge keep their bytes, whatever TensorFlow does with them."""
    out = ran(
        "tests.tf.programs.strings",
        str(tmp_path),
        timeout=180,
        LD_PRELOAD="libc_malloc_debug.so.0",  # passed by where glibc has none
        MALLOC_CHECK_="3",
        MALLOC_PERTURB_="165",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    assert "the heap is whole" in out


def test_many_threads_under_faults() -> None:
    """The short form of ``make long ONLY=stress``."""
    pytest.importorskip("s3fs")
    threads = ["--seconds", "8", "--threads", "8"]
    assert "0 failures" in ran("tests.tf.programs.filesystem_stress", *threads, timeout=200)
