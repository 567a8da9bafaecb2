"""Turns runs of records into what the user asked for: records, batches, parsed batches."""

from __future__ import annotations

import tensorflow as tf

from tfio_store.tf.dataset import order
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.parsing import Spec, only_fixed, parse_batch, parse_record

__all__ = ["finish", "parsed"]


def finish(runs: tf.data.Dataset, options: Options, *, single: bool = False) -> tf.data.Dataset:
    """``runs`` are string [n] tensors, or with ``single`` records."""
    spec = options.feature_spec
    records = runs if single else order.records(runs, shuffled=options.shuffle is not False)
    if options.batch_size is not None:
        # not rebatch: that can't be checkpointed symbolically
        batch = tf.data.Dataset.batch if options.shuffle is False else order.in_batches
        batches = batch(records, options.batch_size, drop_remainder=options.drop_remainder)
        return parsed(batches, options)
    if spec is None:
        return records
    if not single and only_fixed(spec):
        return runs.interleave(lambda run: _parsed_run(run, spec), cycle_length=1)
    # parsing several Examples at once depends on their neighbours (padding, dense shapes)
    return records.map(
        lambda record: parse_record(record, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )


def _parsed_run(run: tf.Tensor, spec: Spec) -> tf.data.Dataset:
    """Parse the Examples of a run together, in a tenth of the time. If one of them is bad, parse
    one by one, so that those before it arrive."""
    together = tf.data.Dataset.from_tensors(run).map(lambda some: parse_batch(some, spec))
    singly = tf.data.Dataset.from_tensor_slices(run).map(lambda record: parse_record(record, spec))
    found = together.ignore_errors().unbatch().concatenate(singly)
    return found.take(tf.size(run, tf.int64))


def parsed(batches: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """Batches of strings as they are, or as dicts of tensors if there is a feature spec."""
    spec = options.feature_spec
    if spec is None:
        return batches
    return batches.map(
        lambda batch: parse_batch(batch, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )
