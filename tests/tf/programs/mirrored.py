"""Trains a model under MirroredStrategy on two logical CPU devices.

Prints the last loss, how many records each epoch saw, and the replicas.
"""

from __future__ import annotations

import tensorflow as tf

import tfio_store as tfs

BATCH = 16


def main(source: str) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    spec = {"x": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([], tf.float32)}
    dataset = tfs.TFRecordDataset(
        source, batch_size=BATCH, drop_remainder=True, shuffle=True, seed=1, schema=spec
    )
    dataset = dataset.map(lambda e: (e["x"], e["y"]))
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    history = model.fit(dataset, epochs=15, verbose=0)

    def total(context: tf.distribute.InputContext) -> tf.data.Dataset:
        shard = (context.num_input_pipelines, context.input_pipeline_id)
        return tfs.TFRecordDataset(source, batch_size=BATCH, shard=shard)

    shared = strategy.distribute_datasets_from_function(total)
    count = 0
    for batch in shared:
        count += sum(int(tf.size(part)) for part in strategy.experimental_local_results(batch))
    print(history.history["loss"][-1], count, strategy.num_replicas_in_sync)
