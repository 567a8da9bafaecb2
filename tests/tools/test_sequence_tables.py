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
        with pytest.raises(tfs.CorruptRecordError, match=f"record 0 of {path} is neither"):
            read(path)
