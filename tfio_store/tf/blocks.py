"""The block pipeline: numbers of blocks in, records out.

    range(n_blocks) ─ shard ─ shuffle ─ begin to fetch ─ read ─ errors in their place ─ records

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
from dataclasses import replace
from functools import lru_cache
from typing import Any

import tensorflow as tf

from tfio_store.dataset import Dataset
from tfio_store.tf import ops
from tfio_store.tf.inline_map import map_in_parallel, map_in_place
from tfio_store.tf.options import Options
from tfio_store.tf.records import finish
from tfio_store.tf.spans import Spans, block_spans, coarse_block_spans

__all__ = ["BlockReader", "block_dataset", "element_count", "interleaved", "is_remote"]

_GROUPS_PER_EMPTY = 16
_NOTHING = -1
_CALLS_PER_CORE = 4
_IN_FLIGHT_BYTES = 128 << 20
_IN_FLIGHT_MOST = 4096


def block_dataset(
    dataset: Dataset, options: Options, parallel_reads: int | None
) -> tuple[tf.data.Dataset, int | None]:
    """Records (or batches, or parsed batches) of a dataset whose blocks are all known, and how many
    there are."""
    coarse = options.shuffle is False and options.shard is None
    spans = coarse_block_spans(dataset) if coarse else block_spans(dataset)
    reader = BlockReader(dataset, spans, options)
    if parallel_reads is None:
        runs = _runs(reader, _order(reader.count, options), options)
        return finish(runs, options), element_count(spans, options)
    starts = tf.constant(spans.shard_starts)

    def shard_records(shard: tf.Tensor) -> tf.data.Dataset:
        ids = tf.data.Dataset.range(starts[shard], starts[shard + 1])
        return _runs(reader, ids, options).unbatch()

    shards = _order(len(dataset.shards), options)
    records = interleaved(shards, shard_records, parallel_reads, options)
    count = None if options.shard else element_count(spans, options)
    return finish(records, options, single=True), count


def interleaved(
    files: tf.data.Dataset, records: Any, parallel_reads: int, options: Options
) -> tf.data.Dataset:
    """The records of several files in turns, as TensorFlow's ``num_parallel_reads``."""
    automatic = parallel_reads == tf.data.AUTOTUNE
    return files.interleave(
        records,
        block_length=1,
        deterministic=options.deterministic,
        num_parallel_calls=parallel_reads,
        **({} if automatic else {"cycle_length": parallel_reads}),
    )


def is_remote(url: str) -> bool:
    """Whether reading is worth many requests at once."""
    return "://" in url and not url.startswith(("file://", "memory://"))


def _order(count: int, options: Options) -> tf.data.Dataset:
    ids = tf.data.Dataset.range(count)
    if options.shard is not None:
        ids = ids.shard(*options.shard)
    if options.shuffle is not False:
        ids = ids.shuffle(
            max(count, 1),
            seed=options.seed,
            reshuffle_each_iteration=options.reshuffle_each_iteration,
        )
    return ids


