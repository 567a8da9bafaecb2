"""Runs a program in a process of its own, with TensorFlow's chatter kept out of its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

__all__ = ["run"]

PROLOGUE = """
import json, os, sys
import tensorflow as tf
import tfio_store as tfs
ARGS = json.loads(sys.argv[1])
"""


def start(code: str, env: dict[str, str] | None = None, **args: Any) -> subprocess.Popen[str]:
    """Start ``code``, to which ``ARGS`` is a dict of ``args``."""
    program = PROLOGUE + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(args)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *, env: dict[str, str] | None = None, timeout: float = 120, **args: Any) -> str:
    """What the program printed. Fails when it ends with anything but 0, signals included."""
    process = start(code, env, **args)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"hung; stdout: {out}\nstderr: {err[-4000:]}") from None
    assert process.returncode == 0, f"exit {process.returncode}\n{out}\n{err[-4000:]}"
    return out
