"""The block pipeline: numbers of blocks in, records out.

    range(n_blocks) ─ shard ─ shuffle ─ groups ─ map(read) ─ errors in their place ─ records

Every stage is stateless or keeps a few integers, so that iterators can be saved, restored and sent
elsewhere at no cost.

An error must come behind the good records before it, as from TensorFlow's own reader. A map gives
one element for one, so the read hands the error over beside the records, and a scan raises it in
the next element's turn. So that there is one behind the last block too, every few groups an empty
one is put in (at the very end alone would not do: a worker that gets its blocks by dynamic
sharding does not know which is its last).
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.dataset import Dataset
from tfio_store.tf import ops
from tfio_store.tf.options import Options
from tfio_store.tf.records import finish

__all__ = ["block_dataset", "is_remote"]

_GROUPS_PER_EMPTY = 16
_NOTHING = -1
_ALL = np.iinfo(np.int64).max
_REMOTE_READS = 32


def block_dataset(
    dataset: Dataset, options: Options, parallel_reads: int | None
) -> tf.data.Dataset:
    """Records (or batches, or parsed batches) of a dataset whose blocks are all known."""
    reader = _Reader(dataset, options)
    if parallel_reads is None:
        runs = reader.runs(_order(tf.data.Dataset.range(reader.count), reader.count, options))
        return _counted(finish(runs, options), reader, options)
    starts = tf.constant(dataset.block_starts)
    shards = _order(tf.data.Dataset.range(len(dataset.shards)), len(dataset.shards), options)
    records = shards.interleave(
        lambda shard: reader.runs(
            tf.data.Dataset.range(starts[shard], starts[shard + 1])
        ).unbatch(),
        block_length=1,
        deterministic=options.deterministic,
        num_parallel_calls=parallel_reads,
        **({} if parallel_reads == tf.data.AUTOTUNE else {"cycle_length": parallel_reads}),
    )
    return finish(records, options, unbatched=True)


def is_remote(url: str) -> bool:
    return "://" in url and not url.startswith(("file://", "memory://"))


def _order(ids: tf.data.Dataset, count: int, options: Options) -> tf.data.Dataset:
    if options.shard is not None:
        ids = ids.shard(*options.shard)
    if options.shuffle is not False:
        ids = ids.shuffle(
            max(count, 1),
            seed=options.seed,
            reshuffle_each_iteration=options.reshuffle_each_iteration,
        )
    return ids


class _Reader:
    """Blocks of one dataset to runs of records: string [n] tensors."""

    def __init__(self, dataset: Dataset, options: Options) -> None:
        self._options = options
        self._files = [shard.url for shard in dataset.shards]
        self._codecs = [shard.compression or "" for shard in dataset.shards]
        self._table = _table(dataset)
        self.records = self._table[:, 5]
        self.count = len(self._table)

    def runs(self, ids: tf.data.Dataset) -> tf.data.Dataset:
        """One run of records for each block of ``ids``, or for each window of them, shuffled."""
        groups = _grouped(ids, self._options.window)
        if self._options.shuffle is not False:
            seeds = tf.data.Dataset.random(
                self._options.seed,
                rerandomize_each_iteration=self._options.reshuffle_each_iteration,
            )
            groups = tf.data.Dataset.zip((groups, seeds))
        read = groups.map(
            self._read if self._options.shuffle is False else self._read_shuffled,
            num_parallel_calls=self._parallel(),
            deterministic=self._options.deterministic,
        )
        return read.scan(tf.constant(""), _raise_late)

    def _parallel(self) -> int:
        largest = max(self._table[:, 4] - self._table[:, 3], default=1)
        affordable = self._options.memory_budget // int(2 * largest * self._options.window + 1)
        useful = _REMOTE_READS if any(map(is_remote, self._files)) else (os.cpu_count() or 1)
        return max(1, min(affordable, useful))

    def _read(self, span: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return ops.read_blocks(self._files, self._codecs, self._table, span, self._options.settings)

    def _read_shuffled(self, group: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        spans = tf.stack([group, tf.zeros_like(group), tf.fill(tf.shape(group), _ALL)], axis=1)
        records, error = self._read(spans)
        seeds = tf.bitcast(seed, tf.int32)
        return tf.random.experimental.stateless_shuffle(records, seeds), error


def _table(dataset: Dataset) -> Any:
    """int64 [n_blocks, 6], as `ops.read_blocks` takes it."""
    rows = []
    for i, shard in enumerate(dataset.shards):
        table = shard.blocks
        assert table is not None
        columns = (
            np.full(len(table), i, np.int64),
            table.offsets[:-1],
            table.offsets[1:],
            table.raw_offsets[:-1],
            table.raw_offsets[1:],
            np.diff(table.records),
        )
        rows.append(np.stack(columns, axis=1))
    return np.concatenate(rows) if rows else np.zeros((0, 6), np.int64)


def _grouped(ids: tf.data.Dataset, window: int) -> tf.data.Dataset:
    """int64 [] for a window of 1, else [window], filled up with -1; now and then all -1."""

    def cut(some: tf.Tensor) -> tf.Tensor:
        missing = -tf.shape(some)[0] % window + window
        filled = tf.concat([some, tf.fill([missing], tf.constant(_NOTHING, tf.int64))], 0)
        return filled if window == 1 else tf.reshape(filled, [-1, window])

    return ids.batch(_GROUPS_PER_EMPTY * window).map(cut).unbatch()


def _raise_late(error: tf.Tensor, run: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    records, later = run
    return ops.raise_error(error, later), records


def _counted(records: tf.data.Dataset, reader: _Reader, options: Options) -> tf.data.Dataset:
    """With its exact cardinality, where damage can't change it."""
    if options.settings.skip_corrupt:
        return records
    if options.shard is None:
        total = int(reader.records.sum())
    else:
        count, index = options.shard
        total = int(reader.records[index::count].sum())
    if options.batch_size is not None:
        whole = total // options.batch_size
        total = whole if options.drop_remainder else math.ceil(total / options.batch_size)
    return records.apply(tf.data.experimental.assert_cardinality(total))
