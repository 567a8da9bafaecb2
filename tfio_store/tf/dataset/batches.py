"""The batch pipeline: numbers of batches in, whole batches out, straight from the files.

    range(n_batches) ─ begin to fetch ─ read

To hand out records one by one, and collect them again, costs several times as much as reading them.
So each call of the op makes one batch.
"""

from __future__ import annotations

import math

import tensorflow as tf

from tfio_store.dataset.model import Dataset, Shard
from tfio_store.errors import DataLossError, RecordTooLargeError
from tfio_store.records.framing import walk
from tfio_store.records.magic import detect
from tfio_store.tf.dataset import order
from tfio_store.tf.dataset.blocks import BlockReader
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.parsing import fused_columns
from tfio_store.tf.dataset.records import parsed
from tfio_store.tf.dataset.spans import Spans, batch_spans, exact_batch_spans

__all__ = ["FEW", "batch_dataset", "can_batch", "frame_bytes", "raw_local", "too_small"]


FEW = 16
"""A shuffled or parsed batch with fewer records may be too small."""

_CALL_BYTES = 16 << 10
"""Bytes that are read in the time of one call."""

_SAMPLE_BYTES = 64 << 10
"""As many bytes of a file tell how long its records are."""


def can_batch(options: Options, parallel_reads: int | None) -> bool:
    """Whether batches are runs of records in the order of the files, with exact counts."""
    return (
        options.batch_size is not None
        and options.shuffle is False
        and parallel_reads is None
        and not options.settings.skip_corrupt
    )


def too_small(dataset: Dataset, options: Options) -> bool:
    """Whether batches are so small that a call for each costs more than to put them together."""
    size = options.batch_size
    if size is None:
        return False
    if size >= FEW and (options.shuffle is not False or options.feature_spec is not None):
        return False
    return size * frame_bytes(dataset) < _CALL_BYTES


def frame_bytes(dataset: Dataset) -> float:
    """The mean length of a frame. Where nobody has counted the records, the head of the first file
    with any tells."""
    records = sum(shard.records or 0 for shard in dataset.shards)
    if records:
        return sum(map(_raw_bytes, dataset.shards)) / records
    for index, shard in enumerate(dataset.shards):
        if shard.nbytes:
            store, path = dataset.open(index)
            end = min(shard.nbytes, _SAMPLE_BYTES)
            frames, sampled, _ = walk(store.read(path, 0, end, etag=shard.version).result())
            return sampled / len(frames) if len(frames) else math.inf
    return math.inf


def _raw_bytes(shard: Shard) -> int:
    if shard.blocks is None:
        return shard.nbytes
    return int(shard.blocks.raw_offsets[-1] - shard.blocks.raw_offsets[0])


def raw_local(dataset: Dataset) -> Dataset | None:
    """The dataset, marked as raw, if all its files are raw and local, and read whole. Then batches
    need the place of every frame, and no blocks."""
    found = {}
    for i, shard in enumerate(dataset.shards):
        if shard.is_part:
            return None
        if "://" in shard.url or not (shard.compression is None or _looks_raw(dataset, i)):
            return None
        found[i] = shard.known(compression=None)
    return dataset.with_shards(found)


def _looks_raw(dataset: Dataset, index: int) -> bool:
    if dataset.shards[index].compression != "auto":
        return False
    store, path = dataset.open(index)
    head = store.read(path, 0, 512, etag=dataset.shards[index].version)
    return detect(head.result()) is None


def batch_dataset(dataset: Dataset, options: Options) -> tf.data.Dataset:
    """Batches (or parsed batches) of a dataset that is raw and local, or whose blocks are known."""
    assert options.batch_size is not None
    spans = _spans(dataset, options.batch_size, options)
    count = spans.count
    if options.drop_remainder and int(spans.records.sum()) % options.batch_size:
        count -= 1
    reader = BlockReader(dataset, spans, options, partial=False)
    numbers = order.numbers(count, options)
    columns = None if options.feature_spec is None else fused_columns(options.feature_spec)
    if columns is not None:
        begun = reader.begun(numbers)
        return reader.examples(begun, columns, calls=reader.parallel(), ends=False)
    found = reader.read(numbers)
    if options.drop_remainder:
        found = found.map(lambda records: tf.ensure_shape(records, [options.batch_size]))
    return parsed(found, options)


def _spans(dataset: Dataset, batch_size: int, options: Options) -> Spans:
    if raw_local(dataset) is not None:
        try:
            return exact_batch_spans(
                dataset,
                batch_size,
                memory_budget=options.memory_budget,
                max_record_bytes=options.settings.max_record_bytes,
            )
        except (DataLossError, RecordTooLargeError):
            if not dataset.has_blocks:
                raise
            # by the manifest's blocks, so that reading notices what is missing
    return batch_spans(dataset, batch_size)
