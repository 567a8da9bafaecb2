"""`cores`: how many cores this process may use; `workers`, the threads that use them; `begin` for
threads of C; and `begins`, for who waits for either."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol

from tfio_store.storage.threads import PerProcess, Threads, pool

__all__ = ["begin", "begins", "cores", "num_workers", "workers"]

_PATIENCE = 0.001
"""Seconds that a woken thread may take to begin."""

_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def cores() -> int:
    """How many cores this process may use at a time, at least 1: those of its affinity, and no more
    than the quotas of its control groups pay for. Each process asks once."""
    return _cores.here


def workers(threads: int | None = None) -> Threads:
    """This process's executor for work that keeps a core busy, which all share: a thread for each
    of the `cores`, or more where ``threads`` are."""
    count = num_workers(threads)
    return pool(f"work-{count}", count)


def num_workers(threads: int | None = None) -> int:
    """How many these are. So many threads of C there may be, too, for what needs no Python."""
    return max(cores(), threads or 0)


class Task(Protocol):
    """What threads of C may work on."""

    def begin(self, threads: int, at_once: int) -> bool: ...

    def begins(self, patience: float) -> bool: ...


def begin(task: Task, threads: int | None) -> bool:
    """Hand it to the threads of C: as many as there are `workers`, of which so many as there are
    cores keep one busy, and the others wait for disks. False where nothing can be done."""
    return task.begin(num_workers(threads), cores())


def begins(work: Future[Any] | Task) -> bool:
    """Whether a worker works on this, or does soon. Else it is cancelled, for the caller to do: no
    reader waits for what others have begun. But who does a part of the work by himself begins no
    other parts meanwhile. Of two cores he is one; of many, all others wait for him."""
    patience = _PATIENCE if cores() > 2 else 0.0
    if not isinstance(work, Future):
        return work.begins(patience)
    if patience and not work.running():
        wait([work], patience)
    return not work.cancel()


def count_cores(groups: Path = _GROUPS, mount: Path = _MOUNT) -> int:
    """The same, asked anew. ``groups`` and ``mount`` are where Linux tells of control groups."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    try:
        lines = groups.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux, or no such filesystem
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for folder in _folders(mount, controllers, path):
            found = min(found, _paid(folder) or found)
    return max(found, 1)


def _folders(mount: Path, controllers: str, path: str) -> Iterator[Path]:
    """Where the limits of a group may be, and those of the groups that it is in. A container may
    see its own group as the root, and its path as the host names it."""
    named = controllers.split(",")
    if controllers and "cpu" not in named:
        return
    root = mount / "cpu" if controllers else mount
    inner = root / path.strip("/")
    while inner != root:
        yield inner
        inner = inner.parent
    yield root


def _paid(folder: Path) -> int | None:
    """The cores that a group's quota of processor time pays for. None without a quota."""
    try:
        if (folder / "cpu.max").exists():  # version 2
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        return max(-(-int(quota) // int(period)), 1) if int(quota) > 0 else None
    except (OSError, ValueError):  # no quota: version 2 says "max"
        return None


_cores = PerProcess(count_cores)
