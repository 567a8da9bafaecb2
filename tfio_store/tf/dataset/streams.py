"""The streaming path: for files whose blocks, or even whose names, are not known.

Files are read by a scan over positions. Its state is where the next records lie, and in which
version of their file. So an iterator can be saved and restored like any other. Each pass over a
file reads the version that it begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.tf.dataset import ops, order
from tfio_store.tf.dataset.blocks import interleaved
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.records import finish
from tfio_store.tf.dataset.request import Settings

__all__ = ["READ_AHEAD", "files_at_once", "positions_scanned", "reading_step", "stream_dataset"]

READ_AHEAD = 2
_SHUFFLE_RECORDS = 10_000
_SCAN_BYTES = 1 << 20
_SCANS = 64
_BEGIN = (0, 0, -1)


def stream_dataset(
    files: tf.data.Dataset, options: Options, parallel_reads: int | None, *, at_once: int = 1
) -> tf.data.Dataset:
    """Records (or batches, or parsed batches) of ``files``, which are pairs (name, codec). One scan
    reads ``at_once`` files, because a scan costs several times as much as a tiny file."""
    if options.shard is not None:
        files = files.shard(*options.shard)
    if options.shuffle is not False:
        files = order.shared_out(_shuffled(files, 1024, options))

    def runs(names: tf.Tensor, codecs: tf.Tensor) -> tf.data.Dataset:
        _mark_as_files(names)
        return _runs(names, codecs, options.settings)

    if parallel_reads is None:
        found = files.batch(at_once).flat_map(runs).prefetch(READ_AHEAD)
    else:
        found = interleaved(
            files.batch(1),
            lambda names, codecs: runs(names, codecs).unbatch(),
            parallel_reads,
            options,
        )
    single = parallel_reads is not None
    if options.shuffle is not False:
        window = options.window
        records = window.amount if window.unit == "records" else _SHUFFLE_RECORDS
        found = _shuffled(found if single else order.slices(found), records, options)
        single = True
    return finish(found, options, single=single)


def files_at_once(sizes: Sequence[int]) -> int:
    """How many files one scan reads, by their sizes in bytes. They are so few that
    `AutoShardPolicy.FILE` and tf.data service can share them out evenly."""
    mean = max(1, sum(sizes) // max(1, len(sizes)))
    return max(1, min(_SCAN_BYTES // mean, len(sizes) // _SCANS))


def _shuffled(dataset: tf.data.Dataset, buffer: int, options: Options) -> tf.data.Dataset:
    return dataset.shuffle(
        buffer, seed=options.seed, reshuffle_each_iteration=options.reshuffle_each_iteration
    )


def _mark_as_files(names: tf.Tensor) -> None:
    """Let `AutoShardPolicy.FILE` find the files. In the function that is mapped over them, tf.data
    looks for one of its own readers of the argument. This one opens nothing."""
    tf.raw_ops.TFRecordDataset(filenames=names, compression_type="", buffer_size=0)


def _runs(names: tf.Tensor, codecs: tf.Tensor, settings: Settings) -> tf.data.Dataset:
    """The files' records, as string [n] tensors, in order."""
    runs = tf.TensorSpec([None], tf.string)
    return positions_scanned(_reading(settings), [names, codecs], runs)


@lru_cache(maxsize=8)
def _reading(settings: Settings) -> Any:
    def read(
        names: tf.Tensor, codecs: tf.Tensor, version: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        return ops.read_stream(names, codecs, version, position, settings)

    return reading_step(read, 2)


def positions_scanned(step: Any, files: list[tf.Tensor], spec: tf.TensorSpec) -> tf.data.Dataset:
    """What a `reading_step` reads of ``files``, to their end."""
    steps = tf.data.Dataset.range(np.iinfo(np.int64).max)
    state = [tf.constant(_BEGIN, tf.int64), tf.constant("")]
    return order.scanned(steps, step, state, files, [spec])


def reading_step(read: Callable[..., tuple[tf.Tensor, ...]], columns: int) -> Any:
    """A step that reads on from a position: (file, records of it, byte offset or -1). It reads the
    given version of that file, or any for "".

    ``read`` is one of the ops. It takes ``columns`` texts of each file, a version and a position,
    and answers what it read, and version and position behind that."""

    def step(
        position: tf.Tensor, version: tf.Tensor, number: tf.Tensor, *files: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        del number
        found, held, after = read(*files, version, position)
        return after, held, found

    position, number = tf.TensorSpec([3], tf.int64), tf.TensorSpec([], tf.int64)
    text, texts = tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.string)
    return order.concrete(step, position, text, number, *[texts] * columns)
