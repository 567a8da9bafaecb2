"""A task of a job: it writes as many shards as it takes, and its result is small enough for an
engine's messages.
"""

from __future__ import annotations

import base64
import binascii
import errno
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import ShardInfo, decode_table, encode_table
from tfio_store.dataset.checks import check_name, check_positive, counted, held, whole_number
from tfio_store.dataset.container import sections
from tfio_store.dataset.names import RollOver, new_attempt
from tfio_store.example.learned import checked_state
from tfio_store.records.compression import Compressor
from tfio_store.records.framing import RecordBatch
from tfio_store.records.texts import warn
from tfio_store.write.appended import lists_of_numbers
from tfio_store.write.commit import Attempt
from tfio_store.write.lifecycle import ShardWriter
from tfio_store.write.pipeline import Memory
from tfio_store.write.placement import RollingShards
from tfio_store.write.progress import Tally
from tfio_store.write.records import RecordCheck, runs, write_run
from tfio_store.write.shard_uploads import ShardUploads

if TYPE_CHECKING:
    from tfio_store.dataset.manifest import Fingerprint
    from tfio_store.example.schema import Schema
    from tfio_store.write.shard_stream import ShardStream


Order: TypeAlias = "int | str | tuple[int, ...] | None"

_FORMAT = "tfio_store.task"
_VERSION = 1

_SHARD_TABLE_BYTES = 256
"""More than the index has for a shard beside its arrays."""

_BYTES_A_RECORD = 32
"""More than the index has for a block of one record whose place it knows."""


@dataclass(frozen=True, slots=True, repr=False)
class TaskResult:
    """The shards that one task of a `WriteJob` has written. `WriteJob.commit` takes it.

    It pickles, and `to_json` makes what JSON can hold. Both take a few KiB: for each shard its
    name, its totals, and 2 to 16 bytes for each of its blocks.

    Attributes:
        job (str): The job's random tag.
        attempt (str): The attempt's random tag.
        order (int | str | tuple[int, ...] | None): Where its records come in the dataset, as
            `WriteJob.open` was given.
        shards (tuple[ShardInfo, ...]): What it has written, in order. None of them is part of a
            dataset before the commit.
        learned (dict | None): What its mappings show of the columns. Default None.

    Example:
        >>> job = tfs.WriteJob("train")
        >>> result = job.write([b"one", b"two"], order=7)
        >>> result
        <TaskResult of 2 records in 1 shard, 38 bytes, order 7>
        >>> tfs.results.TaskResult.from_json(result.to_json()) == result
        True
    """

    job: str
    attempt: str
    order: Order
    shards: tuple[ShardInfo, ...]
    learned: dict[str, Any] | None = field(default=None, compare=False)

    @property
    def _task(self) -> object:
        """The key of results of the same task: their order, or, without one, the attempt."""
        return self.attempt if self.order is None else ("order", self.order)

    def __repr__(self) -> str:
        order = "" if self.order is None else f", order {self.order!r}"
        inside = held(self.num_records, len(self.shards))
        return f"<TaskResult of {inside}, {counted(self.nbytes, 'byte')}{order}>"

    def __reduce__(self) -> tuple[object, ...]:
        return TaskResult.from_json, (self.to_json(),)

    @property
    def num_records(self) -> int:
        """The number of records in all its shards (int)."""
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """The bytes of all its shards, as they are stored (int)."""
        return sum(shard.nbytes for shard in self.shards)

    def to_json(self) -> dict[str, Any]:
        """Turn the result into what JSON can hold.

        Returns:
            dict: What `from_json` takes.
        """
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "job": self.job,
            "attempt": self.attempt,
            "order": list(self.order) if isinstance(self.order, tuple) else self.order,
            "learned": self.learned,
            "shards": [
                [one.name, one.nbytes, one.records, one.crc32c, one.values] for one in self.shards
            ],
            "tables": _deflated(map(encode_table, self.shards)),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TaskResult:
        """Make the result again from what `to_json` returned.

        Args:
            document (dict): What `to_json` returned, perhaps by way of JSON.

        Returns:
            TaskResult: An equal one.

        Raises:
            ValueError: It is none, or it is damaged.
        """
        try:
            return _parse(document)
        except (KeyError, TypeError, ValueError, OverflowError, binascii.Error, zlib.error) as why:
            raise ValueError(f"this is no TaskResult as to_json() makes it: {why!r}") from why


def _parse(document: dict[str, Any]) -> TaskResult:
    if document["format"] != _FORMAT or document["version"] != _VERSION:
        raise ValueError(f"it has the format {document['format']!r}, {document['version']!r}")
    order = document["order"]
    shards = tuple(_parse_shard(*one) for one in document["shards"])
    tables = sections(_inflated(document["tables"], shards))
    return TaskResult(
        job=str(document["job"]),
        attempt=str(document["attempt"]),
        order=check_order(tuple(order) if isinstance(order, list) else order),
        shards=tuple(
            replace(one, blocks=decode_table(table, one))
            for one, table in zip(shards, tables, strict=True)
        ),
        learned=checked_state(document.get("learned")),
    )


