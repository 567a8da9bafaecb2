"""`OneThread`: what one thread uses at a time says so to the others."""

from __future__ import annotations

import os
from threading import get_ident


class OneThread:
    """Raises RuntimeError where a lock lets others wait. ``what``: the caller's name for what it
    guards. A thread may come in again, also where Control-C kept it from leaving. In a forked child
    nobody is inside: the thread may be one of its parent."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._inside: dict[int, int] = {}  # by process, since a fork copies it: the thread

    def __enter__(self) -> None:
        thread = get_ident()
        if self._inside.setdefault(os.getpid(), thread) != thread:  # atomic
            raise RuntimeError(f"{self._what} is in use by another thread")

    def __exit__(self, *exc_info: object) -> None:
        self._inside.pop(os.getpid(), None)
