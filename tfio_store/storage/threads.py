"""The threads in which reads of filesystems that block are made."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

__all__ = ["pool"]

WORKERS = 16

# By process: a forked child inherits the parent's executor but none of its threads. The parent's
# stays referenced, so that the child does not tear down what it does not own.
_pools: dict[int, ThreadPoolExecutor] = {}


def pool() -> ThreadPoolExecutor:
    """This process's executor; threads start as they are needed."""
    found = _pools.get(os.getpid())
    if found is None:
        made = ThreadPoolExecutor(WORKERS, thread_name_prefix="tfio_store-io")
        found = _pools.setdefault(os.getpid(), made)
    return found