def _parse_shard(
    name: str, nbytes: int, records: int, crc32c: int, values: dict[str, int]
) -> ShardInfo:
    for count in (nbytes, records, crc32c, *values.values()):
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 1 << 63:
            raise ValueError(f"{count!r} is no count")
    return ShardInfo(check_name(name), nbytes, records, crc32c, values=dict(values))


def _deflated(tables: Iterable[bytes]) -> str:
    return base64.b64encode(zlib.compress(b"".join(tables))).decode()


def _inflated(tables: str, shards: tuple[ShardInfo, ...]) -> bytes:
    """No more bytes than tables of so many records can have."""
    most = sum(_SHARD_TABLE_BYTES + _BYTES_A_RECORD * one.records for one in shards)
    stream = zlib.decompressobj()
    data = stream.decompress(base64.b64decode(tables, validate=True), _SHARD_TABLE_BYTES + most)
    if not stream.eof:
        raise ValueError("its block tables are cut short, or larger than they can be")
    return data


def check_order(order: Any) -> Order:
    """The order as a plain value, as it is after a message, too. TypeError unless results can be
    sorted by it."""
    if order is None:
        return None
    if isinstance(order, str):
        return str.__str__(order)  # also of an Enum, and of NumPy's
    try:
        if not isinstance(order, tuple):
            return _number(order)
        if order:
            return tuple(map(_number, order))
    except TypeError:
        pass
    raise TypeError(f"order must be an int, a tuple of ints, or a str, not {order!r}")


def _number(order: Any) -> int:
    number = whole_number(order)
    if number is None:
        raise TypeError("it is no whole number")
    return number


def counted_results(results: Iterable[TaskResult], job: str) -> list[TaskResult]:
    """The results of a job that count, by their ``order``: of several of one order the first.
    Without an order they come as they are given, and of the same result one counts.

    ValueError: a result is of another job. TypeError: something else is no result, or orders are of
    several kinds.
    """
    chosen: dict[object, TaskResult] = {}
    for result in results:
        if not isinstance(result, TaskResult):
            raise TypeError(f"results must be TaskResults, and one is {type(result).__name__}")
        if result.job != job:
            raise ValueError(f"{result!r} is of another job")
        first = chosen.setdefault(result._task, result)
        if first.num_records != result.num_records:
            warn(
                f"two attempts have the order {result.order!r} and are not alike: the first one, "
                f"of {first.num_records} records, counts, and the other one, of "
                f"{result.num_records}, does not; if they are two tasks, give each its own order"
            )
    counted = list(chosen.values())
    kinds = {type(result.order).__name__ for result in counted}
    if len(kinds) > 1:
        raise TypeError(f"results must all have an order of one kind; these have {sorted(kinds)}")
    if kinds != {"NoneType"}:
        counted.sort(key=lambda result: result.order)  # type: ignore[arg-type, return-value]
    return counted


# What one task of a job writes.


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
    schema: dict[str, Any] | None

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
            lists=lists_of_numbers(self.schema),
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
            _remove(self, uploads)
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
    _loss = "it has no result"

    def __init__(self, task: Task, order: Order, max_shard_bytes: int) -> None:
        self._task = task
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
        tally = Tally(None)
        self._shards = RollingShards(opened, uploads.land, limits, self._block_bytes, tally)
        self._owner = uploads.owner
        self._drop = partial(_remove, task, uploads)

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

    def _count(self, schema: Schema) -> None:
        """Count the values of its lists, before there is a record."""
        self._uploads.count(schema)

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
                self._end(None)  # another thread has failed
                self._refuse()
            return self._result
        self._owner.check("the writer")
        try:
            shards = () if self._shards.is_empty else tuple(self._uploads.finish())
            self._task.check_open()
        except BaseException as error:
            self._end(error)
            raise
        learned = self._check.learned
        self._result = TaskResult(self._job, self._token, self._order, shards, learned)
        self._drop = None
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
        self._give_up()


def _open_shard(uploads: ShardUploads, task: Task, token: str, shard: int) -> ShardStream:
    attempt = task.attempt
    if shard:  # after a few minutes of work: is anybody still waiting for it?
        try:
            task.check_open()
        except OSError as error:
            uploads.fail(error)
            raise
    return uploads.open(attempt.names.attempt(shard, attempt.generation, token))


def _remove(task: Task, uploads: ShardUploads) -> None:
    try:
        task.remove(uploads.abort())
    except Exception as error:  # what stopped the task matters more
        warnings.warn(
            f"what this task wrote could not be removed ({error}); the job's commit or abort will",
            stacklevel=2,
        )
