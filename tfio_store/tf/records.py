"""From runs of records to what the user asked for: records, batches, parsed batches."""

from __future__ import annotations

import tensorflow as tf

from tfio_store.tf.options import Options

__all__ = ["finish"]


def finish(runs: tf.data.Dataset, options: Options, *, unbatched: bool = False) -> tf.data.Dataset:
    """``runs`` are string [n] tensors, or with ``unbatched`` single records."""
    spec = options.feature_spec
    if options.batch_size is None:
        if spec is None:
            return runs if unbatched else runs.unbatch()
        # whole runs are parsed, since parsing single Examples costs several times more
        runs = runs.batch(256) if unbatched else runs
        return runs.map(lambda run: tf.io.parse_example(run, spec)).unbatch()
    if unbatched:
        batches = runs.batch(options.batch_size, drop_remainder=options.drop_remainder)
    else:
        batches = runs.rebatch(options.batch_size, drop_remainder=options.drop_remainder)
    if spec is None:
        return batches
    return batches.map(
        lambda batch: tf.io.parse_example(batch, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )
