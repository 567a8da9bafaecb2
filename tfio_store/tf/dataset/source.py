"""The files that a `TFRecordDataset` names, where its records come from, and which pipeline reads
them.

The source is opened once, when the dataset is made. What is done behind it (batches, shuffling,
parsing) decides which pipeline is best.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tfio_store.dataset.header_walk import index_raw_shards, is_remote
from tfio_store.dataset.model import Dataset, DatasetPart, Limits, Shard, Shards, hold_versions
from tfio_store.dataset.source import is_whole, open_dataset
from tfio_store.errors import DataLossError, RecordTooLargeError, TFIOStoreError
from tfio_store.records.compression import is_as_tensorflow
from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.cores import cores
from tfio_store.tf.dataset import ops
from tfio_store.tf.dataset.batches import (
    batch_dataset,
    can_shuffle,
    raw_local,
    shuffled_dataset,
    takes_turns,
    too_small,
    turns_dataset,
)
from tfio_store.tf.dataset.blocks import block_dataset, interleaved
from tfio_store.tf.dataset.options import Options, to_json
from tfio_store.tf.dataset.picks import FileTurns, picked_dataset
from tfio_store.tf.dataset.stages import Shuffle, strings
from tfio_store.tf.dataset.streams import (
    can_batch_streams,
    check_sizes,
    files_at_once,
    plain_dataset,
    records_of,
    stream_batches,
    stream_dataset,
)

_AS_STREAMS = "are read as streams: sharded and shuffled by file, and batched more slowly"

_MOST_WALKED = 4 << 30
"""Bytes of local files whose headers are read before the first batch if that was not asked for."""

Built: TypeAlias = (
    "tuple[tf.data.Dataset, int | None, Callable[[int, int], tf.data.Dataset] | None]"
)
"""A dataset, its exact cardinality where tf.data does not know it, and what makes shards of it."""


# ``filenames``: known now, or tensors that are known later.


def known_names(filenames: Any) -> list[str | DatasetPart] | None:
    """All the names, and parts of datasets, flat. None if only running the graph shows them.
    TypeError, in TensorFlow's words, if they are no text. ValueError if TensorFlow can't make a
    tensor of them.
    """
    if isinstance(filenames, tf.data.Dataset):
        return None
    names: list[str | DatasetPart] = []
    if isinstance(filenames, Mapping):  # which flattens to its values
        _refuse(filenames)
    for value in tf.nest.flatten(filenames):
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, DatasetPart):
            names.append(value)
        elif isinstance(value, str | bytes):
            names.append(os.fsdecode(value))
        elif value is None or isinstance(value, Iterator | Set):
            _refuse(value)
        elif tf.is_tensor(value) and not hasattr(value, "numpy"):
            return None
        else:
            names.extend(_array_names(value))
    return names


def _refuse(value: Any) -> NoReturn:
    raise ValueError(
        "The `filenames` argument takes a string, a list of strings, a string tensor or a dataset "
        f"of strings, not a {type(value).__name__}"
    )


def _array_names(value: Any) -> list[str]:
    array = np.asarray(value.numpy() if tf.is_tensor(value) else value)
    if array.dtype.kind not in "OSU" and array.size:
        raise TypeError(
            "The `filenames` argument must contain `tf.string` elements. Got "
            f"`{array.dtype}` elements."
        )
    return [os.fsdecode(name) for name in array.reshape(-1).tolist()]


def names_dataset(filenames: Any) -> tf.data.Dataset:
    """Names that come at run time, as a dataset of string scalars. TypeError like TensorFlow's."""
    if isinstance(filenames, tf.data.Dataset):
        spec = filenames.element_spec
        if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string:
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements. Got a dataset of "
                f"`{spec!r}` elements."
            )
        if not spec.shape.is_compatible_with([]):
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements of shape [] (i.e. "
                f"scalars). Got a dataset of element shape {spec.shape!r}."
            )
        return filenames
    return tf.data.Dataset.from_tensor_slices(tf.reshape(names_tensor(filenames), [-1]))


def names_tensor(filenames: Any) -> tf.Tensor:
    """Names that come at run time, string [n], or string [] of one. TypeError like TensorFlow's."""
    if tf.is_tensor(filenames) and filenames.dtype == tf.string and filenames.shape.rank == 0:
        return filenames
    flat = [tf.reshape(tf.convert_to_tensor(n), [-1]) for n in tf.nest.flatten(filenames)]
    if any(part.dtype != tf.string for part in flat):
        raise TypeError("The `filenames` argument must contain `tf.string` elements.")
    return flat[0] if len(flat) == 1 else tf.concat(flat, 0)


# The source that they name.


