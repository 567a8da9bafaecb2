"""Tracks what is skipped in files whose blocks are read one by one. Knows no TensorFlow.

Blocks of a file are read in any order, by any thread, and know nothing of each other. Here they
come together: a pass over a file is each of its blocks once.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tfio_store.read.skips import FileSkips
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage.process import quietly

__all__ = ["BlockSkips"]

IDLE_SECONDS = 5.0
"""After waiting so long for its next block, a pass tells what it has: the rest may never be
read."""
OVERLAPPING = 2
"""Passes over one file at a time: the next epoch begins before the last one has ended."""
FILES = 4096


@dataclass(slots=True)
class _Pass:
    file: FileSkips = field(default_factory=FileSkips)
    blocks: set[int] = field(default_factory=set)
    used: float = 0.0


class BlockSkips:
    """Gives one `DataLossWarning` for each pass over a damaged file. A file in which nothing could
    be read is an error, which the reader of its last block gets. A pass that never ends (over a
    share of the blocks, or cut short) warns while it waits.
    """

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)
        atexit.register(self._tell, 0.0)

    def forget(self) -> None:
        """Start afresh in a forked child. It has no thread, and perhaps no free lock."""
        self._lock = threading.Lock()
        self._passes: OrderedDict[Hashable, list[_Pass]] = OrderedDict()
        self._watched = False

    def read(
        self,
        way: tuple[Hashable, ...],
        url: str,
        block: tuple[int, int],
        records: int,
        regions: Sequence[SkippedRegion],
    ) -> None:
        """Note the good ``records`` and the damaged ``regions`` of a block: the one at byte
        ``block[0]`` of the ``block[1]`` that the file has. ``way`` tells how the file is read.

        Raises CorruptRecordError behind the last block of a file without a good record.
        """
        with self._lock:
            found = self._pass_without((url, *way), block[0])
            found.blocks.add(block[0])
            found.file.records += records
            for region in regions:
                found.file.add(region)
            found.used = time.monotonic()
            ended = len(found.blocks) == block[1]
            given_up = self._given_up((url, *way), found if ended else None)
        for each in given_up:
            each.file.say()
        if ended:
            found.file.end(url)
        elif found.file.untold:
            self._watch()

    def _pass_without(self, key: Hashable, block: int) -> _Pass:
        passes = self._passes.setdefault(key, [])
        self._passes.move_to_end(key)
        for each in passes:
            if block not in each.blocks:
                return each
        passes.append(_Pass())
        return passes[-1]

    def _given_up(self, key: Hashable, ended: _Pass | None) -> list[_Pass]:
        """Forget a pass that has ended. If there are too many passes, forget and return the
        oldest."""
        passes = self._passes[key]
        if ended is not None:
            passes.remove(ended)
        given_up = passes[:-OVERLAPPING]
        del passes[:-OVERLAPPING]
        if not passes:
            del self._passes[key]
        if len(self._passes) > FILES:
            given_up += self._passes.popitem(last=False)[1]
        return given_up

    def _watch(self) -> None:
        with self._lock:
            if self._watched:
                return
            self._watched = True
        work = threading.Thread(target=self._run, name="tfio_store-skips", daemon=True)
        quietly(work.start)  # if no thread starts any more, `atexit` tells

    def _run(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            self._tell(IDLE_SECONDS)
            with self._lock:
                self._watched = any(
                    each.file.untold for passes in self._passes.values() for each in passes
                )
                if not self._watched:
                    return

    def _tell(self, idle: float) -> None:
        """Warn of passes that have waited for so many seconds."""
        before = time.monotonic() - idle
        with self._lock:
            waiting = [
                each for passes in self._passes.values() for each in passes if each.used <= before
            ]
        for each in waiting:
            quietly(each.file.say)  # nobody here could catch a warning that is made an error
