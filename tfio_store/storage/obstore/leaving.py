"""A process that used obstore ends only when Rust's threads have nothing left to do.

They drop what Python lent them a moment after they have answered. One that does so while the
interpreter ends is stopped inside Rust, which aborts the process. Nobody tells when they are done,
but on Linux one can see them sleep.
"""

from __future__ import annotations

import os
import time

__all__ = ["let_go"]

LONGEST_S = 5.0
STEP_S = 0.02
STEPS = 10
"""This many looks in a row must find all of them asleep."""

BLIND_S = 0.25
"""Where threads cannot be seen."""

TASKS = "/proc/self/task"


def let_go() -> None:
    """Wait until Rust's threads sleep, for a limited time."""
    if not os.path.isdir(TASKS):
        time.sleep(BLIND_S)
        return
    asleep, end = 0, time.monotonic() + LONGEST_S
    while asleep < STEPS and time.monotonic() < end:
        time.sleep(STEP_S)  # without Python's lock, which they may wait for
        asleep = 0 if any_awake() else asleep + 1


def any_awake() -> bool:
    """Whether a thread of Rust's runtime runs, or would run if a core were free."""
    return any(is_rusts_and_awake(task) for task in os.listdir(TASKS))


def is_rusts_and_awake(task: str) -> bool:
    try:
        with open(f"{TASKS}/{task}/stat", encoding="utf-8", errors="replace") as file:
            name, _, state = file.read().partition("(")[2].rpartition(")")
    except OSError:  # it has ended
        return False
    return name.startswith("tokio") and not state.strip().startswith("S")
