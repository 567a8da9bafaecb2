"""The order of numbers (of blocks, batches or files), and how a pipeline of them ends.

Many stages of tf.data let go of their input once that has ended, and with it of where its shuffle
stands: who saves an iterator then gets other epochs after the restore than before. Stages also read
ahead, so that this end comes long before the last record is taken. So numbers never end: behind
the last one comes `NOTHING`, again and again, and the one stage that tells the end (`until_error`)
keeps its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tensorflow as tf

from tfio_store.tf.dataset import ops
from tfio_store.tf.dataset.options import Options

__all__ = [
    "END",
    "NOTHING",
    "batches",
    "concrete",
    "in_order",
    "numbers",
    "scanned",
    "seeds",
    "shared_out",
    "slices",
    "then",
    "until_error",
]

NOTHING = -1
END = "11:"
"""An error text for `ops.raise_error`: OUT_OF_RANGE, which ends a scan as its input's end does."""


def numbers(count: int, options: Options) -> tf.data.Dataset:
    """int64 []: those of ``count`` that this shard has, in the wanted order."""
    shards, index = options.shard or (1, 0)
    # not Dataset.shard, which takes every n-th of whatever tf.data service hands a worker
    found = tf.data.Dataset.range(index, count, shards)
    if options.shuffle is False:
        return found
    return found.shuffle(
        max(-(-(count - index) // shards), 1),
        seed=options.seed,
        reshuffle_each_iteration=options.reshuffle_each_iteration,
    )


def in_order(found: tf.data.Dataset, window: int) -> tf.data.Dataset:
    """int64 [] for a window of 1, else [window]: the numbers, and NOTHING for ever."""
    found = then(found, [], ends=True)
    return found if window == 1 else found.batch(window, drop_remainder=True)


def then(found: tf.data.Dataset, last: list[int], *, ends: bool) -> tf.data.Dataset:
    """The numbers, ``last`` behind them, and NOTHING for ever if that ``ends`` them.

    One concatenation: it keeps the state of a shuffle that is its first input, and one of
    concatenations does not.
    """
    behind = tf.data.Dataset.from_tensor_slices(tf.constant(last, tf.int64, [len(last)]))
    if ends:
        nothing = tf.data.Dataset.from_tensors(tf.constant(NOTHING, tf.int64)).repeat()
        behind = behind.concatenate(nothing) if last else nothing
    return found.concatenate(behind)


def seeds(options: Options) -> tf.data.Dataset:
    """int64 [], without end: others in each epoch, unless that is not wanted."""
    return tf.data.Dataset.random(
        options.seed, rerandomize_each_iteration=options.reshuffle_each_iteration
    )


def shared_out(found: tf.data.Dataset) -> tf.data.Dataset:
    """``found``, so that tf.data service shares out a shuffle in it, whatever stands behind.

    An interleave does not tell its input which share of the elements is this worker's. A shuffle
    makes its own input late, when it can no longer learn that, and then takes all elements. A
    concatenation keeps what it was told at the start.
    """
    return found.concatenate(found.take(0))


def slices(runs: tf.data.Dataset) -> tf.data.Dataset:
    """As ``runs.unbatch()``, but for what that does to its input at the end."""
    return runs.interleave(tf.data.Dataset.from_tensor_slices, cycle_length=1)


def until_error(found: tf.data.Dataset) -> tf.data.Dataset:
    """``found`` are tuples that end in a text, string []: the tuples without it, up to a text that
    is not empty. That is an error, raised in the turn of the next tuple, or `END`."""
    *specs, _ = found.element_spec
    return scanned(found, _raising(tuple(specs)), [tf.constant("")], [], specs)


def batches(runs: tf.data.Dataset, size: int, *, drop_remainder: bool) -> tf.data.Dataset:
    """``runs`` as `until_error` takes them, of string [n]: their records in batches, string
    [size]."""
    rows = tf.TensorSpec([None, size if drop_remainder else None], tf.string)
    state = [tf.constant(""), tf.constant([], tf.string)]
    numbers = [tf.constant(size, tf.int64)]
    return slices(scanned(runs, _batching(drop_remainder), state, numbers, [rows]))


def scanned(
    found: tf.data.Dataset, step: Any, state: list[tf.Tensor], given: list[tf.Tensor], specs: Any
) -> tf.data.Dataset:
    """`Dataset.scan` with a step that was made before, and may end it."""
    variant = tf.raw_ops.ScanDataset(
        input_dataset=tf.data.experimental.to_variant(found),
        initial_state=state,
        other_arguments=given,
        f=step,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
        preserve_cardinality=False,
    )
    spec: Any = specs[0] if len(specs) == 1 else tuple(specs)
    return tf.data.experimental.from_variant(variant, spec)


def concrete(function: Any, *specs: tf.TensorSpec) -> Any:
    """A step for `scanned`, to be kept: TensorFlow's default graph keeps each for good."""
    with tf.init_scope():
        return tf.function(function, autograph=False).get_concrete_function(*specs)


_TEXT = tf.TensorSpec([], tf.string)
_RUN = tf.TensorSpec([None], tf.string)


@lru_cache(maxsize=8)
def _raising(specs: Sequence[tf.TensorSpec]) -> Any:
    def step(earlier: tf.Tensor, *found: tf.Tensor) -> tuple[tf.Tensor, ...]:
        *values, error = found
        return ops.raise_error(earlier, error), *values

    return concrete(step, _TEXT, *specs, _TEXT)


@lru_cache(maxsize=2)
def _batching(drop_remainder: bool) -> Any:
    def step(
        earlier: tf.Tensor, left: tf.Tensor, run: tf.Tensor, error: tf.Tensor, size: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        records = tf.concat([left, run], 0)
        count = tf.size(records, tf.int64)
        if not drop_remainder:
            last = tf.logical_and(tf.equal(error, END), count > 0)
            size = tf.where(last, tf.minimum(size, tf.maximum(count, 1)), size)
        whole = count // size * size
        rows = tf.reshape(records[:whole], tf.stack([count // size, size]))
        return ops.raise_error(earlier, error), records[whole:], rows

    return concrete(step, _TEXT, _RUN, _RUN, _TEXT, tf.TensorSpec([], tf.int64))
