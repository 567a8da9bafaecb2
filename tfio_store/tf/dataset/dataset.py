"""`TFRecordDataset`: TensorFlow's own, on any storage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf

from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.part import DatasetPart, Limits
from tfio_store.dataset.source import open_dataset
from tfio_store.dataset.versions import hold_versions
from tfio_store.errors import DataLossError, RecordTooLargeError
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.warning import warn
from tfio_store.storage import Access, LocalCache, Retry
from tfio_store.storage.cache.local_cache import cache_of
from tfio_store.tf.dataset.batches import batch_dataset, can_batch, raw_local, too_small
from tfio_store.tf.dataset.blocks import block_dataset
from tfio_store.tf.dataset.carried_access import to_json
from tfio_store.tf.dataset.filenames import known_names, names_dataset
from tfio_store.tf.dataset.in_graph import for_graph
from tfio_store.tf.dataset.options import (
    DEFAULT_MEMORY_BUDGET,
    Options,
    check_buffer_size,
    check_compression,
)
from tfio_store.tf.dataset.parsing import schema_or_spec, spec_of
from tfio_store.tf.dataset.raw_features import with_raw_features
from tfio_store.tf.dataset.record_rows import with_rows
from tfio_store.tf.dataset.request import Settings
from tfio_store.tf.dataset.sequences import SequenceSpec
from tfio_store.tf.dataset.shuffled_batches import can_shuffle, shuffled_dataset
from tfio_store.tf.dataset.sizes import check_sizes
from tfio_store.tf.dataset.stream_batches import can_batch_streams, stream_batches
from tfio_store.tf.dataset.streams import files_at_once, stream_dataset

__all__ = ["TFRecordDataset"]

_AS_STREAMS = "are read as streams: sharded and shuffled by file, and batched more slowly"

_Built: TypeAlias = (
    "tuple[tf.data.Dataset, int | None, Callable[[int, int], tf.data.Dataset] | None]"
)
"""A dataset, its exact cardinality where tf.data does not know it, and what makes shards of it."""


class TFRecordDataset(tf.data.Dataset):  # type: ignore[misc]
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
        schema (Schema | dict | None): A feature spec of `tf.io.parse_example`. Or a `Schema`, or a
            dict that stands for one, such as ``{"x": "int64"}``: then raw features come in their
            dtype and shape (datetimes as int64), and feature lists of SequenceExamples as ragged
            tensors. Default None: records stay strings.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".
        cache (str | PathLike | LocalCache | None): See `RecordReader`. The path is part of the
            dataset's graph: each machine that runs it has its own folder there. Default None.

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
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        schema: Any = None,
        retry: Retry | None = None,
        backend: str = "fsspec",
        cache: str | os.PathLike[str] | LocalCache | None = None,
    ) -> None:
        if on_corrupt not in ("raise", "skip"):
            raise ValueError(f'on_corrupt= takes "raise" or "skip", not {on_corrupt!r}')
        access = Access(storage_options, retry, backend, cache_of(cache))
        schema = schema_or_spec(schema)
        options = Options(
            Settings(
                to_json(access),
                verify=verify,
                skip_corrupt=on_corrupt == "skip",
                max_record_bytes=max_record_bytes,
            ),
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            shuffle=shuffle,
            seed=seed,
            reshuffle_each_iteration=reshuffle_each_iteration,
            shard=shard,
            deterministic=deterministic,
            memory_budget=memory_budget,
            feature_spec=spec_of(schema),
        )
        codec = check_compression(compression_type)
        if split is not None:
            filenames = _split_of(filenames, split)
        check_buffer_size(buffer_size)
        found, self._count, self._reshard = _build(
            filenames, codec, access, options, num_parallel_reads
        )
        self._decode = partial(_decoded, schema=schema, options=options)
        self._impl = self._decode(found)
        super().__init__(self._impl._variant_tensor)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> tf.data.Dataset:
        """Take every ``num_shards``-th block (or batch), so that those of others are not even read.

        If the blocks are not known, it takes elements, as `tf.data.Dataset.shard` does.

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
        if self._reshard is None or not (isinstance(num_shards, int) and isinstance(index, int)):
            return super().shard(num_shards, index, name)
        return self._decode(self._reshard(num_shards, index))

    def cardinality(self) -> tf.Tensor:
        """Count the elements without reading them.

        The count is exact if a manifest or an index tells it.

        Returns:
            tf.Tensor: int64, shape [].

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> int(tfs.TFRecordDataset("train").cardinality())
            3
        """
        # No assert_cardinality: a worker of tf.data service sees part of the elements, and it would
        # fail there.
        if self._count is None:
            return super().cardinality()
        return tf.constant(self._count, tf.int64)

    def _inputs(self) -> Any:
        return self._impl._inputs()

    @property
    def element_spec(self) -> Any:
        """The type of an element, as of any `tf.data.Dataset`."""
        return self._impl.element_spec


def _split_of(folder: Any, split: str) -> str:
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"split= is one of a folder's; filenames= is a {type(folder).__name__}")
    return f"{os.fspath(folder).rstrip('/')}/{split}"


def _decoded(found: tf.data.Dataset, schema: Any, options: Options) -> tf.data.Dataset:
    """What the ops gave, in the dtypes and shapes of the schema."""
    batched = options.batch_size is not None
    if not isinstance(options.feature_spec, SequenceSpec):  # whose rows were cut
        found = with_rows(found, schema, batched=batched)
    return with_raw_features(found, schema, batched=batched)


