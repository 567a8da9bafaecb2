"""Shuffled batches, parsed or not, each by one call of one op.

    range(n_windows) ─ shuffle ─ begin to fetch ─ zip with seeds ─ batches of each ─ read

No record passes through TensorFlow by itself: a call reads a window's blocks along with the calls
for the window's other batches, and hands out the batch that its number says. What is saved of an
iterator are numbers.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import tensorflow as tf

from tfio_store.dataset.model import Dataset
from tfio_store.tf.dataset import ops, order
from tfio_store.tf.dataset.blocks import BlockReader, element_count, mixed_blocks
from tfio_store.tf.dataset.inline_map import MAPS_CAN_END, map_in_place
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.parsing import fused_columns
from tfio_store.tf.dataset.spans import Spans, block_spans
from tfio_store.tf.dataset.windows import BatchWindows, window_spans

__all__ = ["can_shuffle", "shuffled_dataset"]

_CALLS_PER_CORE = 4
_SEEDS = 1 << 64


def can_shuffle(options: Options, parallel_reads: int | None) -> bool:
    """Whether the op makes these batches, and all counts hold."""
    spec = options.feature_spec
    return (
        options.batch_size is not None
        and options.shuffle is not False
        and parallel_reads is None
        and not options.settings.skip_corrupt
        and ops.bridge() == "native"
        and (spec is None or fused_columns(spec) is not None)
    )


def shuffled_dataset(dataset: Dataset, options: Options) -> tuple[tf.data.Dataset, int | None]:
    """Batches of a dataset whose blocks are all known, and how many there are."""
    assert options.batch_size is not None
    blocks = block_spans(dataset)
    count, index = options.shard or (1, 0)
    share = replace(blocks, table=blocks.table[index::count])
    mixed = mixed_blocks(blocks, options)
    spans, windows = window_spans(
        share,
        options.batch_size,
        mixed,
        (options.seed or 0) % _SEEDS,
        within=options.least_mixed is not None,
    )
    reader = BlockReader(dataset, spans, options)
    ends = MAPS_CAN_END and options.deterministic is not False
    spec = options.feature_spec
    found = reader.examples(
        _rows(reader, windows, options, ends=ends),
        None if spec is None else fused_columns(spec),
        calls=_calls(spans, windows, options),
        ends=ends,
    )
    return found, element_count(blocks, options)


def _rows(reader: BlockReader, windows: BatchWindows, options: Options, *, ends: bool) -> Any:
    """int64 [3]: window, batch in it, and the window's seed. Without end where a map can tell the
    end; see `tfio_store.tf.dataset.order`."""
    remains = windows.rest > 0 and not options.drop_remainder
    ends_last = remains and windows.within  # the last window has the batch that is not full
    found = order.numbers(windows.count - ends_last, replace(options, shard=None))
    rest = [windows.count - windows.within] if remains else []
    found = order.then(found, rest, ends=ends)

    def batches(window: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        in_last = windows.in_last + ends_last
        last = tf.where(tf.equal(window, windows.count - 1), in_last, windows.per_window)
        whole = tf.logical_and(window >= 0, window < windows.count)
        count = tf.where(whole, tf.cast(last, tf.int64), tf.constant(1, tf.int64))
        return tf.stack([tf.fill([count], window), tf.range(count), tf.fill([count], seed)], 1)

    seeded = tf.data.Dataset.zip((reader.begun(found), order.seeds(options)))
    return order.slices(map_in_place(seeded, batches))


def _calls(spans: Spans, windows: BatchWindows, options: Options) -> int:
    """Calls at once, whose windows memory has room for: those handed out, and one that is begun."""
    most = options.memory_budget // max(1, spans.largest_group()) - 1
    return max(1, min(_CALLS_PER_CORE * (os.cpu_count() or 1), windows.per_window * most))