MOST_BLOCKS = 1 << 24
"""A shuffled block takes about 320 bytes while the dataset is made, and 180 behind that. So many
take 5 and 3 GiB, and half of that in order. Blocks of the usual size hold 16 TB then."""


def for_graph(dataset: Dataset) -> Dataset:
    """The dataset with all its shards and blocks at hand. Those of a long one are read now, many
    tables at once. ValueError if they are more than a graph can be expected to hold."""
    blocks = dataset.shards.blocks
    if blocks is not None and blocks > MOST_BLOCKS:
        raise ValueError(
            f"{dataset.summary()}: has {blocks} blocks, and TFRecordDataset, whose "
            f"graph holds the place of each, takes up to {MOST_BLOCKS}. Read it with "
            "RecordReader(...).shard(index, count), or write larger blocks by block_bytes="
        )
    return replace(dataset, shards=Shards(dataset.shards))


class NotFused(Exception):
    """No op does these steps at once. The text says why."""


@dataclass
class Source:
    """The source that ``filenames`` name, opened."""

    filenames: Any
    codec: Any
    options: Options
    names: list[str | DatasetPart] | None
    dataset: Dataset | None
    """None if only running the graph shows it, or what is named can't be opened."""

    @classmethod
    def open(cls, filenames: Any, codec: Any, storage: Storage | None, options: Options) -> Source:
        """Raises as `TFRecordDataset`, but not for files that are missing."""
        names, dataset = known_names(filenames), None
        if names is not None:
            limits = options.limits
            dataset = None if tf.is_tensor(codec) else _resolve(names, codec, storage, limits)
        found = None if dataset is None else for_graph(dataset)
        if found is not None and found.storage != storage:  # it was opened before
            settings = replace(options.settings, storage=to_json(found.storage))
            options = replace(options, settings=settings)
        return cls(filenames, codec, options, names, found)

    @property
    def is_as_named(self) -> bool:
        """Whether each name is that of one file: no glob, and no dataset."""
        if self.dataset is None or self.names is None:
            return False
        names = [
            name if isinstance(name, DatasetPart) or "://" in name else os.path.abspath(name)
            for name in self.names
        ]
        return [shard.address for shard in self.dataset.shards] == names

    def prepare(self) -> Callable[[], Built]:
        """Do what must be done when the dataset is made. What is answered makes the pipeline."""
        options = self.options
        if self.names is None:
            if isinstance(self.filenames, tf.data.Dataset):
                names_dataset(self.filenames)  # which refuses what are no names
            return lambda: (self._of_tensors(), None, None)
        if self.dataset is None:
            urls = [_whole_name(name) for name in self.names]
            codecs = tf.fill([len(urls)], self.codec)
            return lambda: (_from_files(urls, codecs, options), None, None)
        dataset = self.dataset
        cut = any(shard.is_part for shard in dataset.shards)
        if options.parallel_reads is not None and self._is_tensorflows(dataset):
            check_sizes(dataset, skip_corrupt=False)
            return lambda: (_in_turns(dataset, options), None, None)
        try:
            raw = raw_local(dataset) if options.are_runs else None
            if raw is not None and not too_small(raw, options):
                hold_versions(raw)
                built = _from_blocks(raw, options)
                return lambda: built
            if options.wants_blocks or cut:
                instead = None if cut else _AS_STREAMS
                dataset = index_raw_shards(dataset, options.limits, instead=instead)
                self.dataset = dataset
            if dataset.has_blocks:
                hold_versions(dataset)
                return lambda: _from_blocks(dataset, options)
        except (DataLossError, RecordTooLargeError) as error:
            if cut:
                raise  # no stream can be cut
            # reading will raise, behind the good records, as TensorFlow does
            warn(f"{error}: with damage before their blocks are known, the files {_AS_STREAMS}")
        if cut:
            _refuse_streams(dataset)
        check_sizes(dataset, skip_corrupt=options.settings.skip_corrupt)
        return lambda: (self._of_files(dataset, options), None, None)

    def _is_tensorflows(self, dataset: Dataset) -> bool:
        """Whether TensorFlow's own reader does what is asked for: local files without an index, raw
        or GZIP."""
        plain = self.options.are_tensorflows and not dataset.has_blocks
        return plain and self.is_as_named and all(map(_is_plain, dataset.shards))

    def _of_tensors(self) -> tf.data.Dataset:
        codec, reads = self.codec, self.options.parallel_reads
        plain = self.options.are_tensorflows and ops.bridge() == "native"
        if plain and reads is None and not isinstance(self.filenames, tf.data.Dataset):
            return records_of(names_tensor(self.filenames), codec, self.options)
        names = names_dataset(self.filenames)
        if not plain:
            files = names.map(lambda name: (name, tf.convert_to_tensor(codec)))
            return stream_dataset(files, self.options)

        def records(name: tf.Tensor) -> tf.data.Dataset:
            return records_of(name, codec, self.options)

        if reads is None:
            return names.flat_map(records)
        return interleaved(names, records, self.options)

    def _of_files(self, dataset: Dataset, options: Options) -> tf.data.Dataset:
        files = [shard.address for shard in dataset.shards]
        codecs = strings([shard.compression or "" for shard in dataset.shards])
        sizes = [shard.nbytes for shard in dataset.shards]
        return _from_files(files, codecs, options, sizes)

    # --- what steps behind the dataset ask for ----------------------------------------------------

    def fused(
        self, options: Options, shuffle: Shuffle | None = None, turns: FileTurns | None = None
    ) -> Built:
        """One pipeline for ``options`` and a ``shuffle`` that the steps behind the dataset ask for.
        NotFused if there is none, or it would have to read much before the first batch. ``turns``
        says how the files are read where that is not as ``num_parallel_reads`` says."""
        if self.dataset is None:
            raise NotFused("the names of the files are tensors, or not all of them can be opened")
        if workers() > 1:
            raise NotFused("TF_CONFIG names several workers, which share out files")
        if options.settings.skip_corrupt:
            raise NotFused('with on_corrupt="skip" it is unknown which records there are')
        try:
            if shuffle is None:
                return self._fused(options)
            return self._shuffled(options, shuffle, turns or _turns(options.parallel_reads))
        except (OSError, TFIOStoreError) as error:
            raise NotFused(f"the blocks of the files are not known ({error})") from error

    def _fused(self, options: Options) -> Built:
        dataset, reads = self.dataset, options.parallel_reads
        assert dataset is not None
        if not dataset.has_blocks:
            self._may_walk(dataset)
            raw = raw_local(dataset)
            if raw is None and reads is not None:
                raise NotFused(
                    "num_parallel_reads of compressed files without an index reads streams"
                )
            if raw is None:
                return self._packed(dataset, options)
            _may_call(raw, options)
            if options.are_runs:
                hold_versions(raw)
                return _from_blocks(raw, options)
            dataset = self._walked(dataset, options)
        _may_call(dataset, options)
        if reads is not None and not takes_turns(dataset, options):
            raise NotFused(
                "memory_budget= has no room for a block of each of num_parallel_reads= files"
            )
        hold_versions(dataset)
        return _from_blocks(dataset, options)

    def _shuffled(self, options: Options, shuffle: Shuffle, turns: FileTurns) -> Built:
        dataset = self.dataset
        assert dataset is not None
        assert self.names is not None
        if shuffle.seeded and not turns.exact:
            raise NotFused("the order in which TensorFlow reads the files depends on its threads")
        if not can_shuffle(options):
            raise NotFused("the op does not make such shuffled batches")
        if not dataset.has_blocks:
            self._may_walk(dataset)
            if raw_local(dataset) is None:
                raise NotFused("compressed files without an index are streams")
            dataset = self._walked(dataset, options)
        _may_call(dataset, options, shuffled=True)
        hold_versions(dataset)
        if turns.names is None:
            names = [""] * len(dataset.shards)
        else:
            names = [str(name) for name in self.names]
        return *picked_dataset(dataset, options, shuffle, turns, names), None

    def _walked(self, dataset: Dataset, options: Options) -> Dataset:
        self.dataset = index_raw_shards(dataset, options.limits, instead=None)
        return self.dataset

    def _may_walk(self, dataset: Dataset) -> None:
        if any(is_remote(shard.url) for shard in dataset.shards):
            raise NotFused("to find their blocks, the remote files would be read twice; "
                           "write an index (tfio_store.build_index)")  # fmt: skip
        if sum(shard.nbytes for shard in dataset.shards) > _MOST_WALKED:
            raise NotFused("to find blocks, all headers would be read before the first batch; "
                           "write an index (tfio_store.build_index)")  # fmt: skip

    def _packed(self, dataset: Dataset, options: Options) -> Built:
        nbytes = sum(shard.nbytes for shard in dataset.shards)
        if not can_batch_streams(options, nbytes):
            raise NotFused("compressed files without an index are streams")
        check_sizes(dataset, skip_corrupt=False)
        return self._of_files(dataset, options), None, None


