"""The streaming path: files of which no blocks are known, or not even the names.

Each file is a scan over positions: the state is where the next records lie, so that an iterator
can be saved and restored like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.tf import ops
from tfio_store.tf.blocks import interleaved
from tfio_store.tf.options import Options
from tfio_store.tf.records import finish

__all__ = ["stream_dataset"]

_READ_AHEAD = 2
_SHUFFLE_RECORDS = 10_000
_BEGIN = (0, -1)


def stream_dataset(
    files: tf.data.Dataset, options: Options, parallel_reads: int | None
) -> tf.data.Dataset:
    """Records (or batches, or parsed batches) of ``files``: pairs (name, codec)."""
    if options.shard is not None:
        files = files.shard(*options.shard)
    if options.shuffle is not False:
        files = _shuffled(files, 1024, options)

    def runs(name: tf.Tensor, codec: tf.Tensor) -> tf.data.Dataset:
        return _runs(name, codec, options)

    if parallel_reads is None:
        found = files.flat_map(runs).prefetch(_READ_AHEAD)
    else:
        found = interleaved(
            files, lambda name, codec: runs(name, codec).unbatch(), parallel_reads, options
        )
    single = parallel_reads is not None
    if options.shuffle is not False:
        found = _shuffled(found if single else found.unbatch(), _SHUFFLE_RECORDS, options)
        single = True
    return finish(found, options, single=single)


def _shuffled(dataset: tf.data.Dataset, buffer: int, options: Options) -> tf.data.Dataset:
    return dataset.shuffle(
        buffer, seed=options.seed, reshuffle_each_iteration=options.reshuffle_each_iteration
    )


def _runs(name: tf.Tensor, codec: tf.Tensor, options: Options) -> tf.data.Dataset:
    """One file's records as string [n] tensors, in order."""

    def step(position: tf.Tensor, _: Any) -> tuple[tf.Tensor, tf.Tensor]:
        records, after = ops.read_stream(name, codec, position, options.settings)
        return after, records

    steps = tf.data.Dataset.range(np.iinfo(np.int64).max)
    found = steps.scan(tf.constant(_BEGIN, tf.int64), step)
    return found.take_while(lambda records: tf.size(records) > 0)
