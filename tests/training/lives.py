"""A training program that is killed with SIGKILL again and again, beside one that nobody kills.

``python -m tests.training.lives`` imports what the program does, once, and forks each life of it:
to import a framework takes many times as long as to train.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["COUNT", "SAVES", "SIZE", "killed_and_restored"]

COUNT, SIZE, SAVES = 503, 10, 5
"""Records, the records of a step, and the steps between two checkpoints."""
KILLS = 3
SECONDS = 100
"""How long one life may take."""
ROOT = Path(__file__).parents[2]


def killed_and_restored(model: str, block: str, url: str, folder: Path, **environment: str) -> None:
    """Train by ``block``, a page's code, on the dataset at ``url``, which has ``x`` from 0 on.

    ``model`` defines what the page takes from its reader, and notes: by `step_done` that a step was
    made, and by `ended` what is left of the training. AssertionError if that is not, to the last
    bit, what a program leaves that nobody kills, or not each record was trained on once.
    """
    seed = random.SystemRandom().randrange(1 << 30)
    job = {"program": [model, block, "ended(model)"], "url": url, "folder": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.training.lives"],
        input=json.dumps({**job, "seed": seed}),
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=6 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    found = json.loads((folder / "found.json").read_text())
    *killed, last = found["lives"]
    about = f"seed {seed}, steps of each life: {found['lives']}"
    for each in found["lives"]:
        assert each == list(range(each[0], each[-1] + 1)), about
    for before, after in pairwise(found["lives"]):
        saved = after[0] - 1
        assert saved % SAVES == 0, about
        # the kill may have met the last one half saved
        assert (before[-1] - 1) // SAVES * SAVES <= saved <= before[-1], about
    steps = -(-COUNT // SIZE)
    assert (len(killed), last[-1]) == (KILLS, steps), about
    assert found["whole"]["times"] == [1] * COUNT, "not each record once, and nothing was killed"
    assert sorted(set(found["whole"]["step"])) == list(range(1, steps + 1))
    for name, left in found["whole"].items():
        assert found["ended"][name] == left, f"{about}: other {name}"


def starter(job: dict[str, Any]) -> None:
    """Let one life end; and then another, by as many as it takes."""
    folder, dice = Path(job["folder"]), random.Random(job["seed"])
    imports: list[ast.stmt] = [
        node
        for part in job["program"]
        for node in ast.parse(part).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, []), "imports", "exec"), {})
    life(job, folder / "whole", 0, None, 0)
    delays = [dice.random() / 20 for _ in range(KILLS)]
    lives = [
        life(job, folder / "killed", number, dice.randint(SAVES + 1, 3 * SAVES - 1), delay)
        for number, delay in enumerate(delays)
    ]
    lives.append(life(job, folder / "killed", KILLS, None, 0))
    ends = {
        name: json.loads((folder / place / "ended.json").read_text())
        for name, place in (("whole", "whole"), ("ended", "killed"))
    }
    (folder / "found.json").write_text(json.dumps({"lives": lives, **ends}))


def life(
    job: dict[str, Any], folder: Path, number: int, kill_after: int | None, delay: float
) -> list[int]:
    """The numbers of the steps that one process has made, until it ended or was killed."""
    folder.mkdir(exist_ok=True)
    log = folder / f"{number}.log"
    log.touch()
    process = os.fork()
    if not process:
        run(job, folder, log)
    while kill_after is not None and len(log.read_bytes().splitlines()) < kill_after:
        ended, status = os.waitpid(process, os.WNOHANG)
        assert not ended, f"life {number} ended by itself: {status}"
        time.sleep(0.002)
    if kill_after is not None:
        time.sleep(delay)
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    wanted = 0 if kill_after is None else -signal.SIGKILL
    assert os.waitstatus_to_exitcode(status) == wanted, f"life {number}"
    return [int(line) for line in log.read_text().splitlines()]


def run(job: dict[str, Any], folder: Path, log: Path) -> None:
    """The program, in a process of its own, which ends with it."""
    signal.alarm(SECONDS)
    with log.open("ab", buffering=0) as file:

        def step_done(number: int) -> None:
            file.write(b"%d\n" % number)
            time.sleep(0.01)

        def ended(model: Any) -> None:
            (folder / "ended.json").write_text(json.dumps(model.left()))

        names = {"step_done": step_done, "ended": ended, "COUNT": COUNT, "URL": job["url"]}
        names |= {"FOLDER": str(folder / "saved"), "__name__": "__main__"}
        (folder / "saved").mkdir(exist_ok=True)
        try:
            for part in job["program"]:
                exec(compile(part, "program", "exec"), names)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    starter(json.load(sys.stdin))
