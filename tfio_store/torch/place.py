"""Finds which process of a job this is, and which worker of its loader."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Any

import torch.distributed
from torch.utils.data import get_worker_info

__all__ = ["Ranks", "Worker", "starter"]


def starter() -> int:
    """The process that started this one."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid


@dataclass(frozen=True, slots=True)
class Ranks:
    """One process of a job: ``rank`` of ``world_size``."""

    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if self.world_size < 1:
            raise ValueError(f"world_size= takes 1 or more processes, not {self.world_size}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank= takes 0 to {self.world_size - 1}, not {self.rank}")

    @classmethod
    def given(cls, rank: int | None, world_size: int | None) -> Ranks | None:
        """What a user passed. None if it is to be found."""
        if (rank is None) != (world_size is None):
            raise ValueError("rank= and world_size= go together: pass both, or neither")
        return None if rank is None or world_size is None else cls(rank, world_size)

    @classmethod
    def found(cls) -> Ranks:
        """What torch.distributed says, or, before it is initialized, torchrun's environment."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())
        rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
        if rank is None or size is None:
            return cls(0, 1)
        try:
            return cls(int(rank), int(size))
        except ValueError as error:
            raise ValueError(
                f"the environment has RANK={rank!r} and WORLD_SIZE={size!r}, which name no process "
                "of a job; pass rank= and world_size="
            ) from error


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a loader, which runs in the process ``loader``. ``seed`` is common to all
    workers of a pass; None in the loader's own process, where there are no workers. ``process`` is
    the number that the loader's process gave to this one: it counts those that it starts. ``pipes``
    are those of the queues that the loader gave to this worker. One of them all its workers have,
    and no other loader's."""

    number: int
    count: int
    seed: int | None
    loader: int
    process: int = 0
    pipes: frozenset[int] = frozenset()

    @property
    def first(self) -> int:
        """The number of the first worker's process: a loader starts its workers in a row."""
        return self.process - self.number

    @classmethod
    def found(cls) -> Worker:
        """The worker that this process is."""
        info = get_worker_info()
        if info is None:
            return cls(0, 1, None, os.getpid())
        process: Any = multiprocessing.current_process()
        number = (process._identity or (0,))[-1]
        pipes = pipes_of(getattr(process, "_args", ()))
        return cls(info.id, info.num_workers, info.seed - info.id, starter(), number, pipes)


def pipes_of(given: Iterable[Any]) -> frozenset[int]:
    """The numbers by which the system knows the pipes of queues among a process's arguments. They
    are the same in each process, however it was started."""
    found = set()
    for queue in given:
        if isinstance(queue, Queue):
            with contextlib.suppress(OSError, AttributeError):
                found.add(os.fstat(queue._reader.fileno()).st_ino)  # type: ignore[attr-defined]
    return frozenset(found - {0})
