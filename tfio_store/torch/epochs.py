"""Which rank and worker this is, and which epoch a pass gives: all workers of a loader agree on
it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.context import get_spawning_popen
from multiprocessing.queues import Queue
from multiprocessing.reduction import DupFd
from threading import RLock
from typing import Any

import torch.distributed
from torch.utils.data import get_worker_info

from tfio_store.storage.threads import PerProcess

# Finds which process of a job this is, and which worker of its loader.


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
        """The rank that a user passed. None if it is to be found."""
        if (rank is None) != (world_size is None):
            raise ValueError("rank= and world_size= go together: pass both, or neither")
        return None if rank is None or world_size is None else cls(rank, world_size)

    @classmethod
    def found(cls) -> Ranks:
        """The rank of torch.distributed, or, before it is initialized, of torchrun's
        environment."""
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

    def sharing_once(self) -> Ranks:
        """The same. ValueError if the caller shares out among ranks what it is given."""
        caller = None if self.world_size == 1 else sharing_caller()
        if caller is not None:
            raise ValueError(
                f"{caller} shares out the records among {self.world_size} ranks, and so does this "
                "dataset: records would be lost; make it with rank=0, world_size=1"
            )
        return self


_SHARING = {
    "accelerate.data_loader": ("DataLoaderDispatcher", "IterableDatasetShard"),
    "transformers.trainer_pt_utils": ("IterableDatasetShard",),
}
"""Classes, by their modules, that give each of several ranks a part of what all are given."""


def sharing_caller() -> str | None:
    """Which of these has called. A forked worker finds it too: above its own calls are those of its
    loader."""
    frame = sys._getframe()
    while (above := frame.f_back) is not None:
        frame = above
        module = frame.f_globals.get("__name__", "")
        if module in _SHARING:
            caller = frame.f_locals.get("self")
            name = type(caller).__name__
            if name in _SHARING[module] and _ranks_of(caller) > 1:
                return f"{module}.{name}"
    return None


def _ranks_of(caller: Any) -> int:
    """Among how many it shares out. One, where Accelerate knows no other ranks of the job."""
    of = caller if hasattr(caller, "num_processes") else getattr(caller, "state", None)
    return int(getattr(of, "num_processes", 1))


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
        pipes = pipes_of(queues_given())
        return cls(info.id, info.num_workers, info.seed - info.id, starter(), number, pipes)


def queues_given() -> list[Queue[Any]]:
    """The queues that a loader gave to this worker."""
    given = getattr(multiprocessing.current_process(), "_args", ())
    return [one for one in given if isinstance(one, Queue)]


def pipes_of(queues: Iterable[Queue[Any]]) -> frozenset[int]:
    """The numbers by which the system knows the pipes of queues. They are the same in each process,
    however it was started."""
    found = set()
    for queue in queues:
        with contextlib.suppress(OSError, AttributeError):
            found.add(os.fstat(queue._reader.fileno()).st_ino)  # type: ignore[attr-defined]
    return frozenset(found - {0})


# Which epoch each pass over a dataset gives. All workers of a loader agree on it.
#
# A loader does not inform its dataset when a pass begins: it forks or spawns workers, or tells
# those it has to begin anew. So the workers agree by themselves. All workers of a pass know one
# number that no other pass has (the loader's base seed), and the first of them that comes takes the
# next epoch for it. They write this into a file without a name, which the processes share.
#
# Two loaders that were given the same seed have the same number. So a worker also knows the pipes
# of the queues that its loader gave to it: one of them all its workers have. Where it finds none,
# it knows which process of its loader's was the first of its workers. Processes that another
# thread starts in between shift that, so a few more or less are the same loader's.
#
# A process that a dataset was handed to, and that is no worker, such as a rank of a job, has a
# loader of its own. So the file holds the epochs of each process that has a loader.


_KEPT = 64
"""Passes that are remembered: more than ever run at once."""


@dataclass
class Pass:
    """One pass of a loader. ``key``: what its workers know of it."""

    key: list[int]
    epoch: int
    saved: dict[str, Any] | None
    """The state from which it goes on, if the dataset was given one."""
    first: int = 0
    """The number of its first worker's process."""
    count: int = 1
    """How many workers it has."""
    workers: list[int] = field(default_factory=list)
    """Those that have begun it."""
    pipes: list[int] = field(default_factory=list)
    """Those of the worker that came first."""

    def may_be_of(self, worker: Worker) -> bool:
        """Whether the loader of this worker may have begun it. Another loader's workers share no
        pipe with it, and are as many processes away as one of the two has."""
        if self.pipes and worker.pipes:
            return not worker.pipes.isdisjoint(self.pipes)
        return self.count == worker.count and abs(self.first - worker.first) < self.count


