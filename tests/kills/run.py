"""A run: a reader that is killed in random places, beside one that nobody kills."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import tfio_store as tfs
from tests.kills.worker import BATCH, example

__all__ = ["killed_and_restored", "write"]

COUNT = 3001
SECONDS = 250
"""How long one life may take."""

Steps = list[list[int]]


def write(url: str) -> None:
    """The dataset that is read: `COUNT` records in many blocks of three compressed shards."""
    with tfs.ShardedWriter(url, num_shards=3, compression="GZIP", block_bytes=64 << 10) as writer:
        writer.write_batch(map(example, range(COUNT)))


def killed_and_restored(
    reader: str, url: str, folder: Path, *, kills: int, epochs: int, seed: int
) -> Counter[str]:
    """Kill a reader so often, and restore it. AssertionError if its records are not, in order,
    those of one that nobody kills, or not each of them once in an epoch.

    Tells how many steps were kept, and how many were lost with a life and read again.
    """
    job = {"reader": reader, "source": url, "epochs": epochs}
    whole, _ = life({**job, "restore": None, "steps": None})
    assert Counter(flat(whole)) == dict.fromkeys(range(COUNT), epochs)
    dice = random.Random(seed)
    places = sorted(dice.sample(range(1, epochs * COUNT // BATCH), kills))
    kept: Steps = []
    lost, restore = 0, None
    for number, (begin, end) in enumerate(pairwise([0, *places])):
        path, after = str(folder / f"{number}"), dice.randrange(12)
        plan = {"restore": restore, "steps": end - begin, "save": path, "after": after}
        before, behind = life({**job, **plan})
        assert len(before) == end - begin
        assert behind == whole[end : end + after]
        kept, lost, restore = kept + before, lost + len(behind), path
    rest, _ = life({**job, "restore": restore, "steps": None})
    assert kept + rest == whole, f"seed {seed}: other records, or in another order"
    return Counter(kept=len(whole), lost=lost, kills=kills)


def life(job: dict[str, Any]) -> tuple[Steps, Steps]:
    """Steps before the reader saved, and those behind."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kills.worker"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == (0 if job["steps"] is None else -9), done.stderr[-3000:]
    before, _, after = done.stdout.partition("saved\n")
    return steps_of(before), steps_of(after)


def steps_of(text: str) -> Steps:
    return [[int(number) for number in line.split()] for line in text.splitlines()]


def flat(steps: Steps) -> list[int]:
    return [number for step in steps for number in step]
