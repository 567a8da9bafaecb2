"""Making and reading Examples beside TensorFlow and the `tfrecord` package. `make bench-example`
prints it.

Three kinds of rows: ten scalars, a float image, a sequence of tokens with a text. Each ratio is
from one run, medians of rounds taken in turns.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from bench.timing import machine, medians, table
from tfio_store import RecordBatch, Schema, decode_examples, encode_example, encode_examples
from tfio_store.example.codec import new_learner

# tfrecord defines the same messages anew, which one process refuses: it gets TensorFlow's.
sys.modules["tfrecord.example_pb2"] = tf.train
from tfrecord.reader import extract_feature_dict  # noqa: E402
from tfrecord.writer import TFRecordWriter  # noqa: E402

RNG = np.random.default_rng(7)
Row = dict[str, Any]
Clock = Callable[[], float]


def scalars(i: int) -> Row:
    """Four ints, four floats, two strings, as a row of a table has them."""
    ints = {f"count_{k}": int(RNG.integers(0, 10 ** (2 * k + 1))) for k in range(4)}
    floats = {f"price_{k}": float(RNG.normal()) for k in range(4)}
    return {**ints, **floats, "name": b"customer %d" % i, "city": b"Springfield"}


def image(i: int) -> Row:
    return {"image": RNG.random((3, 64, 64), dtype=np.float32), "label": i % 10}


def tokens(i: int) -> Row:
    length = int(RNG.integers(50, 200))
    return {"tokens": RNG.integers(0, 50_000, length), "label": i % 2, "text": b"some words " * 20}


KINDS: dict[str, tuple[Callable[[int], Row], int]] = {
    "10 scalars": (scalars, 4096),
    "3x64x64 float32": (image, 64),
    "tokens": (tokens, 1024),
}
SCHEMAS = {
    "10 scalars": Schema(
        {f"count_{k}": "int64" for k in range(4)}
        | {f"price_{k}": "float32" for k in range(4)}
        | {"name": "bytes", "city": "bytes"}
    ),
    "3x64x64 float32": Schema({"image": ("float32", (3, 64, 64)), "label": "int64"}),
    "tokens": Schema({"tokens": ("int64", (None,)), "label": "int64", "text": "bytes"}),
}


def tf_feature(value: Any) -> Any:
    """As TensorFlow's guide has it; an array by `tolist`, which is the fastest way in."""
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    values = value.ravel().tolist() if isinstance(value, np.ndarray) else [value]
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def tf_encode(row: Row) -> bytes:
    feature = {name: tf_feature(value) for name, value in row.items()}
    features = tf.train.Features(feature=feature)
    record: bytes = tf.train.Example(features=features).SerializeToString()
    return record


def tfrecord_encode(row: Row) -> bytes:
    typed = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            typed[name] = (value, "byte")
        elif isinstance(value, float) or getattr(value, "dtype", None) == np.float32:
            typed[name] = (np.ravel(value).tolist(), "float")
        else:
            typed[name] = (np.ravel(value).tolist(), "int")
    record: bytes = TFRecordWriter.serialize_tf_example(typed)
    return record