def _may_call(dataset: Dataset, options: Options, *, shuffled: bool = False) -> None:
    if too_small(dataset, options, shuffled=shuffled):
        raise NotFused("the batches are so small that a call for each costs more than it spares")


def _turns(parallel_reads: int | None) -> FileTurns:
    if parallel_reads is None:
        return FileTurns()
    exact = parallel_reads != tf.data.AUTOTUNE
    return FileTurns(cycle=parallel_reads if exact else cores(), exact=exact)


@dataclass
class ListedFiles:
    """A `Source` of files that a dataset of names has. They are opened when a step needs it."""

    names: list[str]
    codec: str
    storage: Storage | None
    options: Options
    turns: FileTurns
    _source: Source | None = None

    def fused(self, options: Options, shuffle: Shuffle | None = None) -> Built:
        """As `Source.fused`."""
        if shuffle is None and self.turns.names is not None:
            raise NotFused(
                "the files come in another order in each epoch, and no shuffle of records follows"
            )
        if shuffle is None and self.turns.cycle > 1:
            raise NotFused("records come from several files in turns, and no shuffle follows")
        alone = replace(options, parallel_reads=None)  # ``turns`` say how the files are read
        if self._source is None:
            try:
                self._source = Source.open(self.names, self.codec, self.storage, alone)
            except (OSError, ValueError, TFIOStoreError) as error:
                raise NotFused(f"the files can't be opened ({error})") from error
        if not self._source.is_as_named:
            raise NotFused("not every name is that of one file which can be opened")
        settings = self._source.options.settings  # with the storage that opened them
        return self._source.fused(replace(alone, settings=settings), shuffle, self.turns)


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
                "read beside a part of a file; copy it with tfio_store.copy(), which compresses in "
                "blocks"
            )


