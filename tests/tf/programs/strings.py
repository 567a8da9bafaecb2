"""What TensorFlow does with string tensors, done to those of the bridge. See test_programs.py.

Whoever freed, grew or moved away what is not the string's own would corrupt the heap, which
MALLOC_CHECK_ and MALLOC_PERTURB_ (set by the test) make visible.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import tfio_store as tfs

FOLDER = sys.argv[1]
SIZES = (0, 1, 22, 23, 100, 5_000, 80_000)
RECORDS = [bytes([65 + i % 26]) * SIZES[i % len(SIZES)] + b"%d" % i for i in range(700)]
BATCH = 32

Dataset = tf.data.Dataset
Change = Callable[[Any], Any]


def batches() -> Any:
    return tfs.TFRecordDataset(f"{FOLDER}/records", batch_size=BATCH)


def flat(dataset: Any) -> Iterator[bytes]:
    for element in dataset:
        value = element.numpy()
        if isinstance(value, bytes):
            yield value
        else:
            yield from value.reshape(-1)


def ragged(batch: tf.Tensor) -> Any:
    return tf.RaggedTensor.from_row_lengths(batch, [tf.size(batch)]).to_tensor()


def through_array(batch: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(tf.string, tf.size(batch))
    return array.unstack(batch).stack()


def through_list(batch: tf.Tensor) -> tf.Tensor:
    handle = tf.raw_ops.TensorListFromTensor(tensor=batch, element_shape=tf.constant([], tf.int32))
    return tf.raw_ops.TensorListStack(
        input_handle=handle, element_shape=tf.constant([], tf.int32), element_dtype=tf.string
    )


SAME: dict[str, Change] = {
    "unbatch": lambda d: d.unbatch(),
    "unbatch, batch": lambda d: d.unbatch().batch(7),
    "rebatch": lambda d: d.rebatch(50),
    "rebatch to less": lambda d: d.rebatch(5),
    "batch of batches": lambda d: d.take(21).batch(3).concatenate(d.skip(21).batch(1)),
    "prefetch": lambda d: d.prefetch(4),
    "cache": lambda d: d.cache(),
    "cache in a file": lambda d: d.cache(f"{FOLDER}/cache"),
    "from_tensor_slices": lambda d: d.flat_map(Dataset.from_tensor_slices),
    "from_tensor_slices, batch": lambda d: d.flat_map(Dataset.from_tensor_slices).batch(7),
    "interleave, padded_batch": lambda d: d.interleave(Dataset.from_tensor_slices, 1).padded_batch(
        7
    ),
    "interleave": lambda d: d.interleave(Dataset.from_tensor_slices, 1, num_parallel_calls=1),
    "window": lambda d: d.window(3).flat_map(lambda w: w),
    "padded_batch": lambda d: d.unbatch().padded_batch(9),
    "ragged_batch": lambda d: d.ragged_batch(2).map(lambda r: r.flat_values),
    "identity": lambda d: d.map(tf.identity),
    "reshape": lambda d: d.map(lambda b: tf.reshape(b, [-1, 1])),
    "gather": lambda d: d.map(lambda b: tf.gather(b, tf.range(tf.size(b)))),
    "concat": lambda d: d.map(lambda b: tf.concat([b[:3], b[3:]], 0)),
    "split": lambda d: d.map(lambda b: tf.concat(tf.split(b, [1, -1]), 0)),
    "slices": lambda d: d.map(lambda b: tf.concat([b[:8], b[8:16], b[16:]], 0)),
    "stack": lambda d: (
        d.unbatch().batch(28).map(lambda b: tf.stack(tf.unstack(tf.ensure_shape(b, [28]))))
    ),
    "where": lambda d: d.map(lambda b: tf.where(tf.strings.length(b) >= 0, b, b)),
    "mask": lambda d: d.map(lambda b: tf.boolean_mask(b, tf.strings.length(b) >= 0)),
    "join": lambda d: d.map(lambda b: tf.strings.join([b, ""])),
    "ragged": lambda d: d.map(ragged),
    "array": lambda d: d.map(through_array),
    "list": lambda d: d.map(through_list),
    "numpy_function": lambda d: d.map(lambda b: tf.numpy_function(lambda x: x, [b], tf.string)),
    "tile": lambda d: d.map(lambda b: tf.tile(b, [2])[: tf.size(b)]),
    "scan": lambda d: d.scan(b"", lambda last, b: (b[-1], b)),
    "group_by_window": lambda d: d.group_by_window(
        lambda b: tf.constant(0, tf.int64), lambda _, g: g, window_size=4
    ),
    "snapshot": lambda d: d.snapshot(f"{FOLDER}/snapshot", compression="AUTO"),
    "parallel map": lambda d: d.map(tf.identity, num_parallel_calls=2, deterministic=True),
}


def check(name: str, change: Change) -> None:
    found = list(flat(change(batches())))
    assert found == RECORDS, name
    gc.collect()


def check_eager() -> None:
    kept = list(batches())
    variable = tf.Variable(kept[0])
    variable.scatter_nd_update([[0]], [b"changed"])
    assert kept[0].numpy().tolist() == RECORDS[:BATCH]
    assert variable.numpy().tolist() == [b"changed", *RECORDS[1:BATCH]]
    slices = [batch[1::2] for batch in kept]
    first = [batch[0] for batch in kept]
    queue = tf.queue.FIFOQueue(100, [tf.string])
    for batch in kept:
        queue.enqueue(batch)
    del kept
    gc.collect()
    assert [queue.dequeue().numpy().tolist()[0] for _ in first] == RECORDS[::BATCH]
    assert [s.numpy().tolist() for s in slices[:2]] == [RECORDS[1:32:2], RECORDS[33:64:2]]
    assert [f.numpy() for f in first] == RECORDS[::BATCH]
    written = tf.io.serialize_tensor(first[0])
    assert tf.io.parse_tensor(written, tf.string).numpy() == RECORDS[0]
    tf.io.write_file(f"{FOLDER}/file", slices[0][3])
    assert tf.io.read_file(f"{FOLDER}/file").numpy() == RECORDS[7]
    numbers = tf.range(16, dtype=tf.int64)
    named = tf.lookup.KeyValueTensorInitializer(slices[0], numbers)
    table = tf.lookup.StaticHashTable(named, -1)
    assert table.lookup(slices[0][:2]).numpy().tolist() == [0, 1]


def main() -> None:
    with tf.io.TFRecordWriter(f"{FOLDER}/records") as writer:
        for record in RECORDS:
            writer.write(record)
    for name, change in SAME.items():
        check(name, change)
    check_eager()
    for _ in range(20):
        shuffled = tfs.TFRecordDataset(f"{FOLDER}/records", shuffle=4, batch_size=10)
        assert sorted(flat(shuffled)) == sorted(RECORDS)
    print("the heap is whole")


if __name__ == "__main__":
    main()
