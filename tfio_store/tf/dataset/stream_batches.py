"""Batches of files of which no blocks are known, without a record passing through TensorFlow.

    files ─ packs of records, file by file ─ cut ─ batches of each ─ read

A pack is one tensor of bytes (see ``ext/tensorflow/ops/pack.h``). One thread decompresses into
packs ahead. A scan says where the batches lie in each, and keeps what fills none for the next. Then
a call for each batch makes tensors of it; calls that also parse run several at once.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.storage.redaction import redacted
from tfio_store.tf.dataset import ops, order
from tfio_store.tf.dataset.batches import FEW
from tfio_store.tf.dataset.inline_map import map_in_parallel, map_in_place
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.parsing import fused_columns
from tfio_store.tf.dataset.records import parsed
from tfio_store.tf.dataset.request import Settings
from tfio_store.tf.dataset.streams import READ_AHEAD, positions_scanned, reading_step

__all__ = ["can_batch_streams", "stream_batches"]

SMALL = 2 << 20
"""Bytes of files for which it takes longer to set these stages up than they spare."""

_MOST_CALLS = 4
"""Of calls at once: one thread decompresses, and a few keep up with it."""

_BYTES = tf.TensorSpec([None], tf.uint8)
_NOTHING = np.zeros(0, np.uint8)


def can_batch_streams(
    options: Options, parallel_reads: int | None, nbytes: int | None = None
) -> bool:
    """Whether the ops make these batches of files, of ``nbytes`` in all if that is known. Smaller
    batches cost more to make than to put together."""
    return (
        (options.batch_size or 0) >= FEW
        and (nbytes is None or nbytes >= SMALL)
        and options.shuffle is False
        and parallel_reads is None
        and ops.bridge() == "native"
    )


def stream_batches(names: list[str], codecs: tf.Tensor, options: Options, *, at_once: int) -> Any:
    """Batches (or parsed batches) of files, ``at_once`` of which are read by one scan."""
    packs = _packs(_files(names, codecs, options).batch(at_once), options)
    ends = _ends(_files(names, codecs, options))
    cuts = _cut(packs.prefetch(READ_AHEAD).concatenate(ends), options)
    spec = options.feature_spec
    columns = None if spec is None else fused_columns(spec)
    known = options.batch_size if options.drop_remainder else None

    def read(batch: tuple[tf.Tensor, tf.Tensor], cut: tf.Tensor) -> Any:
        found = ops.read_pack(*batch, cut, None if columns is None else columns.attributes)
        if columns is not None:
            return columns.features(found, known)
        found[0].set_shape([known])
        return found[0]

    if columns is None:  # to make strings takes less than to hand each call to a thread
        return parsed(map_in_place(cuts, read).prefetch(READ_AHEAD), options)
    calls = min(_MOST_CALLS, 2 * (os.cpu_count() or 1))
    return map_in_parallel(cuts, read, calls, deterministic=options.deterministic)


def _files(names: list[str], codecs: tf.Tensor, options: Options) -> tf.data.Dataset:
    shape = [len(names)]
    shown = tf.constant([redacted(name) for name in names], tf.string, shape)
    parts = tf.constant(names, tf.string, shape), codecs, shown
    files = tf.data.Dataset.from_tensor_slices(parts)
    return files if options.shard is None else files.shard(*options.shard)


def _packs(files: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    size = options.batch_size
    assert size is not None

    def packs(names: tf.Tensor, codecs: tf.Tensor, shown: tf.Tensor) -> tf.data.Dataset:
        step = _packing(options.settings, size)
        return positions_scanned(step, [names, codecs, shown], _BYTES)

    return files.flat_map(packs)


@lru_cache(maxsize=8)
def _packing(settings: Settings, least: int) -> Any:
    def read(
        names: tf.Tensor,
        codecs: tf.Tensor,
        shown: tf.Tensor,
        version: tf.Tensor,
        position: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        return ops.pack_stream(names, codecs, shown, version, position, settings, least)

    return reading_step(read, 3)


def _ends(files: tf.data.Dataset) -> tf.data.Dataset:
    """Empty packs, without end if there is a file.

    They are made of files, as the packs are: so with tf.data service each worker that gets files
    gets an end of its own, however few they are.
    """

    def end(names: tf.Tensor, codecs: tf.Tensor, shown: tf.Tensor) -> tf.data.Dataset:
        del names, codecs, shown
        return tf.data.Dataset.from_tensors(tf.constant(_NOTHING)).repeat()

    return files.batch(1).flat_map(end).repeat()


def _cut(packs: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """((what is left of earlier packs, pack), batch) for each batch."""
    size = options.batch_size
    sizes = tf.constant([size, size if options.drop_remainder else 1], tf.int64)
    specs = [_BYTES, _BYTES, tf.TensorSpec([None, 4], tf.int64)]
    found = order.scanned(packs, _cutting(), [tf.constant(_NOTHING)], [sizes], specs)

    def batches(left: tf.Tensor, pack: tf.Tensor, cuts: tf.Tensor) -> tf.data.Dataset:
        # the pack goes with each batch by reference
        together = tf.data.Dataset.from_tensors((left, pack)).repeat()
        return tf.data.Dataset.zip((together, tf.data.Dataset.from_tensor_slices(cuts)))

    return found.interleave(batches, cycle_length=1)


@lru_cache(maxsize=1)
def _cutting() -> Any:
    def step(left: tf.Tensor, pack: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, ...]:
        later, cuts = ops.cut_pack(left, pack, sizes)
        return later, left, pack, cuts

    return order.concrete(step, _BYTES, _BYTES, tf.TensorSpec([2], tf.int64))