def workers() -> int:
    """How many workers TF_CONFIG names, or tasks TensorFlow is connected with."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}")["cluster"]
        named = sum(len(cluster.get(job) or ()) for job in ("chief", "worker"))
    except (ValueError, LookupError, TypeError, AttributeError):
        named = 0  # TensorFlow passes it by as well
    if not context.context()._initialized:
        return named
    devices = [tf.DeviceSpec.from_string(each.name) for each in tf.config.list_logical_devices()]
    return max(named, len({(each.job, each.task) for each in devices}))


def _warn_of_workers() -> None:
    if (count := workers()) > 1:
        warn(
            f"TF_CONFIG names {count} workers. This dataset is read by blocks: "
            "AutoShardPolicy.FILE finds no files and fails, and AUTO becomes DATA, with which "
            f"every worker reads everything. Pass shard=({count}, index) and AutoShardPolicy.OFF "
            "to have each read its share; or shard=(1, 0) and DATA if that is wanted"
        )


def _from_blocks(dataset: Dataset, options: Options) -> Built:
    def reshard(count: int, index: int) -> tf.data.Dataset:
        return _from_blocks(dataset, replace(options, shard=(count, index)))[0]

    sharded = None if options.shard is not None else reshard
    if options.shard is None:
        _warn_of_workers()
    # without blocks these are raw files, whose batches are known to be large enough
    whole = not dataset.has_blocks or not too_small(dataset, options)
    if takes_turns(dataset, options):
        return *turns_dataset(dataset, options), sharded
    if options.are_runs and whole:
        return batch_dataset(dataset, options), None, sharded
    alone = options.parallel_reads is None
    if options.shuffle is not False and alone and can_shuffle(options) and whole:
        return *shuffled_dataset(dataset, options), sharded
    return *block_dataset(dataset, options), sharded


def _from_files(
    names: list[str],
    codecs: tf.Tensor,
    options: Options,
    sizes: list[int] | None = None,
) -> tf.data.Dataset:
    """The files, of these ``sizes`` if they are known, as streams."""
    at_once = 1 if sizes is None else files_at_once(sizes)
    # AutoShardPolicy.FILE, which shares files out among workers, does not look behind a scan
    alone = options.shard is not None or workers() <= 1
    nbytes = None if sizes is None else sum(sizes)
    if alone and can_batch_streams(options, nbytes):
        return stream_batches(names, codecs, options, at_once=at_once)
    files = tf.data.Dataset.from_tensor_slices((strings(names), codecs))
    return stream_dataset(files, options, at_once=at_once)


def _is_plain(shard: Shard) -> bool:
    named = "://" in shard.address or "::" in shard.address
    plain = not (named or shard.is_part) and is_as_tensorflow(shard.compression)
    return plain and is_whole(shard.address)


def _in_turns(dataset: Dataset, options: Options) -> tf.data.Dataset:
    names = strings([shard.address for shard in dataset.shards])
    codecs = strings([shard.compression or "" for shard in dataset.shards])
    files = tf.data.Dataset.from_tensor_slices((names, codecs))
    return interleaved(files, plain_dataset, options)


def _resolve(
    names: list[str | DatasetPart], codec: str, storage: Storage | None, limits: Limits
) -> Dataset | None:
    """None where a file is missing or can't be looked at: reading it will raise, as TensorFlow
    does. Parts are looked up now or never."""
    if not all(names):
        return None
    try:
        return open_dataset(names, storage, compression=codec or None, limits=limits)
    except OSError:
        if any(isinstance(name, DatasetPart) for name in names):
            raise
        return None
