"""What people write behind a dataset, and the records that it reads: for the tests of plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfio_store as tfs

SPEC = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "weight": tf.io.FixedLenFeature([], tf.float32, -1.0),
    "vector": tf.io.FixedLenFeature([4], tf.float32),
    "image": tf.io.FixedLenFeature([], tf.string),
    "some": tf.io.VarLenFeature(tf.int64),
}
COUNT = 700


def example(i: int) -> bytes:
    feature = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
        "vector": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 7, 1, 2, 3])),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([i % 251] * 600)])),
        "some": tf.train.Feature(int64_list=tf.train.Int64List(value=range(i % 3))),
    }
    if i % 5:
        feature["weight"] = tf.train.Feature(float_list=tf.train.FloatList(value=[i / 3]))
    return bytes(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def single(record: Any) -> Any:
    found = tf.io.parse_single_example(record, SPEC)
    pixels = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), [10, 20, 3])
    pixels = tf.cast(pixels, tf.float32) / 255.0
    one_hot = tf.one_hot(found["label"] % 10, 10)
    scaled = found["vector"] * tf.constant([1.0, 2.0, 3.0, 4.0]) + found["weight"]
    return {"pixels": pixels, "scaled": scaled, "first": found["vector"][0]}, one_hot


def behind(features: Any, one_hot: Any) -> Any:
    return features["scaled"] - 1.0, one_hot, features["pixels"], features["first"]


def sparse(record: Any) -> Any:
    return tf.io.parse_single_example(record, SPEC)


def rounds(record: Any) -> Any:
    return tf.exp(tf.io.parse_single_example(record, SPEC)["vector"])


def whole(records: Any) -> Any:
    return tf.io.parse_example(records, SPEC)


def summed(records: Any) -> Any:
    found = tf.io.parse_example(records, SPEC)
    tf.debugging.assert_non_negative(found["label"])
    return tf.reduce_sum(found["vector"], 1), tf.sparse.to_dense(found["some"])


def flat(element: Any) -> list[Any]:
    found: list[Any] = []
    for each in tf.nest.flatten(element):
        parts = (each.indices, each.values, each.dense_shape) if isinstance(
            each, tf.SparseTensor) else (each,)  # fmt: skip
        found += [part.numpy() for part in parts]
    return found


def same(ours: Any, theirs: Any) -> None:
    assert ours.element_spec == theirs.element_spec
    got, wanted = list(ours), list(theirs)
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        tf.nest.assert_same_structure(one, other)
        for mine, its in zip(flat(one), flat(other), strict=True):
            np.testing.assert_array_equal(mine, its)


def shuffled(files: list[str], n: int, **options: Any) -> Any:
    def label(record: Any) -> Any:
        return tf.io.parse_single_example(record, {"label": SPEC["label"]})["label"]

    return tfs.TFRecordDataset(files).shuffle(n, **options).map(label).batch(32)


def read_one(name: Any) -> Any:
    return tfs.TFRecordDataset(name, compression_type=None)


def records_of(dataset: Any) -> list[bytes]:
    return [record.numpy() for record in dataset]


def rows_of(dataset: Any) -> list[bytes]:
    """All values of all records, in an order of their own."""
    found = []
    for element in dataset:
        parts = [part for part in tf.nest.flatten(element) if not isinstance(part, tf.SparseTensor)]
        for row in zip(*(part.numpy() for part in parts), strict=True):
            found.append(b"".join(x if isinstance(x, bytes) else x.tobytes() for x in row))
    return sorted(found)
