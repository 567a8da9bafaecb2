"""A dataset whose months have other columns, under TensorFlow's own parser and under ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.growing import Grown, Row, grown, number  # noqa: E402

pytestmark = pytest.mark.tensorflow

SEEDS = range(20)


def wanted(data: Grown) -> list[Row]:
    """The rows with defaults, as tensors hold them."""

    def held(value: Any) -> Any:
        if isinstance(value, str):
            return value.encode()
        return value if isinstance(value, bytes | list | float) else number(value)

    return [{name: held(value) for name, value in row.items()} for row in data.filled()]


def rows_of(batches: Any) -> list[Row]:
    """The rows of batches of tensors."""
    found: list[Row] = []
    for batch in batches:
        lists = {name: lists_of(tensor) for name, tensor in batch.items()}
        count = len(next(iter(lists.values())))
        found += [{name: lists[name][i] for name in lists} for i in range(count)]
    return found


def lists_of(tensor: Any) -> list[Any]:
    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.RaggedTensor.from_sparse(tensor)
    return tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()


def spec_of(data: Grown) -> dict[str, Any]:
    """Features of TensorFlow, which know nothing of the manifest."""
    kinds = {"float32": tf.float32, "bytes": tf.string, "str": tf.string}
    spec: dict[str, Any] = {}
    for name, (feature, _, default) in data.columns.items():
        kind = kinds.get(feature.dtype, tf.int64)
        if feature.ragged:
            spec[name] = tf.io.VarLenFeature(kind)
        else:
            value = default if isinstance(default, list | str | bytes | float) else number(default)
            spec[name] = tf.io.FixedLenFeature(feature.shape, kind, value)
    return spec


@pytest.mark.parametrize("seed", SEEDS)
def test_tensorflow_reads_what_was_appended(tmp_path: Path, seed: int) -> None:
    data = grown(tmp_path, seed)
    records = list(tfs.RecordReader(data.url))
    assert rows_of([tf.io.parse_example(records, spec_of(data))]) == wanted(data)
    spec = tfs.infer_schema(data.url).with_defaults(data.defaults).feature_spec()
    assert rows_of([tf.io.parse_example(records, spec)]) == wanted(data)


@pytest.mark.parametrize("seed", SEEDS)
def test_our_datasets_read_the_same(tmp_path: Path, seed: int) -> None:
    data = grown(tmp_path, seed)
    schema = tfs.infer_schema(data.url).with_defaults(data.defaults)
    for features in (schema, spec_of(data)):
        dataset = tfs.TFRecordDataset(data.url, schema=features, batch_size=3)
        assert rows_of(dataset) == wanted(data)
        single = tfs.TFRecordDataset(data.url, schema=features)
        assert rows_of([{n: add_row(t) for n, t in row.items()} for row in single]) == wanted(data)
    lacking = {name for name in data.defaults if any(row[name] is None for row in data.rows)}
    if lacking:
        with pytest.raises(ValueError, match=r"is nullable.*with_defaults"):
            tfs.TFRecordDataset(data.url, schema="auto")


def add_row(tensor: Any) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        tensor = tensor.values
    if isinstance(tensor, tf.RaggedTensor):
        return tf.expand_dims(tensor, 0)
    return tensor[tf.newaxis]


def test_steps_come_to_examples(tmp_path: Path) -> None:
    """An Example is a SequenceExample without steps, to both parsers."""
    url = f"{tmp_path}/train"
    steps = tfs.Feature("int64", (None,), sequence=True)
    months: list[tuple[Row, dict[str, Any]]] = [
        ({"x": 1}, {"x": "int64"}),
        ({"x": 2, "steps": [3, 4]}, {"x": "int64", "steps": steps}),
        ({"y": 5}, {"y": "int64"}),
    ]
    for row, schema in months:
        with tfs.ShardedWriter(url, num_shards=1, schema=schema, if_exists="append") as writer:
            writer.write(row)
    filled = tfs.infer_schema(url).with_defaults({"x": -1, "y": -2})
    context, lists = tf.io.parse_sequence_example(
        list(tfs.RecordReader(url)), *filled.sequence_spec()
    )[:2]
    assert context["x"].numpy().tolist() == [1, 2, -1]
    assert context["y"].numpy().tolist() == [-2, -2, 5]
    assert lists["steps"].to_list() == [[], [[3], [4]], []]
    (batch,) = tfs.TFRecordDataset(url, schema=filled, batch_size=3)
    assert batch["x"].numpy().tolist() == [1, 2, -1]
    assert batch["steps"].to_list() == [[], [3, 4], []]
