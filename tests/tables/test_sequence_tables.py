"""Files of SequenceExamples as tables, and files of something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

pa = pytest.importorskip("pyarrow")

STEPS: list[dict[str, Any]] = [
    {"tokens": [7, 8], "word": ["a", "b"], "box": [[0.0, 1.0], [2.0, 3.0]]},
    {"tokens": [], "word": [], "box": []},
    {"tokens": [9], "word": ["c"], "box": [[4.0, 5.0]]},
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "x.tfrecord")
    with tfs.TFRecordWriter(path) as writer:
        for number, lists in enumerate(STEPS):
            writer.write(tfs.encode_sequence_example({"id": number}, lists))
    return path


def test_feature_lists_are_columns(file: str) -> None:
    table = tfs.read_table(file)
    assert table["id"].tolist() == [0, 1, 2]
    assert table["tokens"].tolist() == [row["tokens"] for row in STEPS]
    assert table["box"].tolist() == [row["box"] for row in STEPS]
    assert list(tfs.read_table(file, columns=["word"])) == ["word"]
    frame = table.to_pandas()
    assert [row.tolist() for row in frame["tokens"]] == [row["tokens"] for row in STEPS]


@pytest.mark.parametrize("rows", [None, 2])
def test_arrow_batches(file: str, rows: int | None) -> None:
    with tfs.iter_tables(file, batch_rows=rows) as batches:
        found = pa.Table.from_batches(batches, batches.schema)
    assert found.schema.field("box").type == pa.large_list(pa.list_(pa.float32(), 2))
    assert found.column("box").to_pylist() == [row["box"] for row in STEPS]
    assert found.column("word").to_pylist() == [[b"a", b"b"], [], [b"c"]]
    assert found.equals(tfs.read_table(file).to_arrow())


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "events.out.tfevents.1")
    event = b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"
    with tfs.TFRecordWriter(path) as writer:
        writer.write(event)
    for read in (tfs.infer_schema, tfs.read_table, tfs.iter_tables):
        with pytest.raises(tfs.CorruptRecordError, match=f"{path}: record 0 is not a tf"):
            read(path)


SCHEMA = {
    "tokens": tfs.Feature("int64", (None,), sequence=True),
    "box": tfs.Feature("float32", (None, 2), sequence=True),
}


def test_a_table_is_written_with_feature_lists(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    columns = {
        "id": [0, 1, 2],
        "tokens": [row["tokens"] for row in STEPS],
        "box": [row["box"] for row in STEPS],
    }
    tfs.write_table(columns, url, schema=SCHEMA)
    schema = tfs.infer_schema(url)
    assert schema.sequence
    assert {name: schema[name] for name in SCHEMA} == SCHEMA
    found = tfs.read_table(url)
    assert {name: column.tolist() for name, column in found.items()} == columns
    records = list(tfs.RecordReader(url))
    assert records[0] == tfs.encode_sequence_example(
        {"id": 0}, {"tokens": [7, 8], "box": STEPS[0]["box"]}
    )
    tfs.write_table(found, url, if_exists="append")
    assert tfs.read_table(url)["tokens"].tolist() == columns["tokens"] * 2


def test_an_arrow_table_is_written_with_feature_lists(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    table = pa.table(
        {
            "tokens": pa.array([[1, 2], [], [3]], pa.list_(pa.int64())),
            "box": pa.array([[[1, 2]], [], []], pa.list_(pa.list_(pa.float32(), 2))),
        }
    )
    tfs.write_table(table, url, schema=SCHEMA)
    found = tfs.read_table(url).to_arrow()
    assert found.to_pydict() == table.to_pydict()


def test_plain_and_listed_features_are_told_apart_when_appending(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"tokens": [[1], [2, 3]]}, url)
    with pytest.raises(ValueError, match=r"feature 'tokens' is .*sequence=False.*sequence=True"):
        tfs.write_table(
            {"tokens": [[1], [2, 3]]},
            url,
            schema={"tokens": SCHEMA["tokens"]},
            if_exists="append",
        )
