"""Shuffled batches in TensorFlow's own order, parsed or not, each by one call of one op.

    names of files ─┐
                    ├─ epochs ─ batches of each ─ pick ─ begin to fetch ─ read
    keys of seeds ──┘

`Dataset.shuffle` and `Dataset.interleave` never look at their elements. So the order of an epoch is
found without a byte of data (``op_order.c``): from the seeds that TensorFlow's own
generator gives it, and the names as TensorFlow's own dataset of names gives them. What is saved of
an iterator are numbers of batches and the state of that generator.

A block is read when the first of its records is picked. Its other records wait, as they wait in
TensorFlow's buffer (``ext/tensorflow/ops/op_held.c``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.dataset.model import Dataset
from tfio_store.storage.cores import cores
from tfio_store.tf.dataset import ops, stages
from tfio_store.tf.dataset.blocks import BlockReader, fused_columns, in_elements
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.spans import MARKS, block_spans
from tfio_store.tf.dataset.stages import MAPS_CAN_END

_CALLS_PER_CORE = 4
_SMALL_BATCH = 256 << 10
_PICKED_AT_ONCE = 4096
"""Records that are picked by one call, which takes as long as picking hundreds …"""
_BYTES_AT_ONCE = 16 << 20
"""… and of so many bytes, a sixteenth of the memory budget, or one batch: what one call picks is
fetched together."""
_MOST_FRESH = 64 << 20
"""For one call, blocks of half as many bytes again are begun, and of no more than these. The first
call of a large shuffle needs many blocks, and their readers have only so much room."""


@dataclass(frozen=True, slots=True)
class FileTurns:
    """The order in which files are read, as `Dataset.interleave` has it."""

    names: tf.data.Dataset | None = None
    """string []: the names of the files, in another order each epoch. None: the files in order."""
    cycle: int = 1
    """So many files are read in turns …"""
    block_length: int = 1
    """… so many records of each."""
    exact: bool = True
    """Whether these are TensorFlow's own turns, or some that are as good where it promises none."""

    @property
    def is_plain(self) -> bool:
        """Whether it is one file after the other."""
        return self.names is None and self.cycle == 1


def picked_dataset(
    dataset: Dataset,
    options: Options,
    shuffle: stages.Shuffle,
    turns: FileTurns,
    names: list[str],
) -> tuple[tf.data.Dataset, int]:
    """Batches of a dataset whose blocks are all known, and how many there are. ``names`` are those
    of its files, as the dataset of names gives them."""
    assert options.batch_size is not None
    shards, index = options.shard or (1, 0)
    spans = block_spans(dataset).share(index, shards)
    records = int(spans.records.sum())
    count = in_elements(records, options)
    nbytes = max(1, options.batch_size * spans.nbytes // max(1, records))
    reader = BlockReader(dataset, spans, options, marked=True)
    ends = MAPS_CAN_END and options.deterministic is not False
    at_once = min(_BYTES_AT_ONCE, options.memory_budget // 16)
    together = max(1, min(_PICKED_AT_ONCE // options.batch_size, at_once // nbytes))
    fresh = min(_MOST_FRESH, max(at_once, nbytes) * 3 // 2)
    rows = _rows(shuffle, turns, names, range(0, count, together), reader.mark, ends=ends)

    mixed = [options.batch_size, together, count, shuffle.buffer]
    read = [turns.cycle, turns.block_length, len(dataset.shards)]
    given = [*reader.places, tf.constant([*mixed, *read, fresh], tf.int64)]
    picked = stages.map_traced_in_turn(rows, _picking(), given, (_ROWS, _ROW))
    begun = reader.begun(picked, max(fresh, nbytes * together))
    batches = stages.in_place(begun, _one_by_one(), [], _ROW)

    columns = None if options.feature_spec is None else fused_columns(options.feature_spec)
    return reader.picked(batches, columns, calls=_calls(nbytes, options), ends=ends), count


def _calls(nbytes: int, options: Options) -> int:
    """Calls at once, of batches of so many bytes: more than the cores, so that none waits for the
    slowest, if that takes little memory."""
    at_once = cores()
    several = _CALLS_PER_CORE * at_once if nbytes < _SMALL_BATCH else at_once + 1
    return max(2, min(several, options.memory_budget // (4 * nbytes)))


def _rows(
    shuffle: stages.Shuffle,
    turns: FileTurns,
    names: list[str],
    batches: range,
    mark: int,
    *,
    ends: bool,
) -> tf.data.Dataset:
    """(marked number of one of the ``batches``: int64 [], its epoch as `ops.pick_records` takes
    it), and a -1 without end behind them if that ``ends`` them."""
    if turns.names is None:
        files = tf.data.Dataset.from_tensors(stages.strings([]))
    else:
        files = stages.in_batches(turns.names, max(1, len(names)))
    if ends:
        files = files.concatenate(tf.data.Dataset.from_tensors(tf.constant([""])).repeat())
    if turns.names is not None:
        files = stages.when_asked(files)
    epochs = tf.data.Dataset.zip((files, shuffle.keys()))
    given = [
        stages.strings([os.fsencode(name) for name in names]),
        tf.constant([*shuffle.seeds, int(shuffle.again)], tf.int64),
        tf.constant([mark, batches.stop * MARKS, batches.step * MARKS], tf.int64),
    ]
    return stages.in_place(epochs, _beginning(), given, (tf.TensorSpec([], tf.int64), _ROW))


_ROW = tf.TensorSpec([None], tf.int64)
_ROWS = tf.TensorSpec([None, None], tf.int64)
_TEXTS = tf.TensorSpec([None], tf.string)


@lru_cache(maxsize=1)
def _beginning() -> Any:
    def step(
        files: tf.Tensor, key: tf.Tensor, names: tf.Tensor, seeds: tf.Tensor, bounds: tf.Tensor
    ) -> tf.Tensor:
        epoch = ops.begin_epoch(files, names, seeds, key)
        none = epoch[0] < 0
        start, stop, each = tf.unstack(bounds)
        start, stop = tf.where(none, np.int64(-1), start), tf.where(none, np.int64(0), stop)
        batches = tf.data.Dataset.range(start, stop, each)
        epochs = tf.data.Dataset.from_tensors(epoch).repeat()
        return tf.data.experimental.to_variant(tf.data.Dataset.zip((batches, epochs)))

    three = tf.TensorSpec([3], tf.int64)
    return stages.concrete(step, _TEXTS, tf.TensorSpec([2], tf.int64), _TEXTS, three, three)


@lru_cache(maxsize=1)
def _picking() -> Any:
    def step(batch: tf.Tensor, epoch: tf.Tensor, *given: tf.Tensor) -> Any:
        return ops.pick_records(batch, epoch, *given)

    number, sizes = tf.TensorSpec([], tf.int64), tf.TensorSpec([8], tf.int64)
    return stages.concrete(step, number, _ROW, _ROWS, _ROWS, sizes)


@lru_cache(maxsize=1)
def _one_by_one() -> Any:
    def step(rows: tf.Tensor, fresh: tf.Tensor) -> tf.Tensor:
        del fresh
        return tf.data.experimental.to_variant(tf.data.Dataset.from_tensor_slices(rows))

    return stages.concrete(step, _ROWS, _ROW)
