"""Dict records of a schema with feature lists are written as SequenceExamples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

SCHEMA = tfs.Schema(
    {
        "id": "int64",
        "tokens": tfs.Feature("int64", (None,), sequence=True),
        "box": tfs.Feature("float32", (None, 2), sequence=True),
        "words": tfs.Feature("str", (None, None), sequence=True),
        "maybe": tfs.Feature("bytes", (None,), nullable=True, sequence=True),
    }
)
RECORD: dict[str, Any] = {
    "id": 7,
    "tokens": np.array([1, 2]),
    "box": np.ones((2, 2), np.float32),
    "words": [["a"], ["b", "c"]],
    "maybe": None,
}


def writer(folder: Path, **options: Any) -> tfs.ShardedWriter:
    return tfs.ShardedWriter(str(folder / "t"), num_shards=1, schema=SCHEMA, **options)


@pytest.mark.parametrize("by", ["write", "write_batch"])
def test_records_come_back(tmp_path: Path, by: str) -> None:
    ready = tfs.encode_sequence_example({"id": 8}, {"tokens": [3]})
    with writer(tmp_path) as target:
        if by == "write_batch":
            target.write_batch([RECORD, ready])
        else:
            target.write(RECORD)
            target.write(ready)
    found = tfs.read_table(tmp_path / "t")
    assert found["id"].tolist() == [7, 8]
    assert found["tokens"].tolist() == [[1, 2], [3]]
    assert found["box"].tolist() == [[[1, 1], [1, 1]], []]
    assert found["words"].tolist() == [[["a"], ["b", "c"]], []]
    assert found["maybe"].tolist() == [None, None]


def test_shards_are_chosen_by_the_whole_record(tmp_path: Path) -> None:
    seen: list[Any] = []

    def shard_for(record: Any) -> int:
        seen.append(record)
        return 0

    with writer(tmp_path, shard_for=shard_for) as target:
        target.write(RECORD)
    assert seen == [RECORD]
    assert tfs.read_table(tmp_path / "t")["tokens"].tolist() == [[1, 2]]


def test_a_job_writes_them_too(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "t"), num_shards=1, schema=SCHEMA)
    job.commit([job.write_shard(0, [RECORD])])
    assert tfs.read_table(tmp_path / "t")["box"][0].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tokens": "ab"}, "feature 'tokens' holds a str, where the schema has a sequence"),
        ({"tokens": 3}, "feature 'tokens' holds a int, where the schema has a sequence"),
        ({"tokens": [1.5]}, "feature 'tokens' holds float values"),
        ({"tokens": [[1, 2]]}, r"feature 'tokens' holds 2 values, .*\(step 0\)"),
        ({"box": np.ones((2, 3), np.float32)}, "feature 'box' holds 3 values"),
        ({"box": np.ones((2, 2, 1), np.float32)}, "feature 'box' has shape .*, where"),
        ({"box": np.full((1, 2), 1e300)}, "feature 'box' holds 1e"),
        ({"words": [[b"\xff"]]}, "feature 'words' is not UTF-8"),
        ({"words/row_lengths": [1]}, "'words/row_lengths' is not in the schema"),
        ({"id": None}, "feature 'id' is missing"),
    ],
)
def test_records_that_do_not_fit(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    with (
        pytest.raises(tfs.SchemaError, match=f"record 1: .*{says}"),
        writer(tmp_path) as target,
    ):
        target.write_batch([RECORD, RECORD | wrong])
    assert not list(tmp_path.glob("_t.manifest*"))


def test_classes_of_steps(tmp_path: Path) -> None:
    kind = tfs.Feature.class_label(["a", "b"]).kind
    label = tfs.Feature("int64", (None,), sequence=True, kind=kind)
    schema = tfs.Schema({"label": label})
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, schema=schema) as target:
        target.write({"label": ["b", "a"]})
        target.write_batch(tfs.encode_examples({"label": [["b"], ["a", "b"]]}, schema=schema))
    assert tfs.read_table(tmp_path / "t")["label"].tolist() == [[1, 0], [1], [0, 1]]
    named = tfs.read_table(tmp_path / "t", labels="names")["label"]
    assert named.tolist() == [["b", "a"], ["b"], ["a", "b"]]
    with (
        pytest.raises(tfs.SchemaError, match=r"record 0: feature 'label' .*'c'"),
        tfs.ShardedWriter(str(tmp_path / "u"), num_shards=1, schema=schema) as target,
    ):
        target.write({"label": ["c"]})


@pytest.mark.parametrize("steps", [{300, 5, 2}, frozenset({1}), {3: 1}, {}.keys()])
def test_steps_without_an_order(tmp_path: Path, steps: Any) -> None:
    with (
        pytest.raises(tfs.SchemaError, match=r"feature 'tokens' holds a .*sequence of steps"),
        writer(tmp_path) as target,
    ):
        target.write(RECORD | {"tokens": steps})


@pytest.mark.parametrize(
    "null", [None, np.ma.masked, np.ma.masked_all(2, np.int64)], ids=["None", "masked", "all"]
)
@pytest.mark.parametrize("sequence", [True, False])
def test_a_null_is_no_empty_list(tmp_path: Path, null: Any, sequence: bool) -> None:
    schema = tfs.Schema({"x": tfs.Feature("int64", (None,), sequence=sequence)})
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, schema=schema) as target:
        with pytest.raises(tfs.SchemaError, match=r"feature 'x' is null, .* not nullable"):
            target.write({"x": null})
        target.write({"x": []})
        target.write({})
    assert tfs.read_table(tmp_path / "t")["x"].tolist() == [[], []]
    with pytest.raises(ValueError, match=r"row 1 is null, .* not nullable"):
        tfs.encode_examples({"x": [[1], None]}, schema=schema)
