"""Ragged features with rows of several values: each record is cut by itself, whatever its batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store import Feature

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SCHEMA = tfs.Schema(
    {
        "id": "int64",
        "pair": Feature("int64", (None, 2)),
        "cube": Feature("float32", (None, 2, 3)),
        "words": Feature("bytes", (None, None)),
        "plain": Feature("int64", (None,)),
        "double": Feature("float64", (None, 2), raw=True),
    }
)
LISTS = tfs.Schema({**SCHEMA, "steps": Feature("int64", (None,), sequence=True)})
COUNT = 37
BATCHES = [
    {"batch_size": 16},
    {"batch_size": 4},
    {"batch_size": 16, "shuffle": True, "seed": 2},
    {"batch_size": 16, "on_corrupt": "skip"},
    {"batch_size": 16, "drop_remainder": True},
    {"batch_size": 4, "num_parallel_reads": 2},
]


def row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "pair": [[i, j] for j in range(i % 3)],
        "cube": [[[i, j, 0.5], [1.0, 2.0, 3.0]] for j in range(i % 2)],
        "words": [[b"w%d" % i] * (j % 3) for j in range(i % 4)],
        "plain": [i] * (i % 3),
        "double": [[i / 2, j] for j in range(i % 3)],
    }


def column(name: str, rows: list[Any]) -> Any:
    """What `write_table` takes: rows of a fixed shape are an array."""
    feature = SCHEMA.get(name)
    if feature is None or not feature.row_shape:
        return rows
    values = np.array([value for each in rows for value in each], feature.item_dtype())
    return tfs.Ragged(values, np.cumsum([0, *map(len, rows)]))


def written(url: str, schema: Any, compression: str | None = None) -> str:
    rows = [row(i) | {"steps": [i]} for i in range(COUNT)]
    columns = {name: column(name, [each[name] for each in rows]) for name in schema}
    tfs.write_table(columns, url, schema=schema, num_shards=2, compression=compression)
    return url


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def found_rows(dataset: Any, *, batched: bool) -> dict[int, dict[str, Any]]:
    found = {}
    for element in dataset:
        columns = {name: plain(value) for name, value in element.items()}
        if not batched:
            found[columns["id"]] = columns
            continue
        for i, number in enumerate(columns["id"]):
            found[number] = {name: column[i] for name, column in columns.items()}
    return found


@pytest.mark.parametrize("schema", [SCHEMA, LISTS], ids=["examples", "lists"])
@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("options", [{}, *BATCHES])
def test_rows_are_those_written(
    tmp_path: Path, schema: Any, compression: str | None, options: dict[str, Any]
) -> None:
    url = written(str(tmp_path / "train"), schema, compression)
    dataset = tfs.TFRecordDataset(url, schema=schema, **options)
    found = found_rows(dataset, batched=bool(options))
    assert len(found) == (32 if "drop_remainder" in options else COUNT)
    more = {"steps"} if schema is LISTS else set()
    for i, columns in found.items():
        assert columns.keys() == row(i).keys() | more
        assert {name: columns[name] for name in row(i)} == row(i)


@pytest.mark.parametrize("size", [None, 4, 16])
def test_types_are_those_of_tensorflows_parser(tmp_path: Path, size: int | None) -> None:
    url = written(str(tmp_path / "train"), SCHEMA)
    schema = SCHEMA.select(["id", "pair", "cube", "words", "plain"])
    dataset = tfs.TFRecordDataset(url, schema=schema, batch_size=size, drop_remainder=bool(size))
    strings = tfs.TFRecordDataset(url, batch_size=size, drop_remainder=bool(size))
    parse = tf.io.parse_example if size else tf.io.parse_single_example
    theirs = strings.map(lambda records: parse(records, schema.feature_spec()))
    assert dataset.element_spec == theirs.element_spec
    for ours, other in zip(dataset, theirs, strict=True):
        assert {n: plain(v) for n, v in ours.items()} == {n: plain(v) for n, v in other.items()}


NO_ROWS = r"feature c: {} holds 3 values, which are not rows of shape \(2,\)"
NO_SUM = "feature c: {} holds {} values, to which its row lengths do not add up"
MOVED: list[tuple[Any, list[dict[str, Any]], str]] = [
    ((None, 2), [{"c": [7, 8, 9]}, {"c": [1]}], NO_ROWS.format("{0}")),
    (
        (None, None),
        [
            {"c": [7, 8, 9], "c/row_lengths": [1, 1]},
            {"c": [1], "c/row_lengths": [1, 1]},
        ],
        NO_SUM.format("{0}", 3),
    ),
    (
        (None, None),
        [
            {"c": [7, 8], "c/row_lengths": [3, -1]},
            {"c": [1], "c/row_lengths": [1]},
        ],
        NO_SUM.format("{0}", 2),
    ),
    (
        (None, None),
        [
            {"c": [7], "c/row_lengths": [1 << 62, 1 << 62, 1 << 62, 1 << 62, 1]},
            {"c": [1], "c/row_lengths": [1]},
        ],
        NO_SUM.format("{0}", 1),
    ),
    (
        (None, None),
        [{"c": [], "c/row_lengths": [1]}, {"c": [1], "c/row_lengths": []}],
        NO_SUM.format("{0}", 0),
    ),
]


@pytest.mark.parametrize("lists", [False, True], ids=["examples", "lists"])
@pytest.mark.parametrize("size", [None, 2, 16])
@pytest.mark.parametrize(("shape", "rows", "text"), MOVED)
def test_values_never_move_into_another_record(
    tmp_path: Path, shape: Any, rows: list[dict[str, Any]], text: str, size: Any, lists: bool
) -> None:
    schema = {"c": Feature("int64", shape)}
    path = str(tmp_path / "x.tfrecord")
    with tfs.TFRecordWriter(path) as writer:
        for columns in [{"c": [], "c/row_lengths": []}] * 2 + rows:
            given = {n: v for n, v in columns.items() if n == "c" or shape == (None, None)}
            empty = {n: tfs.Ragged.from_rows([v], dtype="i8")[0] for n, v in given.items()}
            writer.write(
                tfs.encode_sequence_example(empty, {"t": [1]}) if lists
                else tfs.encode_example(empty)
            )  # fmt: skip
    if lists:
        schema["t"] = Feature("int64", (None,), sequence=True)
    record = {None: "the record", 2: "record 0 of the batch", 16: "record 2 of the batch"}[size]
    with pytest.raises(tf.errors.InvalidArgumentError, match=text.format(record)):
        list(tfs.TFRecordDataset(path, schema=tfs.Schema(schema), batch_size=size))


def test_a_spec_of_tensorflows_own_keeps_its_meaning(tmp_path: Path) -> None:
    path = str(tmp_path / "x.tfrecord")
    records = [tfs.encode_example({"c": [7, 8, 9]}), tfs.encode_example({"c": [1]})]
    with tfs.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    pairs = [tf.io.RaggedFeature.UniformRowLength(2)]
    spec = {"c": tf.io.RaggedFeature(tf.int64, partitions=pairs)}
    (batch,) = tfs.TFRecordDataset(path, schema=spec, batch_size=2)
    assert batch["c"].to_list() == tf.io.parse_example(records, spec)["c"].to_list()
