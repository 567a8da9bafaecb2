"""Threads that outlive calls: one executor for each kind of work, in each process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

__all__ = ["pool"]

WORKERS = 16

# By process: a forked child inherits the parent's executor but none of its threads. The parent's
# stays referenced, so that the child does not tear down what it does not own.
_pools: dict[tuple[int, str], ThreadPoolExecutor] = {}


def pool(work: str = "io", workers: int = WORKERS) -> ThreadPoolExecutor:
    """This process's executor for that work, "io" being the reads of filesystems that block;
    threads start as they are needed."""
    key = (os.getpid(), work)
    found = _pools.get(key)
    if found is None:
        made = ThreadPoolExecutor(workers, thread_name_prefix=f"tfio_store-{work}")
        found = _pools.setdefault(key, made)
    return found
