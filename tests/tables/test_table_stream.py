"""`iter_tables`: batches of the rows asked for, of the table's types, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfio_store as tfs
from tests.support.examples import entry, wire_example
from tfio_store import (
    CorruptRecordError,
    Feature,
    SchemaError,
    ShardedWriter,
    TFRecordWriter,
    decode_examples,
    encode_example,
    iter_tables,
    read_table,
    write_table,
)
from tfio_store.errors import DataLossWarning

ROWS = 5000
TABLE = pa.table(
    {
        "s": pa.array([None if i % 7 == 0 else f"é{i}" * 50 for i in range(ROWS)]),
        "n": pa.array([None if i % 3 == 0 else i for i in range(ROWS)], pa.int16()),
        "when": pa.array(range(ROWS), pa.timestamp("s", tz="Europe/Paris")),
        "list": pa.array([[str(j) for j in range(i % 3)] for i in range(ROWS)]),
        "kind": pa.array([f"{i % 5}" for i in range(ROWS)]).dictionary_encode(),
        "pair": pa.array([["a", "b"]] * ROWS, pa.list_(pa.string(), 2)),
    }
).replace_schema_metadata({"made": "here"})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"{tmp_path_factory.mktemp('tables')}/t"
    write_table(TABLE, url, max_shard_bytes=1 << 20, compression="GZIP")
    return url


@pytest.mark.parametrize("rows", [None, 1, 999, 5000, 7000])
def test_the_table_comes_in_batches(url: str, rows: int | None) -> None:
    reader = iter_tables(url, batch_rows=rows)
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.equals(TABLE.schema, check_metadata=True)
    batches = list(reader)
    assert pa.Table.from_batches(batches).equals(TABLE)
    if rows is not None:
        assert {batch.num_rows for batch in batches[:-1]} <= {rows}
    else:
        assert len(batches) > 1


def test_columns(url: str) -> None:
    assert iter_tables(url, columns=["n", "s"]).read_all().equals(TABLE.select(["n", "s"]))
    with pytest.raises(KeyError, match="no feature 'z'"):
        iter_tables(url, columns=["z"])
    with pytest.raises(ValueError, match="batch_rows must be at least 1"):
        iter_tables(url, batch_rows=0)


def test_a_stream_is_a_table_that_can_be_written(url: str, tmp_path: Path) -> None:
    write_table(iter_tables(url), f"{tmp_path}/t", num_shards=1)
    assert read_table(f"{tmp_path}/t").to_arrow().equals(TABLE)


def test_foreign_files(tmp_path: Path) -> None:
    with TFRecordWriter(f"{tmp_path}/f") as writer:
        for x in range(10):
            writer.write({"x": x} | ({"late": 1.5} if x == 9 else {}))
    found = iter_tables(f"{tmp_path}/f", batch_rows=4).read_all()
    assert found["x"].to_pylist() == list(range(10))
    assert found["late"].to_pylist() == [None] * 9 + [1.5]


def test_a_bad_record_is_an_error_of_its_batch(tmp_path: Path) -> None:
    with TFRecordWriter(f"{tmp_path}/f") as writer:
        writer.write(encode_example({"x": "a"}))
    with pytest.raises(SchemaError, match="'x' holds bytes"):
        iter_tables(f"{tmp_path}/f", schema={"x": "int64"}).read_all()


def test_no_rows(tmp_path: Path) -> None:
    write_table(TABLE[:0], f"{tmp_path}/t")
    assert iter_tables(f"{tmp_path}/t").read_all().equals(TABLE[:0])
    assert iter_tables(f"{tmp_path}/t", batch_rows=3).read_all().num_rows == 0


def test_it_holds_a_batch_at_a_time(tmp_path: Path) -> None:
    rows: Any = ({"x": np.zeros((256, 1024), np.float32)} for _ in range(64))
    write_table(rows, f"{tmp_path}/t")  # 64 MiB
    before = pa.total_allocated_bytes()
    for batch in iter_tables(f"{tmp_path}/t", batch_rows=500):
        assert batch.num_rows <= 500
        assert pa.total_allocated_bytes() - before < 24 << 20


def test_a_dictionary_that_is_not_kept(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    parts = [
        pa.table({"x": pa.array([f"{j}-{i}" + "z" * 9000 for i in range(100)]).cast(kind)})
        for j in range(3)
    ]
    write_table(parts, f"{tmp_path}/t", num_shards=1)
    found = iter_tables(f"{tmp_path}/t", batch_rows=300).read_all()["x"]
    assert found.to_pylist() == [text for part in parts for text in part["x"].to_pylist()]
    assert found.type == read_table(f"{tmp_path}/t").to_arrow()["x"].type
    assert found.type == pa.dictionary(pa.int32(), pa.string())


TEXTS: dict[str, tuple[Any, list[Any]]] = {
    "one": ("str", [b"ok", b"\xff"]),
    "nullable": (tfs.Feature("str", nullable=True), [None, b"\xff"]),
    "two": (("str", (2,)), [[b"ok", b"ok"], [b"ok", b"\xff"]]),
    "ragged": (("str", (None,)), [[b"a", b"b", b"c"], [b"\xff"]]),
    "ragged and null": (tfs.Feature("str", (None,), nullable=True), [None, [b"a", b"\xff"]]),
    "rows of two": (("str", (None, 2)), [[[b"a", b"b"]] * 2, [[b"a", b"\xff"]]]),
    "nested": (("str", (None, None)), [[[b"a"], [b"b", b"c"]], [[], [b"\xff"]]]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_not_text_is_named(tmp_path: Path, name: str) -> None:
    feature, values = TEXTS[name]
    if name == "nested":
        values = [tfs.Ragged.from_rows(rows) for rows in values]
    records = [encode_example({"x": value}) for value in values]
    schema = tfs.Schema({"x": feature})
    decoded = tfs.decode_examples(records, schema, strings="batch")
    with pytest.raises(SchemaError, match=r"'x' is not UTF-8.*decode it as dtype 'bytes'") as found:
        decoded.to_arrow()
    assert (found.value.record, found.value.feature) == (1, "x")
    with TFRecordWriter(f"{tmp_path}/f") as writer:
        for record in records:
            writer.write(record)
    with pytest.raises(SchemaError, match="record 1: feature 'x' is not UTF-8"):
        iter_tables(f"{tmp_path}/f", schema=schema).read_all()


@pytest.mark.parametrize("rows", [None, 1, 7, 1000])
def test_rows_without_columns_are_counted(tmp_path: Path, rows: int | None) -> None:
    url = str(tmp_path / "train")
    with ShardedWriter(url, max_shard_records=10) as writer:
        for i in range(25):
            writer.write({"x": i})
    with iter_tables(url, schema={"x": "int64"}, columns=[], batch_rows=rows) as stream:
        counts = [batch.num_rows for batch in stream]
    assert sum(counts) == 25
    if rows is not None:
        assert counts == [rows] * (25 // rows) + [25 % rows] * (25 % rows > 0)
    assert iter_tables(url, schema={}, batch_rows=rows).read_all().num_rows == 25


@pytest.mark.parametrize("dtype", ["str", "bytes"])
def test_nulls_of_no_strings(tmp_path: Path, dtype: str) -> None:
    url, schema = str(tmp_path / "train"), {"x": Feature(dtype, (0,), nullable=True)}
    records = [wire_example(entry(b"x", b"")), wire_example(), wire_example(entry(b"x", b""))]
    with ShardedWriter(url, num_shards=1, schema=schema) as writer:
        writer.write_batch(records)
    assert iter_tables(url).read_all()["x"].to_pylist() == [[], None, []]
    found = decode_examples(records, schema, strings="batch")["x"]
    assert found.valid.tolist() == [True, False, True]


# Damage.


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("columns", [None, []])
def test_damaged_rows_are_passed_by(tmp_path: Path, manifest: bool, columns: Any) -> None:
    write_table({"x": range(100)}, tmp_path / "t", num_shards=1)
    (shard,) = tmp_path.glob("t-*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    source = tmp_path / "t" if manifest else shard
    with pytest.raises(CorruptRecordError):
        read_table(source)
    with pytest.raises(CorruptRecordError):
        iter_tables(source).read_all()
    with pytest.raises(ValueError, match="on_corrupt= takes"):
        iter_tables(source, on_corrupt="pass")
    with pytest.warns(DataLossWarning, match="1 damaged region"):
        found = read_table(source, on_corrupt="skip")["x"].tolist()
    assert len(found) == 99
    assert set(found) < set(range(100))
    regions: list[Any] = []
    table = iter_tables(source, columns=columns, on_corrupt=regions.append).read_all()
    assert len(regions) == 1
    assert table.num_rows == 99
    assert columns is not None or table["x"].to_pylist() == found
