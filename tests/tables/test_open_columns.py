"""Tasks and parts whose rows do not tell a column's type, or tell another length of its lists."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.tables.write_table import TableJob

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

NO_TYPE = pa.list_(pa.null())
LISTS = {
    "int64": pa.array([[1, 2], [], [3]]),
    "float64": pa.array([[0.1], [], [0.2, 0.3]]),
    "bool": pa.array([[True], []]),
    "uint8": pa.array([[255], []], pa.list_(pa.uint8())),
    "str": pa.array([["é", ""], []]),
    "bytes": pa.array([[b"\xff"], []]),
    "times": pa.array([[0], []], pa.list_(pa.timestamp("us", "UTC"))),
    "categories": pa.array([["a"], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "large": pa.array([[1], []], pa.large_list(pa.int64())),
    "fixed": pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
    "lists": pa.array([[[1], []], []]),
    "lists of floats": pa.array([[[0.1], []], []]),
    "lists of pairs": pa.array([[[1, 2]], []], pa.list_(pa.list_(pa.int64(), 2))),
}
OPEN = [pa.nulls(2), pa.array([[], []], NO_TYPE), pa.array([None, []], NO_TYPE)]


def written(url: Path, *tasks: list[Any]) -> list[Any]:
    """What Arrow reads of a column that tasks wrote, each some tables."""
    job = TableJob(tfs.WriteJob(str(url)), exact=True)
    job.commit([job.write(tables, order) for order, tables in enumerate(tasks)])
    rows: list[Any] = tfs.read_table(str(url)).to_arrow()["x"].to_pylist()
    return rows


@pytest.mark.parametrize("name", LISTS)
def test_lists_without_values_tell_no_type(tmp_path: Path, name: str) -> None:
    for i, arrays in enumerate(permutations([LISTS[name], *OPEN])):
        if i % 5:  # five of all orders
            continue
        tables = [pa.table({"x": array}) for array in arrays]
        tasks = [[table] for table in tables] if i % 2 else [tables]
        found = written(tmp_path / str(i), *tasks)
        assert found == [row for array in arrays for row in array.to_pylist()]


@pytest.mark.tensorflow
def test_tensorflow_reads_them_as_empty(tmp_path: Path) -> None:
    import tensorflow as tf

    url = str(tmp_path / "train")
    written(tmp_path / "train", [pa.table({"x": OPEN[1]})], [pa.table({"x": LISTS["int64"]})])
    schema = tfs.infer_schema(url)
    files = [shard.url for shard in tfs.info(url).shards]
    records = list(tf.data.TFRecordDataset(files).as_numpy_iterator())
    found = tf.io.parse_example(records, schema.feature_spec())
    assert found["x"].to_list() == [[], [], [1, 2], [], [3]]
    assert all(tf.train.Example.FromString(record).features.feature for record in records)


def test_lists_without_values_all_over(tmp_path: Path) -> None:
    tables = [pa.table({"x": array}) for array in (*OPEN, pa.array([[[]], []]))]
    assert written(tmp_path / "x", *([table] for table in tables)) == [
        *(None, None, [], [], None, []),
        *([[]], []),
    ]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.float64(), pa.uint8(), pa.string()])
@pytest.mark.parametrize("apart", [True, False], ids=["tasks", "parts"])
def test_lists_of_one_length_each_are_of_any(tmp_path: Path, kind: Any, apart: bool) -> None:
    two = pa.array([["1", "2"]]).cast(pa.list_(pa.string(), 2)).cast(pa.list_(kind, 2))
    three = pa.array([["1", "2", "3"], None]).cast(pa.list_(kind)).cast(pa.list_(kind, 3))
    tables = [pa.table({"x": array}) for array in (two, three, OPEN[1])]
    tasks = [[table] for table in tables] if apart else [tables]
    found = written(tmp_path / "x", *tasks)
    assert found == [*two.to_pylist(), *three.to_pylist(), [], []]


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8])
@pytest.mark.parametrize("apart", [True, False], ids=["tasks", "parts"])
def test_arrays_may_differ_in_the_first_dimension(tmp_path: Path, dtype: Any, apart: bool) -> None:
    arrays = [np.ones((2, length, 2), dtype) for length in (3, 1)]
    parts = [{"x": array} for array in arrays]
    found = written(tmp_path / "x", *([[part] for part in parts] if apart else [parts]))
    assert found == [row for array in arrays for row in array.tolist()]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (OPEN[1], pa.array([1]), r"lists of shape \(None,\) without values in what task 0 wrote"),
        (pa.array([1]), OPEN[1], r"is int64 in what task 0 wrote, and lists .* task 1 wrote"),
        (pa.array([[[]]]), pa.array([[1]]), r"\(None, None\) without values .* int64 of shape"),
        (pa.array(["1"]), pa.array([1]).cast(pa.decimal128(19)), "task 1 wrote the part"),
    ],
)
def test_what_no_type_holds_names_tasks_and_types(
    tmp_path: Path, first: Any, second: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        written(tmp_path / "x", [pa.table({"x": first})], [pa.table({"x": second})])


def test_the_task_that_decided_is_named(tmp_path: Path) -> None:
    tasks = [[pa.table({"x": array})] for array in (pa.nulls(1), [0.5], [7])]
    with pytest.raises(ValueError, match=r"float64 in what task 1 wrote, and int64 in .* task 2"):
        written(tmp_path / "x", *tasks)


def test_categories_of_nulls_alone(tmp_path: Path) -> None:
    nulls = pd.Series([None, None], dtype=object).astype("category")
    frames = [pd.DataFrame({"x": nulls}), pd.DataFrame({"x": pd.Categorical(["a", "b"])})]
    assert written(tmp_path / "x", *([frame] for frame in frames)) == [None, None, "a", "b"]
    frames.reverse()
    assert written(tmp_path / "y", *([frame] for frame in frames)) == ["a", "b", None, None]


@pytest.mark.parametrize(
    "rows",
    [[[1], ["a"]], [["a"], [1]], [[1, 2], ["a"]], ["a", b"b"], [["a"], [b"b", b"c"]]],
    ids=str,
)
def test_mixed_objects_are_refused(tmp_path: Path, rows: list[Any]) -> None:
    frame = pd.DataFrame({"x": pd.Series(rows, dtype=object)})
    with pytest.raises(TypeError, match="'x'"):
        tfs.write_table(frame, str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


def test_rows_without_columns_are_refused(tmp_path: Path) -> None:
    empty = pa.Array.from_buffers(pa.struct([]), 5, [None])
    for table in (pd.DataFrame(index=range(5)), pa.RecordBatch.from_struct_array(empty)):
        with pytest.raises(ValueError, match="5 rows and no columns"):
            tfs.write_table(table, str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


LISTS_OF_PYTHON: list[Any] = [[[], []], [(), ()], [[], None], [[], []]]


@pytest.mark.parametrize("empty", LISTS_OF_PYTHON)
@pytest.mark.parametrize("full", [[[1], [2, 3]], [["a"], ["b"]], [[0.1], [0.2]]])
def test_lists_of_python_without_values_tell_no_type(
    tmp_path: Path, empty: list[Any], full: list[Any]
) -> None:
    """In whatever part of the table they come, or task of a job."""
    wanted = [None if row is None else list(row) for row in empty]
    for number, columns in enumerate(permutations([empty, full])):
        url = str(tmp_path / f"parts-{number}")
        tfs.write_table([{"x": column} for column in columns], url, exact=True)
        rows = tfs.read_table(url).to_arrow()["x"].to_pylist()
        assert rows == (wanted + full if columns[0] is empty else full + wanted)
        found = written(tmp_path / f"tasks-{number}", *([{"x": column}] for column in columns))
        assert found == rows


def test_arrays_without_values_tell_their_type(tmp_path: Path) -> None:
    tfs.write_table({"x": np.zeros((2, 0), np.int64)}, str(tmp_path / "t"))
    assert tfs.read_table(str(tmp_path / "t")).schema["x"] == tfs.Feature("int64", (0,))
    tfs.write_table({"x": [[], []]}, str(tmp_path / "t"), if_exists="append")
    assert tfs.read_table(str(tmp_path / "t"))["x"].shape == (4, 0)


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        ([[], []], (0,)),
        ([[[]], [[]]], (1, 0)),
        ([[], []], (None, 3)),
        ([[[], []], [[]]], (None, None)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "str", "int64"])
def test_lists_without_values_fit_shapes_without_values(
    tmp_path: Path, rows: list[Any], shape: Any, dtype: str
) -> None:
    schema = {"x": tfs.Feature(dtype, shape)}
    tfs.write_table({"x": rows}, str(tmp_path / "t"), schema=schema)
    assert tfs.read_table(str(tmp_path / "t")).schema["x"].shape == shape
