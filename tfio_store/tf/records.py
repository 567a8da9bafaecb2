"""From runs of records to what the user asked for: records, batches, parsed batches."""

from __future__ import annotations

import tensorflow as tf

from tfio_store.tf.options import Options

__all__ = ["finish", "parsed"]

_PARSED_TOGETHER = 256


def finish(runs: tf.data.Dataset, options: Options, *, single: bool = False) -> tf.data.Dataset:
    """``runs`` are string [n] tensors, or with ``single`` records."""
    spec = options.feature_spec
    if options.batch_size is not None:
        # not rebatch: that can't be checkpointed symbolically
        records = runs if single else runs.unbatch()
        batches = records.batch(options.batch_size, drop_remainder=options.drop_remainder)
        return parsed(batches, options)
    if spec is None:
        return runs if single else runs.unbatch()
    # whole runs are parsed, since parsing Examples one by one costs several times more
    runs = runs.batch(_PARSED_TOGETHER) if single else runs
    return runs.map(lambda run: tf.io.parse_example(run, spec)).unbatch()


def parsed(batches: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """Batches of strings as they are, or as dicts of tensors where there is a feature spec."""
    spec = options.feature_spec
    if spec is None:
        return batches
    return batches.map(
        lambda batch: tf.io.parse_example(batch, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )
