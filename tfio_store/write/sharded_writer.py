"""`ShardedWriter`: a dataset of many shards, written whole or not at all."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.folder import locate
from tfio_store.dataset.manifest import DatasetManifest, Loss, describe
from tfio_store.dataset.model import MEMORY_BUDGET
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES, RollOver
from tfio_store.dataset.source_names import numbered_target
from tfio_store.example.schema import Schema
from tfio_store.records.compression import Compressor
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.write.appended import lists_of_numbers, schema_as_learned, values_of
from tfio_store.write.commit import KEEP_REPLACED, Attempt, IfExists, Plan
from tfio_store.write.lifecycle import ShardWriter, begin
from tfio_store.write.pipeline import Memory
from tfio_store.write.placement import FixedShards, RollingShards, ShardFor, ShuffledShards
from tfio_store.write.progress import OnProgress, Tally
from tfio_store.write.records import RecordCheck
from tfio_store.write.shard_stream import ShardStream, check_record_positions
from tfio_store.write.shard_uploads import ShardUploads

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder


ROLLING_OPEN = 3
"""Shards that roll over are written one at a time, while earlier ones still upload."""


class ShardedWriter(ShardWriter):
    """Writes records into shards, and publishes all of them at once when it is closed.

    Leaving the context normally commits. Leaving it by an exception leaves no object behind. A
    writer that is dropped without `close` never publishes. Use it in one thread at a time: if two
    write at a time, an error says so, and nothing is committed. In a forked child it refuses to be
    used, and leaving the context there changes nothing.

    Give either ``num_shards``, or ``max_shard_bytes`` and/or ``max_shard_records``. Without any of
    them a shard takes 256 MiB.

    Args:
        url (str | PathLike): Folder and name of the dataset, such as ``s3://bucket/folder/train``.
            ``train@16`` is ``train`` with ``num_shards=16``.
        num_shards (int | None): Records go round this many shards in turn, unless ``shard_for`` or
            a key decides. Readers go shard by shard, so they find the records in another order: of
            100 records in 4 shards, number 28 is ``source[7]``. Default None.
        max_shard_bytes (int | None): A record that would carry the shard over this many bytes
            begins another shard. Framing counts; the bytes are those before compression. Default
            None.
        max_shard_records (int | None): The same for a number of records. Default None.
        compression (str | None): "GZIP", "ZLIB", "ZSTD" (which TensorFlow cannot read) or None
            (default).
        level (int | None): 0 to 9, default 6; for ZSTD 1 to 22, default 3.
        if_exists (str): "error" (default), "overwrite" (readers keep the old dataset until the new
            one is there; a glob such as ``train-*`` finds the new one when `close` returns) or
            "append" (with the same compression; several writers may append at once). What is
            appended may bring features, which older records lack, and lack some. A feature that
            both have keeps its dtype and its shape.
        keep_replaced (float): Seconds for which replaced objects stay, so that readers who have
            opened them reach the end. A later commit or `clean` removes them. 0 removes them at
            once. Default 3600.
        shard_for (Callable | None): Called with each record; returns the number of its shard.
            Default None.
        shuffle_seed (int | None): Puts all records into a random order; the same seed gives the
            same order. Records wait in a temporary local file, and `close` takes memory for one
            uncompressed shard. Default None.
        shard_template (str): File names, with ``{name}``, ``{shard}`` and ``{num_shards}``. Default
            "": like ``train-00000-of-00004.tfrecord``.
        schema (Schema | dict | None): Kept in the manifest. Records that are mappings are held
            to it: arrays keep dtype and shape, or are errors. Records that are bytes are not.
            Default None: what all records show, if all are mappings. A feature then holds one kind
            of values, and an append may widen what was there. Text comes back as bytes then, and
            bools as 0 and 1, since an Example has neither.
        metadata (dict | None): What JSON can hold. Kept in the manifest. Default None.
        block_bytes (int | None): Bytes of records in a block, before compression: 4 KiB to 64 MiB.
            One record of a compressed shard costs its block, so random access wants small ones.
            Default None: 1 MiB, or less if many shards share the memory budget.
        record_positions (bool | None): Keep in the index where each record begins, 4 bytes for
            each, so that `RecordSource` reads the bytes of one record alone. Raw shards only.
            Default None: in raw shards whose records have 1 KiB or more on average, from the first
            block on.
        memory_budget (int): Bytes that blocks on their way to the store may take. `write` waits
            while they are used up. Default 256 MiB.
        verify_uploads (bool): Read each shard back before the commit, if the store does not report
            its CRC32C. Default False.
        on_progress (Callable | None): Called with a `Progress` when a block is full or a shard has
            landed, in the caller's thread. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Raises:
        FileExistsError: There is a dataset, and ``if_exists`` is "error"; or, at `close`, another
            writer was first.
        IsADirectoryError: ``url`` is a folder that readers take for the dataset in it.
        OSError: The store fails. The next call raises the first failure, and nothing is published.
        TypeError: An argument is of another type.
        ValueError: An argument is not as described, a feature of the dataset to append to is of
            another kind, or the writer is closed.
        SchemaError: A mapping is not as ``schema`` says.

    Example:
        >>> with tfs.ShardedWriter("folder/train", num_shards=2, compression="GZIP") as writer:
        ...     writer.write({"x": 1})
        ...     writer.write({"x": 2}, key=b"user 7")
        ...     writer.write_batch([{"x": 3}, {"x": 4}])
        >>> writer.manifest.records, [shard.name for shard in writer.manifest.shards]
        (4, ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord'])
    """

    _loss = "nothing was committed"

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        num_shards: int | None = None,
        max_shard_bytes: int | None = None,
        max_shard_records: int | None = None,
        compression: str | None = None,
        level: int | None = None,
        if_exists: IfExists = "error",
        keep_replaced: float = KEEP_REPLACED,
        shard_for: ShardFor | None = None,
        shuffle_seed: int | None = None,
        shard_template: str = "",
        schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        block_bytes: int | None = None,
        record_positions: bool | None = None,
        memory_budget: int = MEMORY_BUDGET,
        verify_uploads: bool = False,
        on_progress: OnProgress | None = None,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._shown = redacted(str(url))
        url, num_shards, shard_template = numbered_target(url, num_shards, shard_template)
        limits = _limits(num_shards, max_shard_bytes, max_shard_records)
        _check_placement(limits, shard_for=shard_for, shuffle_seed=shuffle_seed)
        compressor = Compressor(compression, level)
        record_positions = check_record_positions(record_positions, compressor.codec)
        plan = Plan(if_exists, compressor.codec, keep_replaced)
        self._described = describe(compressor.codec, schema, metadata)
        self._check = RecordCheck(schema, placed=shard_for is not None)
        open_shards = num_shards or ROLLING_OPEN
        memory = Memory.plan(memory_budget, open_shards, block_bytes)
        self._block_bytes = memory.block_bytes
        self._tally = Tally(on_progress)
        self._manifest: DatasetManifest | None = None
        storage = given_storage(storage_options, storage)
        folder, names = locate(url, num_shards, shard_template, storage)
        _check_open_files(folder, num_shards)
        self._attempt = begin(folder, names, plan, schema=self._described.schema)
        uploads: ShardUploads | None = None
        try:
            self._check.appends_to(self._attempt.appends_to)
            self._uploads = uploads = ShardUploads(
                folder,
                compressor,
                memory,
                open_shards=open_shards,
                verify=verify_uploads,
                on_failure=weakref.WeakMethod(self._stop),
                claim=self._attempt.claim,
                record_positions=record_positions,
                lists=lists_of_numbers(self._described.schema or self._attempt.appends_to),
            )
            self._owner = uploads.owner
            self._drop = partial(_abandon, self._attempt, uploads)
            self._shards = self._placement(open_shards, limits, shard_for, shuffle_seed)
        except BaseException:
            self._drop = None
            _abandon(self._attempt, uploads)
            raise

    def _placement(
        self,
        open_shards: int,
        limits: RollOver | None,
        shard_for: ShardFor | None,
        shuffle_seed: int | None,
    ) -> FixedShards | RollingShards | ShuffledShards:
        """Open the first shards, and say which of them a record goes to."""
        open_shard = partial(_open_shard, self._uploads, self._attempt)
        if limits is not None:
            land, block_bytes = self._uploads.land, self._block_bytes
            return RollingShards(open_shard, land, limits, block_bytes, self._tally)
        streams = [open_shard(shard) for shard in range(open_shards)]
        if shuffle_seed is not None:
            return ShuffledShards(streams, shuffle_seed, self._block_bytes, self._tally)
        return FixedShards(streams, shard_for, self._block_bytes, self._tally)

    def write(self, record: BytesLike | Mapping[str, Any], *, key: BytesLike | None = None) -> None:
        """Add one record.

        Args:
            record (bytes-like | dict): A mapping is encoded as a `tf.train.Example`, or as a
                `SequenceExample` if the writer's schema has feature lists.
            key (bytes-like | None): Records of equal keys go to the same shard, by the key's
                CRC32C. Default None.

        Raises:
            OSError: Writing has failed.
            SchemaError: A mapping is not as the schema says.
            TypeError: ``record`` is neither.
            ValueError: The writer is closed.
        """
        if self._ended:
            self._refuse()
        record = self._check.one(record)
        self._shards.write(record, key)

    @property
    def manifest(self) -> DatasetManifest:
        """The manifest that was committed (DatasetManifest). ValueError before `close`."""
        if self._manifest is None:
            raise ValueError("the dataset is not committed; close() the writer first")
        return self._manifest

    def close(self) -> None:
        """Commit: write the rest of the shards, the index, and last of all the manifest.

        A second call does nothing, or raises the failure of the first again.

        Raises:
            FileExistsError: Another writer has committed first.
            OSError: The store fails. Nothing is published then.
            UncertainCommitError: The store does not say whether the dataset is published. Look
                again later, then call `clean`.

        Example:
            >>> writer = tfs.ShardedWriter("train", num_shards=1)
            >>> writer.write(b"one")
            >>> writer.close()
        """
        if self._ended:
            self._end_again()
            return
        try:
            self._manifest = self._attempt.commit(self._finish())
        except BaseException as error:
            self._end(error)
            raise
        self._drop = None
        self._set_ended(None)
        self._uploads.close()
        self._manifest = self._attempt.tidy(self._manifest)

    def _kept(self) -> DatasetManifest | None:
        """The dataset to append to, if there is one."""
        return self._attempt.kept()

    def _keep_schema(self, schema: Schema) -> None:
        """The manifest will hold this one: a table's schema is known when its end is."""
        self._described = replace(self._described, schema=schema.to_json())

    def _count(self, schema: Schema) -> None:
        """Count the values of its lists, before there is a record."""
        self._uploads.count(schema)

    def _keep_loss(self, lost: Loss | None) -> None:
        """The manifest will tell of these records, which the source of the others had."""
        self._described = replace(self._described, lost=lost)

    def _finish(self) -> DatasetManifest:
        """Let the shards land, and describe the dataset."""
        self._shards.finish()
        for stream in self._shards.streams:
            self._tally.count(stream.frames)
        appends = self._attempt.plan.append and self._attempt.base is not None
        if appends and not self._tally.records:
            self._uploads.forget()  # nothing needs an empty shard beside others
        shards = self._uploads.finish(self._tally.landed)
        schema = self._described.schema or schema_as_learned([("", self._check.learned)])
        values = values_of(shards)
        return replace(self._described, shards=tuple(shards), schema=schema, values=values)

    def abort(self) -> None:
        """Give up: drop all shards, and leave nothing behind. After `close` it does nothing.

        Example:
            >>> writer = tfs.ShardedWriter("train", num_shards=1)
            >>> writer.write(b"one")
            >>> writer.abort()
        """
        self._give_up()


def _open_shard(uploads: ShardUploads, attempt: Attempt, shard: int) -> ShardStream:
    return uploads.open(attempt.shard_name(shard))


def _abandon(attempt: Attempt, uploads: ShardUploads | None) -> None:
    """Remove what was written, unless a manifest may yet name it."""
    shards = [] if uploads is None else uploads.abort()
    try:
        attempt.abandon(shards)
    except Exception as error:  # what stopped the writer matters more
        warnings.warn(
            f"what this writer wrote could not be removed ({error}); tfio_store.clean will",
            stacklevel=2,
        )


def _check_open_files(folder: Folder, num_shards: int | None) -> None:
    """A store of files has a file open for each shard, all the time."""
    most: int = getattr(folder.store, "most_outputs", sys.maxsize)
    if num_shards is not None and num_shards > most:
        raise ValueError(
            f"num_shards={num_shards}: this process can have no more than {most} files open beside "
            "those that it has; raise its limit (ulimit -n), pass fewer, or pass max_shard_bytes, "
            "with which a shard is closed before the next one is opened"
        )


def _check_placement(limits: RollOver | None, **options: object) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given and limits is not None:
        raise ValueError(f"{given[0]} needs num_shards; shards that roll over are filled in order")
    if len(given) > 1:
        raise ValueError(f"pass {' or '.join(given)}, not both")


def _limits(
    num_shards: int | None,
    max_shard_bytes: int | None,
    max_shard_records: int | None,
) -> RollOver | None:
    """The limits of shards that roll over; None for a fixed number."""
    if num_shards is None and max_shard_bytes is None and max_shard_records is None:
        max_shard_bytes = DEFAULT_SHARD_BYTES
    rolling = max_shard_bytes is not None or max_shard_records is not None
    if (num_shards is None) != rolling:
        raise ValueError("pass either num_shards, or max_shard_bytes and/or max_shard_records")
    if rolling:
        return RollOver(max_shard_bytes, max_shard_records)
    check_positive("num_shards", num_shards)
    return None
