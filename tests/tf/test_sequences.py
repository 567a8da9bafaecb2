"""`TFRecordDataset` by a schema with feature lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

tf = pytest.importorskip("tensorflow")
from tests.tf.test_training_op_sequences import by_id, rows  # noqa: E402

pytestmark = pytest.mark.tensorflow

SCHEMA = tfs.Schema(
    {
        "tokens": tfs.Feature("int64", (None,), sequence=True),
        "id": "int64",
        "price": tfs.Feature("float64", raw=True),
        "few": ("int64", (None,)),
        "pair": tfs.Feature("float32", (None, 2), sequence=True),
        "words": tfs.Feature("bytes", (None, None), sequence=True),
        "maybe": tfs.Feature("int64", (None,), nullable=True, sequence=True),
    }
)
COUNT = 38
ROWS: list[dict[str, Any]] = [
    {
        "tokens": list(range(i % 4)),
        "id": i,
        "price": i / 2,
        "few": [i] * (i % 3),
        "pair": [[i, j] for j in range(i % 3)],
        "words": [[b"w"] * j for j in range(i % 4)],
        "maybe": None if i % 2 else [i],
    }
    for i in range(COUNT)
]
WANTED = [row | {"maybe": row["maybe"] or []} for row in ROWS]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = str(tmp_path / "train")
    columns: dict[str, Any] = {name: [row[name] for row in ROWS] for name in SCHEMA}
    columns["price"] = np.array(columns["price"])
    tfs.write_table(columns, url, schema=SCHEMA, num_shards=3)
    return url


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def test_records_one_by_one(url: str) -> None:
    found = [
        {name: plain(value) for name, value in each.items()}
        for each in tfs.TFRecordDataset(url, schema=SCHEMA)
    ]
    assert by_id(found) == WANTED
    assert tfs.infer_schema(url) == SCHEMA


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 16},
        {"batch_size": 4},
        {"batch_size": 16, "shuffle": True, "seed": 3, "on_corrupt": "skip"},
    ],
)
def test_batches(url: str, options: dict[str, Any]) -> None:
    found = rows(tfs.TFRecordDataset(url, schema=SCHEMA, **options), SCHEMA)
    assert by_id(found) == WANTED
    strings = tfs.TFRecordDataset(url, **options)
    ids = [int(tf.train.SequenceExample.FromString(r).context.feature["id"].int64_list.value[0])
           for batch in strings for r in batch.numpy()]  # fmt: skip
    assert [row["id"] for row in found] == ids


def test_shards_and_whole_batches(url: str) -> None:
    dataset = tfs.TFRecordDataset(url, schema=SCHEMA, batch_size=8)
    shares = [rows(dataset.shard(2, index), SCHEMA) for index in range(2)]
    assert by_id(shares[0] + shares[1]) == WANTED
    whole = tfs.TFRecordDataset(url, schema=SCHEMA, batch_size=16, drop_remainder=True)
    assert len(rows(whole, SCHEMA)) == 32
    assert int(whole.cardinality()) == 2
    assert whole.element_spec["id"].shape == [16]
    assert whole.element_spec["pair"].shape.as_list() == [16, None, 2]
    assert whole.element_spec["words"].ragged_rank == 2


def test_a_gzip_file_without_a_manifest(tmp_path: Path) -> None:
    path = str(tmp_path / "x.tfrecord.gz")
    with tfs.TFRecordWriter(path, "GZIP") as writer:
        for i in range(20):
            writer.write(tfs.encode_sequence_example({"id": i}, {"tokens": [i] * (i % 3)}))
    schema = tfs.infer_schema(path)
    batches = list(tfs.TFRecordDataset(path, schema=schema, batch_size=16))
    found = [row for batch in batches for row in batch["tokens"].to_list()]
    assert found == [[i] * (i % 3) for i in range(20)]


@pytest.mark.parametrize(("batch", "step"), [(None, [1, 2]), (4, [])])
def test_a_step_of_another_size_is_an_error(tmp_path: Path, batch: Any, step: list[int]) -> None:
    path = str(tmp_path / "x.tfrecord")
    with tfs.TFRecordWriter(path) as writer:
        writer.write(tfs.encode_sequence_example({}, {"x": [1, step]}))
    schema = tfs.Schema({"x": tfs.Feature("int64", (None,), sequence=True)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="each step holds 1 values"):
        list(tfs.TFRecordDataset(path, schema=schema, batch_size=batch))


def test_the_spec_of_examples_has_no_feature_lists() -> None:
    with pytest.raises(ValueError, match=r"feature 'tokens' is a feature list, .* sequence_spec"):
        SCHEMA.feature_spec()
    bare = tfs.Schema({"x": tfs.Feature("int64", nullable=True), "y": SCHEMA["tokens"]})
    with pytest.raises(ValueError, match="feature 'x' is nullable, and tensors have no nulls"):
        tfs.TFRecordDataset("nothing", schema=bare)
