"""Threads that outlive calls: one executor for each kind of work, in each process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tfio_store.storage.faults import SHUTTING_DOWN
from tfio_store.storage.process import PerProcess

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


_pools: PerProcess[dict[str, Threads]] = PerProcess(dict)


def pool(work: str = "io", workers: int = WORKERS) -> Threads:
    """This process's executor for a kind of work. "io" is reading from filesystems that block.
    Threads start as they are needed."""
    pools = _pools.here
    if work not in pools:
        pools.setdefault(work, Threads(workers, thread_name_prefix=f"tfio_store-{work}"))
    return pools[work]