def as_columns(rows: list[Row]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(first, bytes):
            columns[name] = values
        elif name == "tokens":
            splits = np.cumsum([0, *map(len, values)])
            columns[name] = (np.concatenate(values), splits)
        else:
            columns[name] = np.array(values)
    return columns


def encode_rows(clock: Clock) -> list[list[str]]:
    result = []
    for kind, (make, count) in KINDS.items():
        rows = [make(i) for i in range(count)]
        columns, turn, learner = as_columns(rows), itertools.cycle(rows), new_learner()
        assert tf.train.Example.FromString(encode_example(rows[0])) == tf.train.Example.FromString(
            tf_encode(rows[0])
        )
        times = medians(
            {
                "encode_example": lambda turn=turn: encode_example(next(turn)),
                "learning": lambda turn=turn, learn=learner.encode: learn(next(turn)),
                "encode_examples": lambda columns=columns: encode_examples(columns),
                "tf.train": lambda turn=turn: tf_encode(next(turn)),
                "tfrecord": lambda turn=turn: tfrecord_encode(next(turn)),
            },
            clock=clock,
        )
        times["encode_examples"] /= count
        cells = [f"{seconds * 1e6:.2f}" for seconds in times.values()]
        peers = ("learning", "tf.train", "tfrecord")
        ratios = [times[who] / times["encode_example"] for who in peers]
        result.append([kind, *cells, *(f"{ratio:.2f}x" for ratio in ratios)])
    return result


def from_string(records: list[bytes], schema: Schema) -> dict[str, Any]:
    """What one writes without a parser: `FromString` in a loop, arrays at the end."""
    kinds = {"int64": "int64_list", "float32": "float_list", "bytes": "bytes_list"}
    lists = {name: kinds[feature.wire] for name, feature in schema.items()}
    found: dict[str, list[Any]] = {name: [] for name in lists}
    for record in records:
        feature = tf.train.Example.FromString(record).features.feature
        for name, kind in lists.items():
            found[name].append(np.array(getattr(feature[name], kind).value))
    dense = {n: np.stack(v) for n, v in found.items() if not schema[n].ragged}
    return {**found, **dense}


def with_tfrecord(records: list[bytes], schema: Schema) -> dict[str, Any]:
    """The loop of `tfrecord.reader.example_loader`, on records in memory."""
    typed = {"byte": "bytes_list", "float": "float_list", "int": "int64_list"}
    names = {"int64": "int", "float32": "float", "bytes": "byte"}
    description = {name: names[feature.wire] for name, feature in schema.items()}
    found: dict[str, list[Any]] = {name: [] for name in description}
    for record in records:
        example = tf.train.Example()
        example.ParseFromString(record)
        for name, value in extract_feature_dict(example.features, description, typed).items():
            found[name].append(value)
    dense = {n: np.stack(v) for n, v in found.items() if not schema[n].ragged}
    return {**found, **dense}


def decode_rows(clock: Clock) -> list[list[str]]:
    result = []
    for kind, (make, count) in KINDS.items():
        records, schema = [encode_example(make(i)) for i in range(count)], SCHEMAS[kind]
        batch, tensor = RecordBatch.from_records(records), tf.constant(records)
        spec = schema.feature_spec()
        check(kind, batch, tensor)
        times = medians(
            {
                "batch": lambda b=batch, s=schema: decode_examples(b, s, strings="batch"),
                "object": lambda b=batch, s=schema: decode_examples(b, s),
                "parse_example": lambda t=tensor, s=spec: tf.io.parse_example(t, s),
                "FromString": lambda r=records, s=schema: from_string(r, s),
                "tfrecord": lambda r=records, s=schema: with_tfrecord(r, s),
            },
            clock=clock,
        )
        cells = [f"{seconds / count * 1e6:.2f}" for seconds in times.values()]
        peers = ("parse_example", "FromString", "tfrecord")
        ratios = [f"{times[who] / times['object']:.1f}x" for who in peers]
        result.append([kind, *cells, *ratios])
    return result


def check(kind: str, batch: RecordBatch, tensor: Any) -> None:
    """Both sides decode the same before either is timed."""
    ours = decode_examples(batch, SCHEMAS[kind])
    for name, theirs in tf.io.parse_example(tensor, SCHEMAS[kind].feature_spec()).items():
        if isinstance(theirs, tf.RaggedTensor):
            assert np.array_equal(ours[name].row_splits, theirs.row_splits.numpy())
            assert np.array_equal(ours[name].values, theirs.values.numpy())
        else:
            assert np.array_equal(ours[name], theirs.numpy())


def print_encode(clock: Clock) -> None:
    ways = ["encode_example", "learning", "encode_examples", "tf.train", "tfrecord"]
    title = "Encoding, µs for each row (from a dict; from columns; peers from a dict)"
    heads = ["row", *ways, ": learning", ": tf.train", ": tfrecord"]
    print(table(title, heads, encode_rows(clock)))


def print_decode(clock: Clock) -> None:
    ways = ['strings="batch"', "decode_examples", "parse_example", "FromString", "tfrecord"]
    title = "Decoding a batch to arrays, µs for each row"
    heads = ["row", *ways, ": parse_example", ": FromString", ": tfrecord"]
    print(table(title, heads, decode_rows(clock)))


def main() -> None:
    sections = {"encode": print_encode, "decode": print_decode}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(sections))
    parser.add_argument("--cpu", action="store_true", help="CPU time, all on one thread")
    arguments = parser.parse_args()
    chosen = arguments.sections or list(sections)
    if arguments.cpu:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    print(f"{datetime.date.today()}, {machine()}, TensorFlow {tf.__version__}\n")
    for name in chosen:
        sections[name](time.thread_time if arguments.cpu else time.perf_counter)


if __name__ == "__main__":
    main()
