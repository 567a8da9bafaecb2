"""A process that saved its iterator and was killed; another one goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.differential.draw import Draw, same, same_multiset
from tests.differential.sources import World, make_source


def check_killed(draw: Draw, world: World) -> None:
    """What the second process reads is what the first would have read next."""
    with make_source(draw, world, local=True) as made, tempfile.TemporaryDirectory() as folder:
        source = (
            [str(u) for u in made.source] if isinstance(made.source, list) else str(made.source)
        )
        options: dict[str, Any] = {}
        if draw.chance("batched", 0.5):
            options["batch_size"] = draw.one("batch_size", 2, 7)
        if draw.chance("shuffled", 0.5):
            options |= {"shuffle": 2, "seed": draw.number("seed", 0, 9)}
        job = {
            "arguments": [source],
            "options": options,
            "checkpoint": str(Path(folder) / "checkpoint"),
            "symbolic": draw.chance("symbolic", 0.5),
        }
        # blocks are small in this process alone: the order is that of a process of its own
        whole = run({**job, "after": len(made.records) + 1})
        size = options.get("batch_size", 1)
        before = draw.number("before", 0, len(whole) // size)
        run({**job, "before": before, "save": True, "after": 0, "die": True})
        rest = run({**job, "restore": True, "after": len(whole) + 1})
        same(rest, whole[before * size :], f"restored behind {before}")
        same_multiset(whole, made.records, "elements")
        if "shuffle" not in options:
            same(whole, made.records, "elements")


def run(job: dict[str, Any]) -> list[bytes]:
    """The records that `tests.tf.programs.iterate` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tf.programs.iterate"],
        input=json.dumps(job), capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    if done.returncode not in (0, -9):
        raise RuntimeError(done.stderr[-3000:])
    return [bytes.fromhex(line) for line in done.stdout.split("\n")[:-1]]
