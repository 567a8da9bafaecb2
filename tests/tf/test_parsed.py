"""``schema=`` beside the parsers of TensorFlow: the same elements, whatever the blocks are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.long import first  # noqa: E402
from tests.tf.run_program import run  # noqa: E402

pytestmark = pytest.mark.tensorflow

SPECS: dict[str, dict[str, Any]] = {
    "fixed": {"one": tf.io.FixedLenFeature([], tf.int64)},
    "sequence": {"x": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)},
    "variable": {"x": tf.io.VarLenFeature(tf.int64)},
    "ragged": {"x": tf.io.RaggedFeature(tf.int64)},
    "partitioned": {
        "x": tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.UniformRowLength(1)])
    },
    "sparse": {"s": tf.io.SparseFeature("at", "x", tf.int64, size=100)},
}


def example(**lists: list[int]) -> bytes:
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in lists.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def rows() -> list[bytes]:
    return [example(one=[i], x=list(range(1, i % 5 + 1)), at=list(range(i % 5))) for i in range(12)]


def write(path: Path, records: list[bytes]) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def plain(value: Any) -> Any:
    """What two elements must agree on, as plain Python."""
    if isinstance(value, tf.SparseTensor):
        return [value.indices.numpy().tolist(), plain(value.values), plain(value.dense_shape)]
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    return value.numpy().tolist()


def elements(dataset: Any) -> tuple[list[Any], type[Exception] | None]:
    found: list[Any] = []
    try:
        for element in dataset:
            found.append({name: plain(value) for name, value in element.items()})
    except tf.errors.OpError as error:
        return found, type(error)
    return found, None


@pytest.mark.parametrize("options", [{}, {"num_parallel_reads": 1}, {"shard": (1, 0)}], ids=str)
@pytest.mark.parametrize("name", SPECS)
def test_elements_are_those_of_parse_single_example(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    path, spec = write(tmp_path / "f", rows()), SPECS[name]
    native = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
    ours = tfs.TFRecordDataset(path, schema=spec, **options)
    assert ours.element_spec == native.element_spec
    assert elements(ours) == elements(native)


@pytest.mark.parametrize("name", SPECS)
def test_batches_are_those_of_parse_example(tmp_path: Path, name: str) -> None:
    path, spec = write(tmp_path / "f", rows()), SPECS[name]
    native = tf.data.TFRecordDataset(path).batch(5).map(lambda b: tf.io.parse_example(b, spec))
    ours = tfs.TFRecordDataset(path, schema=spec, batch_size=5)
    assert ours.element_spec == native.element_spec
    assert elements(ours) == elements(native)


def test_elements_before_one_that_does_not_parse_arrive(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [*rows()[:7], example(x=[1]), *rows()[:2]])
    spec = SPECS["fixed"]
    found = elements(tfs.TFRecordDataset(path, schema=spec))
    native = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec))
    assert found == elements(native)
    assert len(found[0]) == 7


EMPTY = """
spec = {
    "sequence": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "variable": tf.io.VarLenFeature(tf.int64),
    "ragged": tf.io.RaggedFeature(tf.int64),
}[ARGS["name"]]
for options in ({}, {"num_parallel_reads": 1}):
    found = list(tfs.TFRecordDataset(ARGS["path"], schema={"x": spec}, **options))
    assert len(found) == 2
"""  # in a process of its own, which may crash


@pytest.mark.parametrize("name", first(1, ["sequence", "variable", "ragged"]))
def test_empty_examples(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "f", [b"", b""])
    run(EMPTY, path=path, name=name)
