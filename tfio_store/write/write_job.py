"""`WriteJob`: one dataset written by many processes, without a process that coordinates them."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from tfio_store.dataset.folder import locate
from tfio_store.dataset.manifest import DatasetManifest, ShardInfo, describe
from tfio_store.records.compression import Compressor
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Access, Retry
from tfio_store.storage.process import Owner
from tfio_store.storage.redaction import redacted
from tfio_store.write.budget import Memory
from tfio_store.write.commit import KEEP_REPLACED, Attempt, IfExists, Plan, begin
from tfio_store.write.record_check import RecordCheck
from tfio_store.write.record_positions import check_record_positions
from tfio_store.write.runs import runs, write_run
from tfio_store.write.uploads import ShardUploads

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["WriteJob"]

_MEMORY_BUDGET = 64 << 20


class WriteJob:
    """Writes one dataset from many processes. The driver commits it.

    The driver makes the job and sends it (pickled) to workers. Each task calls `write_shard` and
    sends the `ShardInfo` back. The driver calls `commit` with all of them.

    Tasks may be retried, and may run twice at the same time. Each attempt writes an object of its
    own (``_train-00007-of-01000.tfrecord.TAG-ATTEMPT``). Only objects whose infos are committed
    count; the others are deleted. Any copy of the job may `commit` or `abort`, and may do so again:
    the first one decides. Leaving the context without `commit` aborts. A copy that was unpickled
    does not, since one task must not end the job for all others.

    Args:
        url (str): Folder and name of the dataset, such as ``s3://bucket/folder/train``.
        num_shards (int): How many shards the dataset has.
        compression (str | None): See `ShardedWriter`. Default None.
        level (int | None): See `ShardedWriter`. Default None.
        if_exists (str): See `ShardedWriter`. Default "error".
        keep_replaced (float): See `ShardedWriter`. Seconds, default 3600.
        shard_template (str): See `ShardedWriter`. Default "".
        schema (Schema | dict | None): See `ShardedWriter`. Default None.
        metadata (dict | None): See `ShardedWriter`. Default None.
        block_bytes (int | None): See `ShardedWriter`. Default None.
        record_positions (bool | None): See `ShardedWriter`. Default None.
        memory_budget (int): Bytes that one `write_shard` may take. Default 64 MiB.
        verify_uploads (bool): See `ShardedWriter`. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        backend (str): See `ShardedWriter`. Default "fsspec".
        retry (Retry | None): See `RecordReader`. Default None.

    Raises:
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        OSError: The storage fails.
        TypeError: An argument is of another type.
        ValueError: An argument is not as described, or the dataset to append to has another schema.

    Example:
        >>> def task(job, shard):
        ...     return job.write_shard(shard, [{"x": shard}, {"x": shard + 10}])
        >>> with tfs.WriteJob("train", num_shards=3) as job:
        ...     infos = [task(job, shard) for shard in range(3)]  # or in many processes
        ...     job.commit(infos).records
        6
    """

    def __init__(
        self,
        url: str,
        *,
        num_shards: int,
        compression: str | None = None,
        level: int | None = None,
        if_exists: IfExists = "error",
        keep_replaced: float = KEEP_REPLACED,
        shard_template: str = "",
        schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        block_bytes: int | None = None,
        record_positions: bool | None = None,
        memory_budget: int = _MEMORY_BUDGET,
        verify_uploads: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        backend: str = "fsspec",
        retry: Retry | None = None,
    ) -> None:
        if not isinstance(num_shards, int) or num_shards < 1:
            raise ValueError(f"num_shards must be a positive integer, not {num_shards!r}")
        self.num_shards = num_shards
        self._compressor = Compressor(compression, level)
        plan = Plan(if_exists, self._compressor.codec, keep_replaced)
        self._described = describe(self._compressor.codec, schema, metadata)
        self._check = RecordCheck(schema)
        self._memory = Memory.plan(memory_budget, 1, block_bytes)
        self._record_positions = check_record_positions(record_positions, self._compressor.codec)
        self._verify = verify_uploads
        access = Access(storage_options, retry, backend)
        folder, names = locate(url, num_shards, shard_template, access)
        kept = self._described.schema
        self._attempt: Attempt = begin(folder, names, plan, schema=kept, plain=False)
        self._shown = redacted(str(url))
        self._is_copy = self._is_committed = False
        self._owner = Owner()

    def __repr__(self) -> str:
        state = "committed" if self._is_committed else "open"
        return f"<WriteJob of {self._shown}, {self.num_shards} shards, {state}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_is_copy": True}

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
            ValueError: There is no such shard.
        """
        if not isinstance(shard, int) or not 0 <= shard < self.num_shards:
            raise ValueError(f"shard must be 0 to {self.num_shards - 1}, not {shard!r}")
        attempt = self._attempt
        uploads = ShardUploads(
            attempt.folder,
            self._compressor,
            self._memory,
            open_shards=1,
            verify=self._verify,
            on_failure=lambda: None,
            claim=attempt.claim,
            record_positions=self._record_positions,
        )
        try:
            stream = uploads.open(attempt.names.attempt(shard, attempt.generation))
            for run in self._check.each(runs(records, self._memory.block_bytes)):
                if write_run(stream.frames, run) >= self._memory.block_bytes:
                    stream.push()
            (info,) = uploads.finish()
            self._check_on()
        except BaseException:
            attempt.folder.delete(shard.name for shard in uploads.abort())
            raise
        uploads.close()
        return info

    def _check_on(self) -> None:
        claim = self._attempt.claim.read()
        if claim is None or claim.state == "aborted":
            raise OSError(
                errno.ECANCELED,
                "the job has ended, and this shard comes too late",
                self._attempt.folder.url(self._attempt.names.name),
            )

    def commit(self, infos: Iterable[ShardInfo]) -> DatasetManifest:
        """Publish the dataset, with the shards in the order of their numbers.

        Every object must be there with its size, and with its CRC32C where the store tells that.
        The listings that serve for many shards seldom do; each upload was checked when it ended. A
        second call, in this process or another, changes nothing, and returns the manifest that the
        first one landed.

        Args:
            infos (Iterable[ShardInfo]): What `write_shard` returned. Of several for the same shard
                the first one counts.

        Returns:
            DatasetManifest: What was committed.

        Raises:
            ValueError: A shard is missing, or an info is not of this job.
            FileExistsError: Another writer was first. The job is aborted then.
            ClaimLostError: The job was aborted, or `clean` took it for dead.
            UncertainCommitError: The store does not say whether the dataset was published.
                Everything is kept. Call `commit` again.
        """
        attempt = self._attempt
        claim = attempt.claim.read()
        manifest = attempt.landed() if claim is None or claim.state != "open" else None
        if manifest is None:
            shards = tuple(self._in_order(infos))
            try:
                manifest = attempt.commit(replace(self._described, shards=shards))
            except FileExistsError:
                self.abort()
                raise
        self._is_committed = True
        attempt.tidy(manifest, sweep=True)
        return manifest

    def _in_order(self, infos: Iterable[ShardInfo]) -> list[ShardInfo]:
        names = self._attempt.names
        numbers = {names.shard(shard, None): shard for shard in range(self.num_shards)}
        found: dict[int, ShardInfo] = {}
        for info in infos:
            number = numbers.get(names.shard_of(info.name))
            if number is None or names.tag_of(info.name) != self._attempt.generation:
                raise ValueError(f"{info.name} is no shard of this job")
            found.setdefault(number, info)
        missing = [shard for shard in range(self.num_shards) if shard not in found]
        if missing:
            raise ValueError(f"infos lack {len(missing)} shards: {missing[:20]}")
        return [found[shard] for shard in range(self.num_shards)]

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
            self._attempt.abandon(shared=True)

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