class BlockReader:
    """Groups of spans to string [n] tensors, with what is wrong behind them: string []."""

    def __init__(
        self, dataset: Dataset, spans: Spans, options: Options, *, partial: bool = True
    ) -> None:
        ops.forget_blocks()
        files = [shard.url for shard in dataset.shards]
        codecs = [shard.compression or "" for shard in dataset.shards]
        # tensors made once, so that functions capture them and no call copies them
        self._blocks = ops.Blocks(
            tf.constant(files, tf.string, [len(files)]),
            tf.constant(codecs, tf.string, [len(files)]),
            tf.constant(spans.table),
            tf.constant(spans.spans),
            tf.constant(spans.groups),
        )
        self._spans = spans
        self._settings = replace(options.settings, partial=partial)
        self._options = options
        self._lent = any(codecs) or any(map(is_remote, files))
        self.count = spans.count

    def read(self, groups: tf.data.Dataset, seeds: tf.data.Dataset | None = None) -> Any:
        """``groups`` are int64 [] or [k]; ``seeds``, int64 [], shuffle the records of each."""
        blocks, settings = self._blocks, self._settings

        def begin(wanted: tf.Tensor) -> tf.Tensor:
            return ops.begin_blocks(blocks, wanted, settings)

        def read(wanted: tf.Tensor, seed: tf.Tensor | None = None) -> Any:
            records, error = ops.read_blocks(blocks, wanted, settings, seed=seed)
            return (records, error) if settings.partial else records

        if self._lent:
            groups = map_in_place(groups, begin).prefetch(self._ahead())
        if seeds is not None:
            groups = tf.data.Dataset.zip((groups, seeds))
        return map_in_parallel(
            groups, read, self._parallel(), deterministic=self._options.deterministic
        )

    def _parallel(self) -> int:
        """Calls at once: each holds what it reads, and as much again waits to be taken. More than
        there are cores, so that none waits for the slowest."""
        nbytes = max(1, self._spans.largest_group() * self._options.window)
        most = _CALLS_PER_CORE * (os.cpu_count() or 1)
        return max(1, min(most, self._options.memory_budget // (2 * nbytes)))

    def _ahead(self) -> int:
        """How many elements begin to be fetched before they are read."""
        budget = min(_IN_FLIGHT_BYTES, self._options.memory_budget // 2)
        nbytes = max(1, self._spans.mean_group() * self._options.window)
        return max(1, min(_IN_FLIGHT_MOST, budget // nbytes))


def _runs(reader: BlockReader, ids: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """One run of records for each block, or for each window of them, shuffled."""
    seeds = None
    if options.shuffle is not False:
        seeds = tf.data.Dataset.random(
            options.seed, rerandomize_each_iteration=options.reshuffle_each_iteration
        )
    return _raised_in_turn(reader.read(_grouped(ids, options.window), seeds))


def _grouped(ids: tf.data.Dataset, window: int) -> tf.data.Dataset:
    """int64 [] for a window of 1, else [window], filled up with -1; now and then all -1."""

    def cut(some: tf.Tensor) -> tf.Tensor:
        missing = -tf.shape(some)[0] % window + window
        filled = tf.concat([some, tf.fill([missing], tf.constant(_NOTHING, tf.int64))], 0)
        return filled if window == 1 else tf.reshape(filled, [-1, window])

    return ids.batch(_GROUPS_PER_EMPTY * window).map(cut).unbatch()


def _raise_late(error: tf.Tensor, run: tf.Tensor, later: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return ops.raise_error(error, later), run


@lru_cache(maxsize=1)
def _raising() -> Any:
    text, run = tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.string)
    return tf.function(_raise_late, autograph=False).get_concrete_function(text, run, text)


def _raised_in_turn(runs: tf.data.Dataset) -> tf.data.Dataset:
    """The records of ``runs``, pairs of records and what is wrong behind them; an error is raised
    in the next run's turn."""
    no_error = tf.constant("")
    if not tf.executing_eagerly():
        return runs.scan(no_error, lambda error, run: _raise_late(error, *run))
    # `scan` leaves each function that it is given in TensorFlow's default graph for good, 70 KB a
    # dataset: so all get the same one.
    scanned = tf.raw_ops.ScanDataset(
        input_dataset=tf.data.experimental.to_variant(runs),
        initial_state=[no_error],
        other_arguments=[],
        f=_raising(),
        output_types=[tf.string],
        output_shapes=[tf.TensorShape([None])],
        preserve_cardinality=True,
    )
    return tf.data.experimental.from_variant(scanned, tf.TensorSpec([None], tf.string))


def element_count(spans: Spans, options: Options) -> int | None:
    """How many records, or batches, there are; None where damage may change it."""
    if options.settings.skip_corrupt:
        return None
    records = spans.records
    if options.shard is not None:
        count, index = options.shard
        records = records[index::count]
    total = int(records.sum())
    if options.batch_size is None:
        return total
    whole = total // options.batch_size
    return whole if options.drop_remainder else math.ceil(total / options.batch_size)
