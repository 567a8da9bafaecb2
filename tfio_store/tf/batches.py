"""The batch pipeline: numbers of batches in, whole batches out, straight from the files.

    range(n_batches) ─ begin to fetch ─ read

Handing records out one by one to collect them again costs several times what reading them does, so
each call of the op makes one batch.
"""

from __future__ import annotations

import tensorflow as tf

from tfio_store.dataset import Dataset
from tfio_store.tf.blocks import BlockReader, is_remote
from tfio_store.tf.options import Options
from tfio_store.tf.records import parsed
from tfio_store.tf.spans import Spans, batch_spans, exact_batch_spans

__all__ = ["batch_dataset", "can_batch"]


def can_batch(dataset: Dataset, options: Options, parallel_reads: int | None) -> bool:
    """Whether batches are runs of records in the order of the files, and all counts hold."""
    return (
        options.batch_size is not None
        and options.shuffle is False
        and parallel_reads is None
        and not options.settings.skip_corrupt
        and dataset.has_blocks
    )


def batch_dataset(dataset: Dataset, options: Options) -> tf.data.Dataset:
    """Batches (or parsed batches) of a dataset whose blocks are all known."""
    assert options.batch_size is not None
    spans = _spans(dataset, options.batch_size, options)
    count = spans.count
    if options.drop_remainder and int(spans.records.sum()) % options.batch_size:
        count -= 1
    reader = BlockReader(dataset, spans, options, partial=False)
    numbers = tf.data.Dataset.range(count)
    if options.shard is not None:
        numbers = numbers.shard(*options.shard)
    found = reader.read(numbers).map(lambda records, _: records)
    if options.drop_remainder:
        found = found.map(lambda records: tf.ensure_shape(records, [options.batch_size]))
    return parsed(found, options)


def _spans(dataset: Dataset, batch_size: int, options: Options) -> Spans:
    local = all(s.compression is None and not is_remote(s.url) for s in dataset.shards)
    if local:
        return exact_batch_spans(dataset, batch_size, memory_budget=options.memory_budget)
    return batch_spans(dataset, batch_size)
