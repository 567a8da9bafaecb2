"""Which epoch each pass over a dataset gives. All workers of a loader agree on it.

A loader tells its dataset nothing when a pass begins: it forks or spawns workers, or tells those it
has to begin anew. So the workers agree by themselves. All workers of a pass know one number that no
other pass has (the loader's base seed), and the first of them that comes takes the next epoch for
it. They write this into a file without a name, which the processes share.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any

__all__ = ["Epochs", "Pass"]

_KEPT = 64
"""Passes that are remembered: more than ever run at once."""


@dataclass
class Pass:
    """One pass of a loader. ``key``: what its workers know of it."""

    key: list[int]
    epoch: int
    resumed: bool
    """Whether it goes on from the state that the dataset was given."""
    workers: list[int] = field(default_factory=list)
    """Those that have begun it."""


class Epochs:
    """The epochs of one dataset. It pickles to the workers that a process starts, who share it; to
    anybody else as a new one that begins with the same epoch."""

    def __init__(self, first: int = 0, resume: bool = False) -> None:
        self._open(_nameless_file())
        self.set_next(first, resume=resume)

    def _open(self, file: int) -> None:
        self._file = file
        self._closing = weakref.finalize(self, os.close, file)

    @property
    def next(self) -> int:
        """The epoch that the next pass will give."""
        return int(self._kept()["next"])

    @property
    def in_workers(self) -> bool:
        """Whether the last pass is one of workers."""
        return bool(self._kept()["in_workers"])

    def set_next(self, epoch: int, *, resume: bool = False) -> None:
        """Have the next pass give this epoch, from the dataset's state or from its beginning."""
        with self._locked() as kept:
            kept |= {"next": epoch, "resume": resume, "in_workers": False}

    def begin(self, key: list[int] | None, worker: int, at: int | None = None) -> Pass:
        """Begin a pass in a worker; ``key`` None: in the process of the loader itself. ``at``: its
        epoch, if the worker's own state tells that. ValueError if the others' states tell
        another."""
        with self._locked() as kept:
            found = _joined(kept["passes"], key, worker)
            if found is None:
                epoch = kept["next"] if at is None else at
                found = Pass(key or [], epoch, kept["resume"])
                kept |= {"next": epoch + 1, "resume": False, "in_workers": key is not None}
                if key is not None:
                    kept["passes"] = [*kept["passes"], asdict(found)][-_KEPT:]
            if key is not None:
                found.workers.append(worker)
                kept["passes"] = [
                    asdict(found) if _same(one, found) else one for one in kept["passes"]
                ]
        if at is not None and found.epoch != at:
            raise ValueError(
                f"state= is of epoch {at} in worker {worker}, and of epoch {found.epoch} in others"
            )
        return found

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            kept = self._kept()
            yield kept
            data = json.dumps(kept).encode()
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _kept(self) -> dict[str, Any]:
        data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        kept: dict[str, Any] = json.loads(data or b'{"passes": []}')
        return kept

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            kept = self._kept()
            return Epochs, (kept["next"], kept["resume"])
        return _shared, (DupFd(self._file),)


def _shared(file: Any) -> Epochs:
    epochs = Epochs.__new__(Epochs)
    epochs._open(file.detach())
    return epochs


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tfio_store.epochs")
    file, name = tempfile.mkstemp(prefix="tfio_store.epochs")
    os.unlink(name)
    return file


def _joined(passes: list[dict[str, Any]], key: list[int] | None, worker: int) -> Pass | None:
    """The pass that others have begun, and this worker has not. Seeds may come again, and then the
    last pass with this one counts."""
    for one in reversed(passes):
        if one["key"] == key and worker not in one["workers"]:
            return Pass(**one)
    return None


def _same(one: dict[str, Any], found: Pass) -> bool:
    return bool(one["key"] == found.key and one["epoch"] == found.epoch)
