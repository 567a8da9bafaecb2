"""`TaskWriter`: what one task of a job writes, as many shards as it takes."""

from __future__ import annotations

import errno
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.names import RollOver, new_attempt
from tfio_store.records.compression import Compressor
from tfio_store.records.framing import RecordBatch
from tfio_store.write.commit import Attempt
from tfio_store.write.lifecycle import ShardWriter
from tfio_store.write.pipeline import Memory
from tfio_store.write.placement import RollingShards
from tfio_store.write.progress import Tally
from tfio_store.write.record_check import RecordCheck
from tfio_store.write.runs import runs, write_run
from tfio_store.write.shard_stream import ShardUploads
from tfio_store.write.task_result import Order, TaskResult

if TYPE_CHECKING:
    from tfio_store.dataset.manifest import Fingerprint, ShardInfo
    from tfio_store.write.shard_stream import ShardStream

__all__ = ["OPEN_SHARDS", "Task", "TaskWriter"]

OPEN_SHARDS = 2
"""Shards that a task has under way: one that fills, and one that ends."""


@dataclass(frozen=True)
class Task:
    """The settings that all tasks of a job share. They pickle with the job."""

    attempt: Attempt
    compressor: Compressor
    memory: Memory
    check: RecordCheck
    verify: bool
    record_positions: bool | None

    def uploads(
        self, open_shards: int, on_failure: Callable[[], Callable[[BaseException], None] | None]
    ) -> ShardUploads:
        """Shards on their way to the job's folder."""
        return ShardUploads(
            self.attempt.folder,
            self.compressor,
            self.memory,
            open_shards=open_shards,
            verify=self.verify,
            on_failure=on_failure,
            claim=self.attempt.claim,
            record_positions=self.record_positions,
        )

    def check_open(self) -> None:
        """OSError if the job has ended, or its commit has begun. Whoever ends after that is not
        counted, and what it wrote may never be removed."""
        claim = self.attempt.claim.look()
        if claim is None or claim.state != "open":
            raise OSError(
                errno.ECANCELED,
                "the job has ended, and this task comes too late",
                self.attempt.folder.url(self.attempt.names.name),
            )

    def write_one(
        self,
        name: str,
        records: Iterable[BytesLike | Mapping[str, Any]] | RecordBatch,
        check: Callable[[], None],
    ) -> ShardInfo:
        """Write one shard whole. ``check``: called when the shard is there. Where it raises, the
        shard goes."""
        uploads = self.uploads(1, lambda: None)
        try:
            stream = uploads.open(name)
            record_check = self.check.fresh()
            for run in record_check.each(runs(records, self.memory.block_bytes)):
                if write_run(stream.frames, run) >= self.memory.block_bytes:
                    stream.push()
            (info,) = uploads.finish()
            check()
        except BaseException:
            self.remove(uploads.abort())
            raise
        uploads.close()
        return replace(info, learned=record_check.learned)

    def remove(self, shards: Iterable[Fingerprint]) -> None:
        """Delete what a task has written."""
        self.attempt.folder.delete(shard.name for shard in shards)


