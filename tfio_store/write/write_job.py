"""`WriteJob`: one dataset written by many processes, without a process that coordinates them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from typing_extensions import Buffer as BytesLike, Self

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.folder import locate
from tfio_store.dataset.manifest import DatasetManifest, ShardInfo, describe
from tfio_store.dataset.model import TASK_BUDGET
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES, FIXED_TEMPLATE
from tfio_store.dataset.source_names import numbered_target
from tfio_store.example.schema import Schema
from tfio_store.records.compression import Compressor
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.storage.threads import Owner
from tfio_store.write.appended import not_looked_into, schema_as_learned, values_of
from tfio_store.write.claim import Pulse
from tfio_store.write.commit import KEEP_REPLACED, Attempt, IfExists, Names, Plan
from tfio_store.write.lifecycle import begin
from tfio_store.write.pipeline import Memory
from tfio_store.write.publish import check_free
from tfio_store.write.records import RecordCheck
from tfio_store.write.shard_stream import check_record_positions
from tfio_store.write.task import (
    OPEN_SHARDS,
    Order,
    Task,
    TaskResult,
    TaskWriter,
    check_order,
    counted_results,
)


class WriteJob:
    """Writes one dataset from many processes. The driver commits it.

    The driver makes the job and sends it (pickled) to workers. Each task calls `write`, or `open`
    and then `TaskWriter.write`, and sends its `TaskResult` back. The driver calls `commit` with all
    of them. Nobody needs to know before how many tasks there will be.

    Tasks may be retried, and may run twice at the same time. Each attempt writes objects of its own
    (``_train-00000.tfrecord.TAG-ATTEMPT``). Only objects whose results are committed count; the
    others are deleted. A task that ends after the commit has begun raises, and deletes what it
    wrote. Any copy of the job may `commit` or `abort`, and may do so again: the first one decides.
    Leaving the context without `commit` aborts. A copy that was unpickled does not, since one task
    must not end the job for all others.

    With ``num_shards`` each task writes one whole shard of that number by `write_shard`.

    Args:
        url (str | PathLike): Folder and name of the dataset, such as ``s3://bucket/folder/train``.
        num_shards (int | None): How many shards the dataset has, if tasks write by `write_shard`.
            Default None: as many as its tasks write.
        compression (str | None): See `ShardedWriter`. Default None.
        level (int | None): See `ShardedWriter`. Default None.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        shard_template (str): See `ShardedWriter`. Without ``num_shards`` it may have
            ``{num_shards}`` only with plain names. Default "".
        names (str): "tagged" (default): shards keep the names that tasks gave them, which no glob
            such as ``train-*`` finds, unless it finds those that they replace or are appended to.
            "plain": behind the commit the store copies them to names like
            ``train-00000-of-00016.tfrecord``, for readers that glob. A copy replaces no object. All
            but the first generation have a random tag in their names.
        schema (Schema | dict | None): See `ShardedWriter`. Default None.
        metadata (dict | None): See `ShardedWriter`. Default None.
        block_bytes (int | None): See `ShardedWriter`. Default None.
        record_positions (bool | None): See `ShardedWriter`. Default None: as there with
            ``num_shards``; without it False, since a task's result would hold 4 bytes for each
            record, and the driver those of all tasks.
        memory_budget (int): Bytes that one task may take. Default 64 MiB.
        verify_uploads (bool): See `ShardedWriter`. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        IsADirectoryError: ``url`` is a folder that readers take for the dataset in it.
        OSError: The storage fails.
        TypeError: An argument is of another type.
        ValueError: An argument is not as described, or a feature of the dataset to append to is of
            another kind.

    Example:
        >>> def task(job, number):
        ...     return job.write([{"x": number}, {"x": number + 10}], order=number)
        >>> with tfs.WriteJob("train") as job:
        ...     results = [task(job, number) for number in range(3)]  # or in many processes
        ...     job.commit(results).records
        6
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        num_shards: int | None = None,
        compression: str | None = None,
        level: int | None = None,
        if_exists: IfExists = "error",
        keep_replaced: float = KEEP_REPLACED,
        shard_template: str = "",
        names: Names = "tagged",
        schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        block_bytes: int | None = None,
        record_positions: bool | None = None,
        memory_budget: int = TASK_BUDGET,
        verify_uploads: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._shown = redacted(str(url))
        url, num_shards, shard_template = numbered_target(url, num_shards, shard_template)
        if num_shards is not None:
            check_positive("num_shards", num_shards, also=" or None")
        self.num_shards = num_shards
        compressor = Compressor(compression, level)
        plan = Plan(if_exists, compressor.codec, keep_replaced, _check_names(names) == "plain")
        self._described = describe(compressor.codec, schema, metadata)
        check = RecordCheck(schema)
        open_shards = OPEN_SHARDS if num_shards is None else 1
        memory = Memory.plan(memory_budget, open_shards, block_bytes)
        if record_positions is None and num_shards is None:
            record_positions = False
        record_positions = check_record_positions(record_positions, compressor.codec)
        storage = given_storage(storage_options, storage)
        private = "" if plan.globbed and num_shards is None else shard_template
        folder, own = locate(url, num_shards, private, storage)
        self._template = own.like(shard_template or FIXED_TEMPLATE).template if plan.globbed else ""
        if plan.globbed and num_shards is not None and not plan.append:
            check_free(folder, own)
        kept = self._described.schema
        self._attempt: Attempt = begin(folder, own, plan, schema=kept, plain=False)
        check.appends_to(self._attempt.appends_to)
        self._task = Task(
            self._attempt,
            compressor,
            memory,
            check,
            verify_uploads,
            record_positions,
            kept or self._attempt.appends_to,
        )
        self._pulse: Pulse | None = Pulse(self._attempt.claim.beat)
        self._is_copy = self._is_committed = False
        self._owner = Owner()

    def __repr__(self) -> str:
        state = "committed" if self._is_committed else "open"
        shards = "" if self.num_shards is None else f", {self.num_shards} shards"
        return f"<WriteJob of {self._shown}{shards}, {state}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_is_copy": True, "_pulse": None}

    def open(
        self, order: Order = None, *, max_shard_bytes: int = DEFAULT_SHARD_BYTES
    ) -> TaskWriter:
        """Begin one attempt at a task, in any process, any number of times.

        Args:
            order (int | str | tuple[int, ...] | None): Where the task's records come in the
                dataset: the commit sorts by it. All attempts at one task have the same, and one of
                them counts. All tasks of a job have one of the same kind. Default None: results
                count as often as there are attempts, in the order in which `commit` gets them.
            max_shard_bytes (int): A record that would carry the shard over this many bytes begins
                another shard. Framing counts; the bytes are those before compression. Default 256
                MiB.

        Returns:
            TaskWriter: Takes the records. Its `TaskWriter.close` returns what `commit` takes.

        Raises:
            TypeError: ``order`` is of another kind.
            ValueError: The job was made with ``num_shards``, or ``max_shard_bytes`` is not
                positive.

        Example:
            >>> job = tfs.WriteJob("train")
            >>> with job.open(order=0) as writer:
            ...     writer.write(b"one")
            >>> job.commit([writer.result]).records
            1
        """
        if self.num_shards is not None:
            raise ValueError(
                "a job with num_shards is written by write_shard(); make it without num_shards for "
                "open() and write()"
            )
        return TaskWriter(self._task, check_order(order), max_shard_bytes)

    def write(
        self,
        records: Iterable[BytesLike | Mapping[str, Any]] | RecordBatch,
        order: Order = None,
        *,
        max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    ) -> TaskResult:
        """Write all records of one task. If it fails, nothing is left.

        Args:
            records (Iterable | RecordBatch): Bytes, or mappings, which are encoded as Examples.
            order (int | str | tuple[int, ...] | None): See `open`. Default None.
            max_shard_bytes (int): See `open`. Default 256 MiB.

        Returns:
            TaskResult: What `commit` takes.

        Raises:
            OSError: The store fails, or the job was committed or aborted in the meantime.
            SchemaError: A mapping is not as the schema says.
            TypeError: A record, or ``order``, is of another type.
            ValueError: As `open` says.

        Example:
            >>> job = tfs.WriteJob("train")
            >>> late, early = job.write([b"c"], order=2), job.write([b"a", b"b"], order=1)
            >>> _ = job.commit([late, early])
            >>> list(tfs.RecordReader("train"))
            [b'a', b'b', b'c']
        """
        with self.open(order, max_shard_bytes=max_shard_bytes) as writer:
            writer.write_batch(records)
        return writer.result

    def write_shard(
        self, shard: int, records: Iterable[BytesLike | Mapping[str, Any]] | RecordBatch
    ) -> ShardInfo:
        """Write one shard whole, in any process, any number of times. If it fails, nothing is left.

        Args:
            shard (int): Its number, from 0 to ``num_shards - 1``.
            records (Iterable | RecordBatch): Bytes, or mappings, which are encoded as Examples.

        Returns:
            ShardInfo: What `commit` takes.

        Raises:
            OSError: The store fails, or the job was committed or aborted in the meantime.
            SchemaError: A mapping is not as the schema says.
            TypeError: A record is of another type.
            ValueError: There is no such shard, or the job was made without ``num_shards``.
        """
        if self.num_shards is None:
            raise ValueError("write_shard() needs a job with num_shards; use write() or open()")
        if not isinstance(shard, int) or not 0 <= shard < self.num_shards:
            raise ValueError(f"shard must be 0 to {self.num_shards - 1}, not {shard!r}")
        self._task.check_open()
        name = self._attempt.names.attempt(shard, self._attempt.generation)
        return self._task.write_one(name, records, self._task.check_open)

    def commit(
        self,
        results: Iterable[TaskResult] | Iterable[ShardInfo],
        *,
        names: Names | None = None,
    ) -> DatasetManifest:
        """Publish the dataset, with the tasks' shards by their ``order``.

        Of several results of one ``order`` the first one counts. What else tasks wrote is deleted.
        A job without results, or without records in them, makes an empty dataset, of one empty
        shard; and an append of no records adds no shard.

        Every object must be there with its size, and with its CRC32C where the store has that.
        The listings that serve for many shards seldom do; each upload was checked when it ended. A
        second call, in this process or another, changes nothing, and returns the manifest that the
        first one landed.

        Args:
            results (Iterable): What `write` or `TaskWriter.close` returned, or `write_shard`. Of
                several for the same shard, too, the first one counts.
            names (str | None): "tagged" leaves the copies of a job with plain names out, if it is
                the first here. Default None: as the job was made.

        Returns:
            DatasetManifest: What was committed.

        Raises:
            TypeError: A result is something else, or has an ``order`` of another kind than the
                rest.
            ValueError: A shard is missing, or a result is of another job.
            FileExistsError: Another writer was first. The job is aborted then.
            ClaimLostError: The job was aborted, or `clean` took it for dead.
            UncertainCommitError: The store does not say whether the dataset was published.
                Everything is kept. Call `commit` again.
        """
        attempt, template = self._attempt, self._template
        globbed = None if names is None else self._is_globbed(names)
        claim = attempt.claim.read()
        manifest = attempt.landed() if claim is None or claim.state != "open" else None
        if manifest is None:
            shards, learned = self._written(results)
            try:
                schema = self._described.schema or schema_as_learned(learned)
                values = values_of(shards)
                described = replace(self._described, shards=shards, schema=schema, values=values)
                manifest = attempt.commit(described, template=template, globbed=globbed)
            except FileExistsError:
                self.abort()
                raise
        self._is_committed = True
        self._stop_pulse()
        return attempt.tidy(manifest, sweep=True)

    def _kept(self) -> DatasetManifest | None:
        """The dataset to append to, if there is one."""
        return self._attempt.kept()

    def _has_landed(self) -> bool:
        return self._attempt.landed() is not None

    def _keep_schema(self, schema: Schema) -> None:
        """The manifest will hold this one: the schema of tables is known when all are written."""
        self._described = replace(self._described, schema=schema.to_json())

    def _is_globbed(self, names: Names) -> bool:
        if _check_names(names) == "plain" and not self._template:
            raise ValueError('make the job with names="plain" to commit it with plain names')
        return names == "plain"

    def _written(
        self, results: Iterable[Any]
    ) -> tuple[tuple[ShardInfo, ...], list[tuple[str, dict[str, Any] | None]]]:
        """The shards that count, in order, and what each task has learned of its mappings."""
        if not isinstance(results, Iterable):
            given = type(results).__name__
            raise TypeError(f"results must be an iterable of what tasks returned, not one {given}")
        if self.num_shards is not None:
            found = self._by_number(results, self.num_shards)
            learned = [
                (f"shard {number}", info.learned or not_looked_into(info.records))
                for number, info in enumerate(found)
            ]
            return tuple(replace(info, learned=None) for info in found), learned
        counted = counted_results(results, self._attempt.generation)
        shards = tuple(shard for result in counted for shard in self._written_by(result))
        if not shards and self._attempt.kept() is None:
            name = self._attempt.names.attempt(0, self._attempt.generation)
            shards = (self._task.write_one(name, [], self._attempt.claim.check),)
        return shards, [(_task_name(result), result.learned) for result in counted]

    def _written_by(self, result: TaskResult) -> Iterable[ShardInfo]:
        """Its shards. A result may come by a message, and must not name what others wrote."""
        names = self._attempt.names
        for number, shard in enumerate(result.shards):
            if shard.name != names.attempt(number, result.job, result.attempt):
                raise ValueError(f"{shard.name} is not what the task of {result!r} wrote")
            yield shard

    def _by_number(self, infos: Iterable[Any], num_shards: int) -> list[ShardInfo]:
        names = self._attempt.names
        numbers = {names.shard(shard, None): shard for shard in range(num_shards)}
        found: dict[int, ShardInfo] = {}
        for info in infos:
            if not isinstance(info, ShardInfo):
                raise TypeError(f"write_shard() gives ShardInfos, and one is {type(info).__name__}")
            number = numbers.get(names.shard_of(info.name))
            if number is None or names.tag_of(info.name) != self._attempt.generation:
                raise ValueError(f"{info.name} is no shard of this job")
            found.setdefault(number, info)
        missing = [shard for shard in range(num_shards) if shard not in found]
        if missing:
            raise ValueError(f"infos lack {len(missing)} shards: {missing[:20]}")
        return [found[shard] for shard in range(num_shards)]

    def abort(self) -> None:
        """Remove what this job's tasks have written. Tasks that still run will fail.

        It does nothing once the job was committed, here or by another copy, nor while another copy
        commits: it deletes nothing that is part of a dataset, or may yet be.

        Example:
            >>> job = tfs.WriteJob("train", num_shards=2)
            >>> _ = job.write_shard(0, [b"record"])
            >>> job.abort()
        """
        if not self._is_committed:
            self._stop_pulse()
            self._attempt.abandon(shared=True)

    def _stop_pulse(self) -> None:
        """From here on the job's life does not depend on this process."""
        if self._pulse is not None:
            self._pulse.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # neither a task nor a forked child ends the job for all others
        if not self._is_copy and self._owner.is_here:
            self.abort()


def _task_name(result: TaskResult) -> str:
    order = result.order
    return f"attempt {result.attempt}" if order is None else f"task {order}"


def _check_names(names: Names) -> Names:
    if names not in ("tagged", "plain"):
        raise ValueError(f'names must be "tagged" or "plain", not {names!r}')
    return names
