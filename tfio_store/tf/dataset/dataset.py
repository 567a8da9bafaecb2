"""`TFRecordDataset`: TensorFlow's own, on any storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tfio_store.dataset.model import MEMORY_BUDGET, Limits
from tfio_store.dataset.source import open_dataset
from tfio_store.example.schema import Schema
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import infer_schema
from tfio_store.tf.dataset.features import (
    SequenceSpec,
    cut_rows,
    has_rows,
    schema_or_spec,
    spec_of,
    with_raw_features,
)
from tfio_store.tf.dataset.listed import ListedNames, Reading, note, turns_of
from tfio_store.tf.dataset.options import (
    Options,
    Settings,
    check_buffer_size,
    check_compression,
    to_json,
)
from tfio_store.tf.dataset.plan import Plan, PlannedDataset
from tfio_store.tf.dataset.source import ListedFiles, Source, known_names, workers
from tfio_store.tf.dataset.stages import map_in_place


class TFRecordDataset(PlannedDataset):
    """The records of TFRecord files, as `tf.data.TFRecordDataset` gives them, from any storage.

    Elements are tf.string scalars; with ``batch_size`` tf.string vectors [batch_size]; with
    ``schema`` dicts of tensors. `tf.train.Checkpoint` saves iterators.

    Args:
        filenames (str | PathLike | list | tf.Tensor | tf.data.Dataset): Names as TensorFlow takes
            them (a string, a path, lists of these, a string tensor, a dataset of strings), each a
            path or URL; also a glob, a dataset's prefix or folder with a manifest, a `slice`, or a
            `Partition`.
        compression_type (str | tf.Tensor | None): "" (raw), "GZIP", "ZLIB" or "ZSTD". Default None:
            each file's first bytes, or the manifest, decide.
        buffer_size (int | None): Checked as TensorFlow does, and not used: blocks and
            ``memory_budget`` decide. Default None.
        num_parallel_reads (int | None): Files to read at once; their records come in turns, as in
            TensorFlow. Default None.
        name (str | None): Accepted for compatibility. Default None.
        storage_options (dict | None): See `RecordReader`. They become part of the dataset's graph,
            so JSON must be able to hold them. Keep secrets in the environment if graphs are sent or
            kept. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        split (str | None): The split of a folder that TensorFlow Datasets wrote (``FOLDER/train``
            is the same as FOLDER and "train"), or the name of a dataset in a folder of several.
            Default None.
        batch_size (int | None): Gives batches, faster than ``.batch`` does. Default None.
        drop_remainder (bool): Leave out a last batch that is not full. What is damaged in the
            records left out may go unnoticed. Default False.
        shuffle (bool | int | str): True shuffles the blocks, and the records among 16 neighbouring
            blocks of the new order. Another window is a number of blocks, or a text:
            ``"10000 records"``, ``"64 MiB"`` (B, KiB, MiB or GiB, before compression). No window
            is less than one block. With ``batch_size`` a window has the same blocks in each epoch,
            and the windows come in other orders. Foreign compressed files are shuffled by file,
            and among 10,000 records or as many as are asked for. Default False.
        seed (int | None): Of the shuffle. The same seed gives the same orders. Default None.
        reshuffle_each_iteration (bool): Another order in each epoch. Default True.
        shard (tuple[int, int] | None): (number of shards, index), as of `Dataset.shard`, but by
            whole blocks: other blocks are not even read. By files if the blocks are not known.
            Default None.
        deterministic (bool | None): False gives records in whatever order they arrive. Default
            None.
        verify (bool): See `RecordReader`. Default True.
        on_corrupt (str): "raise" (default), or "skip", which loses only the damaged bytes.
        memory_budget (int): Bytes that may be in flight or wait to be decoded. Also the bytes of
            remote files without an index that may be read to find their blocks. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        schema (Schema | dict | str | None): A feature spec of `tf.io.parse_example`. Or a `Schema`,
            or a dict that stands for one, such as ``{"x": "int64"}``: then raw features come in
            their dtype and shape (datetimes as int64), and feature lists of SequenceExamples as
            ragged tensors. "auto" is what the manifest says, or `infer_schema` finds. Default None,
            or "bytes": records stay strings.

    Raises:
        TypeError: An argument is of another type.
        ValueError: An argument is not as described.
        ManifestError: A manifest or index cannot be trusted.
        TruncatedRecordError: A shard that must be read as a stream is shorter than its manifest
            tells.
        tf.errors.NotFoundError: While iterating: there is no such file.
        tf.errors.PermissionDeniedError: While iterating: the storage refuses.
        tf.errors.DataLossError: While iterating: bytes are damaged. The text has the path, and the
            offset in the uncompressed stream.
        tf.errors.ResourceExhaustedError: While iterating: a record is over ``max_record_bytes``.
        tf.errors.FailedPreconditionError: While iterating: a file was replaced since the dataset
            was made, if it is read by blocks, or since reading it began.
        tf.errors.InternalError: While iterating: the store cannot be reached. (The ops answer
            `UnavailableError`; TensorFlow's executor turns it into this one, and says so.)

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> schema = tfs.infer_schema("train")
        >>> for batch in tfs.TFRecordDataset("train", batch_size=2, schema=schema):
        ...     print(batch["x"].numpy())
        [1 2]
        [3]
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        split: str | None = None,
        batch_size: int | None = None,
        drop_remainder: bool = False,
        shuffle: bool | int | str = False,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
        shard: tuple[int, int] | None = None,
        deterministic: bool | None = None,
        verify: bool = True,
        on_corrupt: str = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        schema: Any = None,
    ) -> None:
        if on_corrupt not in ("raise", "skip"):
            raise ValueError(f'on_corrupt= takes "raise" or "skip", not {on_corrupt!r}')
        storage = given_storage(storage_options, storage)
        codec = check_compression(compression_type)
        if split is not None:
            filenames = _split_of(filenames, split)
        if isinstance(schema, str):
            limits = Limits(memory_budget, max_record_bytes)
            filenames, schema = _named_schema(schema, filenames, codec, storage, limits)
        schema = schema_or_spec(schema)
        options = Options(
            Settings(
                to_json(storage or Storage()),
                verify=verify,
                skip_corrupt=on_corrupt == "skip",
                max_record_bytes=max_record_bytes,
            ),
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            shuffle=False if shuffle is None else shuffle,
            seed=seed,
            reshuffle_each_iteration=reshuffle_each_iteration,
            shard=shard,
            deterministic=deterministic,
            memory_budget=memory_budget,
            feature_spec=spec_of(schema),
            parallel_reads=num_parallel_reads,
        )
        check_buffer_size(buffer_size)
        source = Source.open(filenames, codec, storage, options)
        prepared = source.prepare()
        decode = partial(_decoded, schema=schema, options=options)
        self._decode = decode
        self._opened_as = filenames, codec, storage, options

        def build() -> tf.data.Dataset:
            found, self._count, self._reshard = prepared()
            return decode(found)

        plain = options.feature_spec is None and not options.wants_blocks and workers() <= 1
        spec = tf.TensorSpec([], tf.string) if plain else None
        files: Source | ListedFiles = source
        if plain and isinstance(filenames, ListedNames) and isinstance(codec, str):
            reads = 1 if num_parallel_reads is None else num_parallel_reads
            turns = turns_of(filenames.in_order, reads)
            files = ListedFiles(filenames.names, codec, storage, options, turns)
        super().__init__(Plan(files) if plain else None, build, spec, told="TFRecordDataset")
        known = codec if plain and isinstance(codec, str) and split is None else None
        note(lambda: Reading(self, filenames, known, storage, options))

    def _past_damage(self) -> tf.data.Dataset:
        filenames, codec, storage, options = self._opened_as
        if options.settings.skip_corrupt or not context.executing_eagerly():
            return self
        options = replace(options, settings=replace(options.settings, skip_corrupt=True))
        source = Source.open(filenames, codec, storage, options)
        return self._decode(source.prepare()()[0], options=options)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> tf.data.Dataset:
        """Take every ``num_shards``-th element, as `tf.data.Dataset.shard` does.

        With options of ours (``batch_size=``, ``shuffle=``, a schema) it takes blocks or batches if
        they are known, so that those of others are not even read; ``shard=`` does so for records.

        Args:
            num_shards (int | tf.Tensor): The number of shares.
            index (int | tf.Tensor): This share, from 0 to ``num_shards - 1``.
            name (str | None): As in TensorFlow. Default None.

        Returns:
            tf.data.Dataset: Of the same elements.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", max_shard_bytes=1)
            >>> dataset = tfs.TFRecordDataset("train")
            >>> [len(list(dataset.shard(2, i))) for i in range(2)]
            [2, 1]
        """
        if self._plan is not None:
            return super().shard(num_shards, index, name)
        self._build()
        known = isinstance(num_shards, int) and isinstance(index, int) and num_shards > 0
        if self._reshard is None or not known:  # also SHARD_HINT
            return super().shard(num_shards, index, name)
        return self._decode(self._reshard(num_shards, index))

    def cardinality(self) -> tf.Tensor:
        """Count the elements without reading them.

        The count is exact if a manifest or an index has it.

        Returns:
            tf.Tensor: int64, shape [].

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> int(tfs.TFRecordDataset("train").cardinality())
            3
        """
        return super().cardinality()