class TaskWriter(ShardWriter):
    """Writes what one task of a `WriteJob` has. `WriteJob.open` makes it.

    Its records go to one shard, or to several of about ``max_shard_bytes``, or to none if there are
    no records. None of them is part of a dataset before the driver commits the result. Leaving the
    context normally closes it, and leaves the result in `result`. Leaving it by an exception
    removes what it wrote. Use it in one thread at a time, and in the process that opened it.

    Args:
        task (Task): What the job says of all its tasks.
        order (int | str | tuple[int, ...] | None): See `WriteJob.open`.
        max_shard_bytes (int): See `WriteJob.open`.

    Example:
        >>> job = tfs.WriteJob("train")
        >>> with job.open(order=0) as writer:
        ...     writer.write({"x": 1})
        ...     writer.write_batch([{"x": 2}, {"x": 3}])
        >>> writer.result.num_records
        3
    """

    _shards: RollingShards

    def __init__(self, task: Task, order: Order, max_shard_bytes: int) -> None:
        self._task: Task | None = None
        self._order = order
        self._result: TaskResult | None = None
        check_positive("max_shard_bytes", max_shard_bytes)
        limits = RollOver(max_shard_bytes)
        attempt = task.attempt
        task.check_open()
        self._job, self._token = attempt.generation, new_attempt()
        self._shown = attempt.folder.url(attempt.names.name)
        self._check = task.check.fresh()
        self._block_bytes = task.memory.block_bytes
        self._uploads = uploads = task.uploads(OPEN_SHARDS, weakref.WeakMethod(self._stop))
        opened = partial(_open_shard, uploads, task, self._token)
        self._tally = Tally(None)
        self._shards = RollingShards(opened, uploads.land, limits, self._block_bytes, self._tally)
        self._task = task

    def write(self, record: BytesLike | Mapping[str, Any]) -> None:
        """Add one record.

        Args:
            record (bytes-like | dict): As `ShardedWriter.write` takes it.

        Raises:
            OSError: Writing has failed.
            SchemaError: A mapping is not as the schema says.
            TypeError: It is neither.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        self._shards.write(self._check.one(record), None)

    @property
    def result(self) -> TaskResult:
        """The result that `close` returned (TaskResult). ValueError before that."""
        if self._result is None:
            raise ValueError("the task has no result; close() its writer first")
        return self._result

    def close(self) -> TaskResult:
        """End the task: write the rest of its shards. A second call returns the same again.

        Returns:
            TaskResult: What the driver gives to `WriteJob.commit`.

        Raises:
            OSError: The store fails, or the job has ended, or its commit has begun. Nothing of this
                task is left then.

        Example:
            >>> job = tfs.WriteJob("train")
            >>> writer = job.open()
            >>> writer.close()
            <TaskResult of 0 records in 0 shards, 0 bytes>
        """
        if self._ended:
            if self._result is None:
                self._end(self._failure)  # another thread has failed
                self._refuse()
            return self._result
        assert self._task is not None
        self._uploads.owner.check("the writer")
        try:
            shards = () if self._shards.is_empty else tuple(self._uploads.finish())
            self._task.check_open()
        except BaseException as error:
            self._end(error)
            raise
        learned = self._check.learned
        self._result = TaskResult(self._job, self._token, self._order, shards, learned)
        self._set_ended(None)
        self._uploads.close()
        return self._result

    def abort(self) -> None:
        """Give up, and remove what was written. After `close` it does nothing.

        Example:
            >>> writer = tfs.WriteJob("train").open()
            >>> writer.write(b"one")
            >>> writer.abort()
        """
        if self._result is None:
            self._end(None)

    def _end(self, failure: BaseException | None) -> None:
        """Stop once, and remove what was written."""
        self._set_ended(self._failure or failure)
        task, self._task = self._task, None
        if task is not None and self._uploads.owner.is_here:
            _drop(task, self._uploads)

    def __del__(self) -> None:
        task, uploads = getattr(self, "_task", None), getattr(self, "_uploads", None)
        if task is None or uploads is None or getattr(self, "_result", None) is not None:
            return
        if uploads.owner.is_here:
            warnings.warn(
                "a TaskWriter was dropped without close(): it has no result", stacklevel=2
            )
            uploads.owner.later(partial(_drop, task, uploads))


def _open_shard(uploads: ShardUploads, task: Task, token: str, shard: int) -> ShardStream:
    attempt = task.attempt
    if shard:  # after a few minutes of work: is anybody still waiting for it?
        try:
            task.check_open()
        except OSError as error:
            uploads.fail(error)
            raise
    return uploads.open(attempt.names.attempt(shard, attempt.generation, token))


def _drop(task: Task, uploads: ShardUploads) -> None:
    try:
        task.remove(uploads.abort())
    except Exception as error:  # what stopped the task matters more
        warnings.warn(
            f"what this task wrote could not be removed ({error}); the job's commit or abort will",
            stacklevel=2,
        )
