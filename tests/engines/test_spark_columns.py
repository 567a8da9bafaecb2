"""Which columns and options Spark's data source takes. Nothing here starts Spark: these are the
objects that it makes, in the processes and the order in which it makes them."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed

pytest.importorskip("pyspark", reason="Spark is not installed")

import pyarrow as pa
from pyspark.sql import types as sql

from tfio_store.spark import TFRecordDataSource
from tfio_store.spark.options import ReadOptions, WriteOptions

TABLE: dict[str, list[Any]] = {
    "number": [0, 1, 300],
    "bit": [1, 0, 1],
    "price": [0.5, 1.5, math.nan],
    "text": ["u", "v", "ж"],
    "bytes": [b"\xff", b"", b"z"],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    tfs.write_table(TABLE, str(tmp_path / "t"))
    return str(tmp_path / "t")


def columns(**kinds: Any) -> Any:
    return sql.StructType([sql.StructField(name, kind) for name, kind in kinds.items()])


def batches(options: dict[str, str], schema: Any = None) -> list[Any]:
    """What the tasks of one read give."""
    source = TFRecordDataSource(options)
    schema = source.schema() if schema is None else schema
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    tasks = [pickle.loads(pickle.dumps((reader, part))) for part in reader.partitions()]
    return [batch for task, part in tasks for batch in task.read(part)]


def rows(options: dict[str, str], schema: Any = None) -> list[dict[str, Any]]:
    return [row for batch in batches(options, schema) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("number", sql.ShortType(), [0, 1, 300]),
        ("number", sql.DoubleType(), [0.0, 1.0, 300.0]),
        ("number", sql.StringType(), ["0", "1", "300"]),
        ("bit", sql.BooleanType(), [True, False, True]),
        ("text", sql.BinaryType(), [b"u", b"v", "ж".encode()]),
    ],
)
def test_a_schema_of_the_users_with_other_types(
    url: str, name: str, kind: Any, wanted: list[Any]
) -> None:
    assert [row[name] for row in rows({"path": url}, columns(**{name: kind}))] == wanted


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("number", sql.ByteType(), "'number' can't become int8"),
        ("number", sql.BooleanType(), "'number' can't become bool: .* other numbers than 0 and 1"),
        ("price", sql.BooleanType(), "'price' can't become bool: .* other numbers than 0 and 1"),
        ("price", sql.LongType(), "'price' can't become int64"),
        ("bytes", sql.StringType(), "'bytes' can't become string"),
        ("number", sql.TimestampType(), "'number' is int64, .* nothing says the unit"),
        ("number", sql.TimestampNTZType(), "'number' is int64, .* nothing says the unit"),
        ("number", sql.ArrayType(sql.DateType()), "'number' is int64, .* nothing says the unit"),
        ("number", sql.ArrayType(sql.LongType()), "'number' can't become list"),
        ("text", sql.TimestampType(), "'text' can't become timestamp"),
    ],
)
def test_what_would_change_values_is_refused(url: str, name: str, kind: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"column {words}"):
        rows({"path": url}, columns(**{name: kind}))


def test_no_zone_is_made_up(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    here = pa.array([0], pa.timestamp("us", "Europe/Berlin"))
    tfs.write_table(pa.table({"moment": here, "clock": pa.array([0], pa.timestamp("s"))}), url)
    for name, kind in (("moment", sql.TimestampNTZType()), ("clock", sql.TimestampType())):
        with pytest.raises(ValueError, match=f"column '{name}' is .* or the zone"):
            rows({"path": url}, columns(**{name: kind}))
    (row,) = rows({"path": url})
    assert (row["moment"].isoformat(), row["clock"].isoformat()) == (
        "1970-01-01T00:00:00+00:00",
        "1970-01-01T00:00:00",
    )


def test_a_number_that_a_float_cannot_hold(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    tfs.write_table({"x": [[0.1, 1e300], [math.inf]]}, url, exact=True)
    with pytest.raises(ValueError, match=r"column 'x' can't become .*: a number is too large"):
        rows({"path": url}, columns(x=sql.ArrayType(sql.FloatType())))
    tfs.write_table({"x": [0.1, math.inf]}, url, if_exists="overwrite")
    assert [row["x"] for row in rows({"path": url}, columns(x=sql.FloatType()))] == [
        pytest.approx(0.1),
        math.inf,
    ]


def test_rows_of_no_columns_are_counted(url: str, tmp_path: Path) -> None:
    assert sum(batch.num_rows for batch in batches({"path": url}, sql.StructType([]))) == 3
    (tmp_path / "foreign").write_bytes(framed([b"", b""]))
    path = str(tmp_path / "foreign")
    assert sum(batch.num_rows for batch in batches({"path": path}, sql.StructType([]))) == 2


def test_several_datasets_of_one_schema(url: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    tfs.write_table(TABLE, other)
    for count in ("1", "2"):
        found = rows({"paths": json.dumps([url, other]), "numPartitions": count})
        assert [row["number"] for row in found] == TABLE["number"] * 2
    tfs.write_table({"z": [1]}, other, if_exists="overwrite")
    assert rows({"paths": json.dumps([url, other])})[-1] == {"record": tfs.encode_example({"z": 1})}


def test_options_that_contradict_each_other(url: str) -> None:
    chosen = columns(number=sql.LongType())
    with pytest.raises(ValueError, match="the columns number, and the option 'columns' text; "):
        rows({"path": url, "columns": "text"}, chosen)
    assert rows({"path": url, "columns": "number"}, chosen)[1:] == [{"number": 1}, {"number": 300}]
    for more in ({"schema": '{"a": "int64"}'}, {"inferSchema": "true"}):
        with pytest.raises(ValueError, match='"ByteArray" gives records as they are'):
            rows({"path": url, "recordType": "ByteArray", **more})
    with pytest.raises(ValueError, match='"ByteArray" writes bytes as they are'):
        WriteOptions.of(
            {"path": url, "recordType": "ByteArray", "schema": '{"a": "int64"}'}, overwrite=True
        )


def test_a_column_that_is_named_twice(url: str) -> None:
    twice = sql.StructType([sql.StructField("number", sql.LongType())] * 2)
    with pytest.raises(ValueError, match=r"schema\(\) names columns twice: number"):
        rows({"path": url}, twice)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("schema", '{"a": ["int64"]}'),
        ("schema", '{"a": ["int64", 3]}'),
        ("schema", '{"a": "int65"}'),
        ("schema", "a bigint"),
        ("columns", "[a]"),
        ("columns", "a,"),
        ("paths", "s3://b/t"),
        ("paths", '"abc"'),
        ("paths", "[1]"),
        ("numPartitions", "0"),
        ("maxPartitionBytes", "128m"),
        ("inferSchema", "yes"),
        ("onCorrupt", "ignore"),
        ("retry", '{"attemps": 3}'),
        ("storageOptions", "[]"),
    ],
)
def test_an_option_of_another_form(url: str, option: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"option '{option}': "):
        TFRecordDataSource({"path": url, option.lower(): text}).schema()


def test_credentials_are_not_shown() -> None:
    options = {"path": "s3://b/t", "storageOptions": '{"secret": "hush"}'}
    read, write = ReadOptions.of(options), WriteOptions.of(options, overwrite=False)
    assert read.storage.options == write.job["storage"].options == {"secret": "hush"}
    assert "hush" not in f"{read} {write}"


def writer(url: str, kinds: Any) -> Any:
    return TFRecordDataSource({"path": url}).writer(kinds, False)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (sql.StructType([sql.StructField("a", sql.LongType())]), r"select\('x.\*'\)"),
        (sql.ArrayType(sql.MapType(sql.StringType(), sql.LongType())), "which no feature is"),
        (sql.YearMonthIntervalType(), "column 'x' is interval year to month"),
        (sql.ArrayType(sql.NullType(), containsNull=False), "column 'x' is array<void>"),
    ],
)
def test_a_column_that_no_feature_is(tmp_path: Path, kind: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        writer(str(tmp_path / "t"), columns(x=kind))
    assert Place(str(tmp_path)).names() == []


def test_rows_without_columns_are_not_written_as_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the data frame has no columns"):
        writer(str(tmp_path / "t"), sql.StructType([]))
    assert Place(str(tmp_path)).names() == []


def test_sessions_of_two_zones_append_to_one_dataset(tmp_path: Path) -> None:
    """Spark's batches are in the zone of the session, and have large types if it is told so."""
    url = str(tmp_path / "t")
    for zone, text in (("America/New_York", pa.large_string()), ("Asia/Tokyo", pa.string())):
        moment = pa.array([0], pa.timestamp("us", zone))
        batch = pa.record_batch({"moment": moment, "text": pa.array(["ж"], text)})
        job = writer(url, columns(moment=sql.TimestampType(), text=sql.StringType()))
        job.commit([message(job._write(iter([batch]), 0))])
    table = tfs.read_table(url).to_arrow()
    assert str(table.schema.field("moment").type) == "timestamp[us, tz=UTC]"
    assert [row["text"] for row in rows({"path": url})] == ["ж", "ж"]


@pytest.mark.parametrize("record_type", ["Example", "ByteArray"])
def test_a_commit_without_tasks_runs_twice(tmp_path: Path, record_type: str) -> None:
    """Spark has one message, which is None, of a data frame without partitions."""
    url = str(tmp_path / "t")
    source = TFRecordDataSource({"path": url, "recordType": record_type})
    job = pickle.dumps(source.writer(columns(x=sql.BinaryType()), False))
    for _ in range(2):
        pickle.loads(job).commit([None])
        assert tfs.count(url) == 0
    assert tfs.clean(url, older_than=0).objects == ()


def message(result: Any) -> Any:
    from tfio_store.spark.writing import Written

    return Written(result)