def _split_of(folder: Any, split: str) -> str:
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"split= is one of a folder's; filenames= is a {type(folder).__name__}")
    return f"{os.fspath(folder).rstrip('/')}/{split}"


def _named_schema(
    word: str, filenames: Any, codec: Any, storage: Storage | None, limits: Limits
) -> tuple[Any, Schema | None]:
    """The source, opened, and its schema; ``word`` is "auto", or "bytes" for no schema."""
    if word == "bytes":
        return filenames, None
    if word != "auto":
        raise ValueError(
            f'schema= takes a Schema, a dict, a feature spec, "auto" or "bytes", not {word!r}'
        )
    names = known_names(filenames)
    if names is None or tf.is_tensor(codec):
        raise ValueError(
            'schema="auto" needs names that are known before the graph runs: pass the schema'
        )
    found = open_dataset(names, storage, compression=codec, limits=limits)
    found = replace(found, named=names[0] if len(names) == 1 else None)
    return found, infer_schema(found, max_record_bytes=limits.max_record_bytes)


def _decoded(found: tf.data.Dataset, schema: Any, options: Options) -> tf.data.Dataset:
    """The outputs of the ops, in the dtypes and shapes of the schema."""
    batched = options.batch_size is not None
    if has_rows(schema) and not isinstance(options.feature_spec, SequenceSpec):  # whose are cut
        found = map_in_place(found, lambda features: cut_rows(features, schema, batched=batched))
    return with_raw_features(found, schema, batched=batched)
