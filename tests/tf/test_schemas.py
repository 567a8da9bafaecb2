"""What `TFRecordDataset(schema=…)` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support import learned  # noqa: E402

pytestmark = pytest.mark.tensorflow

SCHEMAS: dict[str, Any] = {
    "a schema": tfs.Schema({"x": tfs.Feature("int64")}),
    "names of dtypes": {"x": "int64"},
    "features": {"x": tfs.Feature("int64")},
    "TensorFlow's features": {"x": tf.io.FixedLenFeature([], tf.int64)},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"{tmp_path}/train"
    tfs.write_table({"x": list(range(10))}, found)
    return found


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("size", [None, 4])
def test_each_way_to_say_it(url: str, schema: Any, size: int | None) -> None:
    dataset = tfs.TFRecordDataset(url, schema=schema, batch_size=size)
    assert dataset.element_spec["x"].dtype == tf.int64
    found = [x for row in dataset for x in row["x"].numpy().reshape(-1).tolist()]
    assert found == list(range(10))


def test_what_is_no_schema(url: str) -> None:
    with pytest.raises(TypeError, match="schema= takes a Schema"):
        tfs.TFRecordDataset(url, schema=["x"])
    with pytest.raises(ValueError, match="dtype"):
        tfs.TFRecordDataset(url, schema={"x": "number"})


def plain(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    return np.asarray(value.numpy()).tolist()


@pytest.mark.parametrize("size", [None, 64])
def test_auto_is_what_a_writer_learned(tmp_path: Path, size: int | None) -> None:
    learned.write(tmp_path / "t", 1000)
    filled = learned.SCHEMA.with_defaults({"maybe": -1})
    with pytest.raises(ValueError, match=r"'maybe' is nullable.*with_defaults"):
        tfs.TFRecordDataset(tmp_path / "t", schema="auto")
    told = tfs.TFRecordDataset(tmp_path / "t", schema=filled, batch_size=size)
    assert {*told.element_spec} == {*learned.NAMES}
    records = [learned.mapping(i) | {"maybe": i} for i in range(1000)]
    with tfs.ShardedWriter(tmp_path / "u", num_shards=3, compression="GZIP") as writer:
        writer.write_batch(records)
    dataset = tfs.TFRecordDataset(tmp_path / "u", "GZIP", schema="auto", batch_size=size)
    found = {}
    for row in dataset if size is None else dataset.unbatch():
        found[int(row["number"])] = {name: plain(row[name]) for name in row}
    assert found == {i: learned.row(i) | {"maybe": i} for i in range(1000)}


def test_auto_of_other_sources(tmp_path: Path, url: str) -> None:
    with tfs.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(tfs.encode_example({"x": 3, "y": [0.5, 1.5]}))
    for name in ("a.tfrecord", "a.*"):
        (row,) = tfs.TFRecordDataset(tmp_path / name, schema="auto")
        assert (row["x"].numpy(), row["y"].numpy().tolist()) == (3, [0.5, 1.5])
    opened = tfs.open(url)
    assert [int(r["x"]) for r in tfs.TFRecordDataset(opened, schema="auto")] == list(range(10))
    for source in (tf.constant(url), [url], tfs.slice(url, ":5")):
        assert "x" in tfs.TFRecordDataset(source, schema="auto").element_spec
    plain = tfs.TFRecordDataset(url, schema="bytes")
    assert list(plain.as_numpy_iterator()) == list(tfs.TFRecordDataset(url).as_numpy_iterator())
    with pytest.raises(ValueError, match="names that are known"):
        tfs.TFRecordDataset(tf.data.Dataset.from_tensors(url), schema="auto")
    with pytest.raises(ValueError, match='"auto" or "bytes", not \'columns\''):
        tfs.TFRecordDataset(url, schema="columns")
    with pytest.raises(FileNotFoundError):
        tfs.TFRecordDataset(tmp_path / "none", schema="auto")