def _build(
    filenames: Any, codec: Any, access: Access, options: Options, parallel_reads: int | None
) -> _Built:
    names = known_names(filenames)
    if names is None:
        files = names_dataset(filenames).map(lambda name: (name, tf.convert_to_tensor(codec)))
        return stream_dataset(files, options, parallel_reads), None, None
    limits = Limits(options.memory_budget, options.settings.max_record_bytes)
    dataset = None if tf.is_tensor(codec) else _resolve(names, codec, access, limits)
    if dataset is None:
        urls = [_whole_name(name) for name in names]
        codecs = tf.fill([len(urls)], codec)
        return _from_files(urls, codecs, options, parallel_reads), None, None
    dataset = for_graph(dataset)
    cut = any(shard.is_part for shard in dataset.shards)
    try:
        raw = raw_local(dataset) if can_batch(options, parallel_reads) else None
        if raw is not None and not too_small(raw, options):
            hold_versions(raw)
            return _from_blocks(raw, options, parallel_reads)
        if options.wants_blocks or cut:
            instead = None if cut else _AS_STREAMS
            dataset = index_raw_shards(dataset, **limits._asdict(), instead=instead)
        if dataset.has_blocks:
            hold_versions(dataset)
            return _from_blocks(dataset, options, parallel_reads)
    except (DataLossError, RecordTooLargeError) as error:
        if cut:
            raise  # no stream can be cut
        # reading will tell, behind the good records, as TensorFlow does
        warn(f"{error}: with damage before their blocks are known, the files {_AS_STREAMS}")
    if cut:
        _refuse_streams(dataset)
    check_sizes(dataset, skip_corrupt=options.settings.skip_corrupt)
    files = [shard.address for shard in dataset.shards]
    codecs = tf.constant([s.compression or "" for s in dataset.shards], tf.string, [len(files)])
    sizes = [shard.nbytes for shard in dataset.shards]
    return _from_files(files, codecs, options, parallel_reads, sizes), None, None


def _whole_name(name: str | DatasetPart) -> str:
    """A name that only running the graph finds. ValueError for a part of a dataset."""
    if isinstance(name, DatasetPart):
        raise ValueError(
            f"{name}: is a part of a dataset, which is looked up when the dataset is made: give "
            "compression_type= as a string, and no name of a file that is not there"
        )
    return name


def _refuse_streams(dataset: Dataset) -> None:
    for shard in dataset.shards:
        if shard.blocks is None:
            raise ValueError(
                f"{shard.url}: is one {shard.compression} stream, which TFRecordDataset does not "
                "read beside a part of a file; copy it with tfio_store.copy, which compresses in "
                "blocks"
            )


def _workers() -> int:
    """How many workers TF_CONFIG names."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return sum(len(cluster.get(job, ())) for job in ("chief", "worker"))


def _warn_of_workers() -> None:
    if (workers := _workers()) > 1:
        warn(
            f"TF_CONFIG names {workers} workers. This dataset is read by blocks: "
            "AutoShardPolicy.FILE finds no files and fails, and AUTO becomes DATA, with which "
            f"every worker reads everything. Pass shard=({workers}, index) and AutoShardPolicy.OFF "
            "to have each read its share; or shard=(1, 0) and DATA if that is wanted"
        )


def _from_blocks(dataset: Dataset, options: Options, parallel_reads: int | None) -> _Built:
    def reshard(count: int, index: int) -> tf.data.Dataset:
        return _from_blocks(dataset, replace(options, shard=(count, index)), parallel_reads)[0]

    sharded = None if options.shard is not None else reshard
    if options.shard is None:
        _warn_of_workers()
    # without blocks these are raw files, whose batches are known to be large enough
    whole = not dataset.has_blocks or not too_small(dataset, options)
    if can_batch(options, parallel_reads) and whole:
        return batch_dataset(dataset, options), None, sharded
    if can_shuffle(options, parallel_reads) and whole:
        return *shuffled_dataset(dataset, options), sharded
    return *block_dataset(dataset, options, parallel_reads), sharded


def _from_files(
    names: list[str],
    codecs: tf.Tensor,
    options: Options,
    parallel_reads: int | None,
    sizes: list[int] | None = None,
) -> tf.data.Dataset:
    """The files, of these ``sizes`` if they are known, as streams."""
    at_once = 1 if sizes is None else files_at_once(sizes)
    # AutoShardPolicy.FILE, which shares files out among workers, does not look behind a scan
    alone = options.shard is not None or _workers() <= 1
    nbytes = None if sizes is None else sum(sizes)
    if alone and can_batch_streams(options, parallel_reads, nbytes):
        return stream_batches(names, codecs, options, at_once=at_once)
    pair = tf.constant(names, tf.string, [len(names)]), codecs
    files = tf.data.Dataset.from_tensor_slices(pair)
    return stream_dataset(files, options, parallel_reads, at_once=at_once)


def _resolve(
    names: list[str | DatasetPart], codec: str, access: Access, limits: Limits
) -> Dataset | None:
    """None where a file is missing or can't be looked at: reading it will tell, as TensorFlow
    does. Parts are looked up now or never."""
    if not all(names):
        return None
    try:
        return open_dataset(names, access, compression=codec or None, limits=limits)
    except OSError:
        if any(isinstance(name, DatasetPart) for name in names):
            raise
        return None
