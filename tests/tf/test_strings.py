"""The string tensors of the bridge keep their bytes, whatever TensorFlow does with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.mark.long  # malloc checks the heap at each call
@pytest.mark.timeout(190)
def test_every_change_leaves_strings_and_heap_whole(tmp_path: Path) -> None:
    checked = {
        "LD_PRELOAD": "libc_malloc_debug.so.0",  # passed by where glibc has none
        "MALLOC_CHECK_": "3",
        "MALLOC_PERTURB_": "165",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.tf.programs.strings", str(tmp_path)],
        env={**os.environ, **checked},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the heap is whole" in done.stdout
