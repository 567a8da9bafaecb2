"""Tables there and back: dicts of columns, pandas, pyarrow; projection; what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfio_store import (
    Ragged,
    RecordBatch,
    RecordReader,
    Schema,
    SchemaError,
    ShardedWriter,
    TFRecordWriter,
    infer_schema,
    read_table,
    write_table,
)

N = 1000
RNG = np.random.default_rng(3)
COLUMNS = {
    "i": np.arange(N),
    "small": np.arange(N, dtype=np.int8),
    "u": np.arange(N, dtype=np.uint64) + np.uint64(2**63),
    "f": RNG.random(N, dtype=np.float32),
    "d": RNG.random(N),
    "half": RNG.random(N).astype(np.float16),
    "c": RNG.random(N) + 1j,
    "flag": RNG.random(N) > 0.5,
    "when": np.arange(N).astype("M8[ms]"),
    "pixels": RNG.integers(0, 256, (N, 4, 4, 3), dtype=np.uint8),
    "matrix": RNG.random((N, 2, 3)),
    "text": [f"é{i}" for i in range(N)],
    "blob": [b"\xff\0" * (i % 5) for i in range(N)],
    "fixed": np.array([b"ab", b"c"] * (N // 2)),
    "ragged": Ragged(np.arange(N * 2), np.arange(N + 1) * 2),
    "words": Ragged.from_rows([["w"] * (i % 3) for i in range(N)]),
    "vectors": Ragged(RNG.random((N, 3)).astype("f4"), np.arange(N + 1)),
    "nested": Ragged.from_rows([[[i], [i, i]] for i in range(N)]),
}


def plain(column):
    if isinstance(column, RecordBatch):
        return column.tolist()
    return column if isinstance(column, list) else column.tolist()


def test_there_and_back_on_every_storage(place):
    where = {"storage_options": place.storage_options}
    url = place.url("t/all")
    manifest = write_table(
        COLUMNS, url, max_shard_bytes=100_000, compression="GZIP", exact=True, **where
    )
    assert manifest.records == N
    assert len(manifest.shards) > 1
    found = read_table(url, **where)
    assert list(found) == list(COLUMNS)
    for name, column in COLUMNS.items():
        assert plain(found[name]) == plain(column), name
        if isinstance(column, np.ndarray) and name != "fixed":
            assert found[name].dtype == column.dtype
            assert found[name].shape == column.shape
    batched = read_table(url, strings="batch", **where)
    assert batched["blob"].tolist() == COLUMNS["blob"]
    assert batched["words"].row_splits.tolist() == COLUMNS["words"].row_splits.tolist()


def test_projection_does_not_decode_the_rest(tmp_path):
    with ShardedWriter(f"{tmp_path}/t", num_shards=1) as writer:
        writer.write({"x": 1, "y": "not a number"})
    found = read_table(f"{tmp_path}/t", schema={"y": "float32", "x": "int64"}, columns=["x"])
    assert found["x"].tolist() == [1]
    with pytest.raises(SchemaError, match="'y' holds bytes"):
        read_table(f"{tmp_path}/t", schema={"y": "float32", "x": "int64"})
    with pytest.raises(KeyError, match="no feature 'z'; there are x, y"):
        read_table(f"{tmp_path}/t", columns=["z"])
    with pytest.raises(TypeError, match=r"columns= .* not one: pass \['x'\]"):
        read_table(f"{tmp_path}/t", columns="x")


def test_columns_come_in_the_order_asked_for(tmp_path):
    write_table({"a": [1], "b": [2.5], "c": ["x"]}, f"{tmp_path}/t")
    assert list(read_table(f"{tmp_path}/t", columns=["c", "a"])) == ["c", "a"]


@pytest.mark.parametrize("url", ["t", "t@3"])
def test_rows_keep_their_order_over_shards(tmp_path, url):
    """What comes back joins by position with what was written."""
    shards = None if "@" in url else 3
    for count in (0, 2, 8, 100):
        for table in (
            {"x": np.arange(count)},
            pd.DataFrame({"x": np.arange(count)}),
            pa.table({"x": np.arange(count)}),
        ):
            manifest = write_table(
                table, f"{tmp_path}/{url}", num_shards=shards, if_exists="overwrite"
            )
            sizes = [shard.records for shard in manifest.shards]
            assert len(sizes) == 3
            assert max(sizes) - min(sizes) <= 1
            assert read_table(f"{tmp_path}/t")["x"].tolist() == list(range(count))


def test_many_tables_are_written_one_after_another(tmp_path):
    write_table(({"x": [i, i + 1], "s": [str(i)] * 2} for i in (0, 2, 4)), f"{tmp_path}/t")
    assert read_table(f"{tmp_path}/t")["x"].tolist() == list(range(6))
    with pytest.raises(ValueError, match="same names"):
        write_table([{"x": [1]}, {"y": [1]}], f"{tmp_path}/bad")
    with pytest.raises(ValueError, match=r"row 1 holds 1.5 .* fit int64"):
        write_table([{"x": [1]}, {"x": [1.5]}], f"{tmp_path}/bad")
    assert not list(tmp_path.glob("*bad*"))


def test_a_schema_says_how_columns_are_written(tmp_path):
    write_table({"p": [0.1, 0.2], "q": [1.5, 2.5]}, f"{tmp_path}/t", schema={"p": "float32"})
    schema = infer_schema(f"{tmp_path}/t")
    assert schema == Schema({"p": "float32", "q": "float32"})
    assert read_table(f"{tmp_path}/t")["p"].tolist() == np.float32([0.1, 0.2]).tolist()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="schema= names 'z': no column 'z'; there are"):
        write_table({"p": [1]}, f"{tmp_path}/u", schema={"z": "int64"})


def test_a_dataset_without_a_schema_is_looked_at(tmp_path):
    with ShardedWriter(f"{tmp_path}/t", num_shards=2) as writer:
        writer.write_batch({"x": i, "s": str(i)} for i in range(10))
    found = read_table(f"{tmp_path}/t")
    assert sorted(found["x"].tolist()) == list(range(10))
    assert found["s"].dtype == object


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (3, TypeError, "not int"),
        ("text", TypeError, "not str"),
        ([3], TypeError, "holds a int, which has no columns"),
        ({"x": [1], "y": [1, 2]}, ValueError, "same number of rows"),
        (pa.table({"x": [[1, None]]}), ValueError, "feature 'x': 1 nulls inside its lists"),
        (pd.DataFrame({1: [1]}), TypeError, "a column 1; names must be str, not int"),
        ({1: [1]}, TypeError, "a column 1; names must be str, not int"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), ValueError, "two columns 'x'"),
        (pa.table([[1], [2]], ["x", "x"]), ValueError, "two columns 'x'"),
        (pa.table({"x": [{"a": 1}]}), TypeError, "'x': Arrow type struct<.*flatten"),
        (
            pa.table({"x": pa.array([[(1, 2)]], pa.map_("int8", "int8"))}),
            TypeError,
            "'x': Arrow type map",
        ),
        (pa.table({"x": [[[[1]]]]}), ValueError, "'x': only the first dimension may be None"),
        (pa.table({"x": [[[{"a": 1}]]]}), TypeError, "'x': Arrow type struct"),
    ],
    ids=str,
)
def test_what_is_no_table(table, error, says, tmp_path):
    with pytest.raises(error, match=says):
        write_table(table, f"{tmp_path}/t")
    assert list(tmp_path.iterdir()) == []


def test_empty_tables(tmp_path):
    write_table({"x": np.empty((0, 3), np.float32), "s": []}, f"{tmp_path}/t")
    found = read_table(f"{tmp_path}/t")
    assert found["x"].shape == (0, 3)
    assert list(RecordReader(f"{tmp_path}/t")) == []


def test_a_foreign_file_is_read_by_the_schema_of_all_its_records(tmp_path):
    with TFRecordWriter(f"{tmp_path}/foreign") as writer:
        for x in range(1500):
            writer.write({"x": [x] if x != 1260 else [x, x], **({"late": 7} if x > 1400 else {})})
    found = read_table(f"{tmp_path}/foreign")
    assert found["x"][1260].tolist() == [1260, 1260]
    assert found["late"].count() == 99
    assert list(infer_schema(f"{tmp_path}/foreign")) == ["x"]  # that looks at 1,000
