"""Threads that outlive calls: one executor for each kind of work, in each process."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tfio_store.storage.faults import SHUTTING_DOWN

__all__ = ["Threads", "pool"]

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 16


class Threads(ThreadPoolExecutor):
    """An executor that only the interpreter shuts down while it is in use."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise RuntimeError(SHUTTING_DOWN) from error


# By process: a forked child inherits the parent's executor but none of its threads. The parent's
# stays referenced, so that the child does not tear down what it does not own.
_pools: dict[tuple[int, str], Threads] = {}


def pool(work: str = "io", workers: int = WORKERS) -> Threads:
    """This process's executor for a kind of work. "io" is reading from filesystems that block.
    Threads start as they are needed."""
    key = (os.getpid(), work)
    found = _pools.get(key)
    if found is None:
        made = Threads(workers, thread_name_prefix=f"tfio_store-{work}")
        found = _pools.setdefault(key, made)
    return found
