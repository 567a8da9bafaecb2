"""What the workers of a loader read and decoded, added up for the training process."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any

from tfio_store.torch.epochs import Worker, nameless_file

_PLACE = 1024
"""Bytes of the file for each worker."""


class WorkerMetrics:
    """The numbers of each worker of the last pass. They lie in a file without a name, which the
    processes share: each worker writes its own place. It pickles to the processes that this one
    starts; to anybody else as a new one."""

    def __init__(self) -> None:
        self._open(nameless_file("tfio_store.metrics"))

    def _open(self, file: int) -> None:
        self._file = file
        self._closing = weakref.finalize(self, os.close, file)

    def put(self, worker: Worker, found: Mapping[str, float]) -> None:
        """Write the numbers of a worker."""
        line = json.dumps([time.monotonic(), worker.count, found]).encode() + b"\n"
        os.pwrite(self._file, line.ljust(_PLACE), worker.number * _PLACE)

    def total(self) -> dict[str, float]:
        """The sums over all workers of the loader that wrote last."""
        size = os.fstat(self._file).st_size
        data = os.pread(self._file, size, 0)
        lines = [data[at : at + _PLACE].strip(b"\0 \n") for at in range(0, size, _PLACE)]
        found: dict[int, Any] = {i: json.loads(line) for i, line in enumerate(lines) if line}
        if not found:
            return {}
        _, count, _ = max(found.values(), key=lambda one: one[0])
        totals: Counter[str] = Counter()
        for number in range(count):
            if number in found:
                totals.update(found[number][2])
        return dict(totals)

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            return WorkerMetrics, ()
        return _shared, (DupFd(self._file),)


def _shared(file: Any) -> WorkerMetrics:
    metrics = WorkerMetrics.__new__(WorkerMetrics)
    metrics._open(file.detach())
    return metrics
