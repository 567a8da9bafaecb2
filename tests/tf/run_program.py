"""Runs a program in a process of its own, with TensorFlow's chatter kept out of its output.

TensorFlow takes seconds to import. So a program is a fork of a server that has imported it and has
done nothing else, unless the start or the end of the interpreter is what is tested (`fresh`).
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["run"]

PROLOGUE = """
import json, os, sys
import tensorflow as tf
import tfio_store as tfs
ARGS = json.loads(sys.argv[1])
"""


QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tensorflow"])


def run(
    code: str,
    *,
    env: dict[str, str] | None = None,
    timeout: float = 120,
    fresh: bool = False,
    ends: int = 0,
    **args: Any,
) -> str:
    """What the program printed. Fails when it ends with any other code; a signal is one below 0."""
    source, env = PROLOGUE + textwrap.dedent(code), {**os.environ, **QUIET, **(env or {})}
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        if fresh:
            argv = [sys.executable, "-c", source, json.dumps(args)]
            with out.open("wb") as stdout, err.open("wb") as stderr:
                process: Any = subprocess.Popen(argv, env=env, stdout=stdout, stderr=stderr)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
            ended = process.poll()
        else:
            process = FORKED.Process(target=execute, args=(source, args, env, out, err))
            process.start()
            process.join(timeout)
            ended = process.exitcode
        if ended is None:
            process.kill()
        said = err.read_text(errors="replace")[-4000:]
        assert ended is not None, f"hung; stdout: {out.read_text()}\nstderr: {said}"
        assert ended == ends, f"exit {ended}\n{out.read_text()}\n{said}"
        return out.read_text()


def execute(code: str, args: dict[str, Any], env: dict[str, str], out: Path, err: Path) -> None:
    """What a fork does."""
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[1:] = [json.dumps(args)]
    exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