@dataclass
class _Loading:
    """The passes that one process has read, and will."""

    next: int
    saved: dict[str, Any] | None = None
    in_workers: bool = False
    passes: list[Pass] = field(default_factory=list)

    @classmethod
    def parsed(cls, kept: dict[str, Any]) -> _Loading:
        passes = [Pass(**one) for one in kept["passes"]]
        return cls(**{**kept, "passes": passes})

    def joined(self, key: list[int], worker: Worker) -> Pass | None:
        """The pass that others have begun, and this worker has not. Seeds may come again, and then
        the nearest pass with this one counts, the last of those as near."""
        found = [
            one
            for one in reversed(self.passes)
            if one.key == key and worker.number not in one.workers and one.may_be_of(worker)
        ]
        return min(found, key=lambda one: abs(one.first - worker.first), default=None)

    def begin(self, key: list[int] | None, worker: Worker, at: int | None) -> Pass:
        """Begin a pass that no other worker has begun."""
        epoch = self.next if at is None else at
        found = Pass(key or [], epoch, self.saved, worker.first, worker.count)
        found.pipes = sorted(worker.pipes)
        self.next, self.saved, self.in_workers = found.epoch + 1, None, key is not None
        if key is not None:
            self.passes = [*self.passes, found][-_KEPT:]
        return found


class Epochs:
    """The epochs of one dataset. It pickles to the processes that this one starts, who share the
    file; to anybody else as a new one that begins with the same epoch."""

    def __init__(self, first: int = 0, saved: dict[str, Any] | None = None) -> None:
        self._open(nameless_file("tfio_store.epochs"), os.getpid())
        self.set_next(first, saved)

    def _open(self, file: int, maker: int) -> None:
        self._file, self._maker = file, maker
        self._turns = PerProcess(RLock)
        self._closing = weakref.finalize(self, os.close, file)

    @property
    def next(self) -> int:
        """The epoch that the next pass of this process will give."""
        return self._mine().next

    @property
    def saved(self) -> dict[str, Any] | None:
        """The state from which the next pass will go on."""
        return self._mine().saved

    @property
    def in_workers(self) -> bool:
        """Whether the last pass is one of workers."""
        return self._mine().in_workers

    def set_next(self, epoch: int, saved: dict[str, Any] | None = None) -> None:
        """Have the next pass give this epoch, from a state or from its beginning."""
        with self._locked(os.getpid()) as mine:
            mine.next, mine.saved, mine.in_workers = epoch, saved, False

    def begin(self, key: list[int] | None, worker: Worker, at: int | None = None) -> Pass:
        """Begin a pass in a worker; ``key`` None: in the process of the loader itself. ``at``: its
        epoch, if the worker's own state has that. ValueError if the others' states tell
        another."""
        with self._locked(worker.loader) as mine:
            found = None if key is None else mine.joined(key, worker)
            found = found or mine.begin(key, worker, at)
            found.workers.append(worker.number)
        if at is not None and found.epoch != at:
            raise ValueError(
                f"state= is of epoch {at} in worker {worker.number}, and of epoch {found.epoch} in "
                "others"
            )
        return found

    def refuse(self, found: Pass, *, loader: int | None = None) -> None:
        """Have the next pass meet the state of this one again, which is refused. Idempotent."""
        with self._locked(loader or os.getpid()) as mine:
            if mine.next == found.epoch + 1:
                mine.next, mine.saved = found.epoch, found.saved

    def _mine(self) -> _Loading:
        with self._locked(os.getpid()) as mine:
            return mine

    @contextmanager
    def _locked(self, process: int) -> Iterator[_Loading]:
        """The passes of a process, for a look or a change. A file's lock keeps out processes, and
        no threads of this one. A handler of a signal, which saves a state, may come in between."""
        with self._turns.here:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                kept = self._kept()
                mine = self._of(kept, process)
                yield mine
                kept[str(process)] = asdict(mine)
                os.pwrite(self._file, json.dumps(kept).encode() + b"\n", 0)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _kept(self) -> dict[str, Any]:
        """The contents of the file for each process. It ends with a line, behind which lies what
        was longer before."""
        data = os.pread(self._file, os.fstat(self._file).st_size, 0)
        kept: dict[str, Any] = json.loads(data.partition(b"\n")[0] or b"{}")
        return kept

    def _of(self, kept: dict[str, Any], process: int) -> _Loading:
        """A process that has read nothing begins as the one that started it, or that made the
        dataset."""
        if str(process) in kept:
            return _Loading.parsed(kept[str(process)])
        for gone in [one for one in kept if int(one) != self._maker and not _lives(int(one))]:
            del kept[gone]
        for other in (starter(), self._maker):
            if str(other) in kept:
                return replace(_Loading.parsed(kept[str(other)]), in_workers=False, passes=[])
        return _Loading(0)

    def __reduce__(self) -> tuple[Any, ...]:
        if get_spawning_popen() is None:
            mine = self._mine()
            return Epochs, (mine.next, mine.saved)
        return _shared, (DupFd(self._file), self._maker)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _shared(file: Any, maker: int) -> Epochs:
    epochs = Epochs.__new__(Epochs)
    epochs._open(file.detach(), maker)
    return epochs


def nameless_file(name: str) -> int:
    """A new file that only its descriptor leads to, and those who have that too."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    file, name = tempfile.mkstemp(prefix=name)
    os.unlink(name)
    return file
