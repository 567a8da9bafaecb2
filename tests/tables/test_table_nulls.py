"""Tables with nulls: written, kept in the manifest, and read back by every door."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfio_store import (
    Feature,
    RecordReader,
    Schema,
    SchemaError,
    ShardedWriter,
    decode_examples,
    infer_schema,
    iter_tables,
    read_table,
    write_table,
)

write_exactly = partial(write_table, exact=True)

ARROW = pa.table(
    {
        "n": pa.array([1, None, 3, None], pa.int32()),
        "u": pa.array([None, 2**64 - 1, None, 0], pa.uint64()),
        "f": pa.array([0.5, None, float("nan"), None], pa.float64()),
        "flag": pa.array([True, False, None, None]),
        "s": pa.array(["é", None, "", None], pa.large_string()),
        "b": pa.array([None, b"\xff", b"", None], pa.large_binary()),
        "when": pa.array([0, None, 1, None], pa.timestamp("ms")),
        "list": pa.array([[1, 2], None, [], [3]], pa.large_list(pa.int64())),
        "pair": pa.array([[1.5, 2], None, [3, 4], None], pa.list_(pa.float32(), 2)),
        "words": pa.array([["a"], None, [], ["b", ""]], pa.large_list(pa.large_string())),
        "full": pa.array([1, 2, 3, 4]),
    }
)
COLUMNS = ARROW.column_names


def same(found: Any, wanted: Any) -> None:
    """Equal, NaNs too."""
    for name in wanted.column_names:
        assert found[name].type == wanted[name].type, name
        assert repr(found[name].to_pylist()) == repr(wanted[name].to_pylist()), name


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("strings", ["object", "batch"])
def test_arrow_there_and_back(tmp_path: Path, compression: str | None, strings: Any) -> None:
    write_exactly(ARROW, f"{tmp_path}/t", compression=compression, num_shards=1)
    same(read_table(f"{tmp_path}/t", columns=COLUMNS, strings=strings).to_arrow(), ARROW)
    schema = infer_schema(f"{tmp_path}/t")
    assert [name for name in schema if schema[name].nullable] == COLUMNS[:-1]


def test_nulls_may_come_in_a_later_part(tmp_path: Path) -> None:
    parts = [ARROW.slice(0, 1), ARROW.slice(1, 1), ARROW.slice(2)]
    manifest = write_exactly(parts, f"{tmp_path}/t", num_shards=1)
    assert manifest.schema is not None
    assert Schema.from_json(manifest.schema)["n"] == Feature("int32", nullable=True)
    same(read_table(f"{tmp_path}/t", columns=COLUMNS).to_arrow(), ARROW)


def test_a_chosen_feature_has_nulls_only_if_it_says_so(tmp_path: Path) -> None:
    parts: list[Any] = [{"x": [1, 2]}, {"x": [3, None]}]
    with pytest.raises(ValueError, match="'x': row 3 is null, where the schema has float32"):
        write_exactly(parts, f"{tmp_path}/t", schema={"x": "float32"})
    assert not list(tmp_path.iterdir())
    chosen = {"x": Feature("float32", nullable=True)}
    write_exactly(parts, f"{tmp_path}/t", schema=chosen)
    assert read_table(f"{tmp_path}/t")["x"].tolist() == [1, 2, 3, None]
    assert infer_schema(f"{tmp_path}/t") == Schema(chosen)


def test_pandas_there_and_back(tmp_path: Path) -> None:
    texts = pd.DataFrame({"s": ["a", None, ""], "list": [[1], None, []]})
    write_exactly(texts, f"{tmp_path}/s", num_shards=1)
    found = read_table(f"{tmp_path}/s").to_pandas()
    assert found["s"].isna().tolist() == found["list"].isna().tolist() == [False, True, False]
    write_exactly(pd.DataFrame({"x": [0.5, np.nan, 2]}), f"{tmp_path}/nan", nan_as_null=True)
    assert read_table(f"{tmp_path}/nan")["x"].tolist() == [0.5, None, 2]


def test_batches_are_joined(tmp_path: Path) -> None:
    rows: list[Any] = [None if i % 10 == 3 else f"{i} " * 40 for i in range(30_000)]
    write_exactly({"s": rows, "x": [None if row is None else 1 for row in rows]}, f"{tmp_path}/t")
    with RecordReader(f"{tmp_path}/t") as reader:
        assert len(list(reader.batches())) > 1
    for strings in ("object", "batch"):
        found = read_table(f"{tmp_path}/t", strings=strings)
        assert found.to_arrow()["s"].to_pylist() == rows
        assert found["x"].count() == 27_000
    assert read_table(f"{tmp_path}/t", nulls="nan", columns=["s"])["s"].tolist() == rows


def test_a_writer_takes_nulls_that_its_schema_allows(tmp_path: Path) -> None:
    schema = Schema({"x": Feature("int64", nullable=True), "y": "int64"})
    with ShardedWriter(f"{tmp_path}/t", num_shards=1, schema=schema) as writer:
        writer.write({"x": None, "y": 1})
        writer.write_batch([{"y": 2}, {"x": 3, "y": 3}])
        with pytest.raises(SchemaError, match="'y' is missing"):
            writer.write({"x": 3, "y": None})
    assert read_table(f"{tmp_path}/t")["x"].tolist() == [None, None, 3]


@pytest.mark.tensorflow
def test_tensors_have_no_nulls(tmp_path: Path) -> None:
    import tensorflow as tf

    from tfio_store import TFRecordDataset

    write_exactly(ARROW.select(["n", "f", "s", "list", "pair"]), f"{tmp_path}/t", num_shards=1)
    schema = infer_schema(f"{tmp_path}/t")
    with pytest.raises(ValueError, match=r"'n' is nullable, and tensors have no nulls.*with_def"):
        TFRecordDataset(f"{tmp_path}/t", schema=schema)
    defaults = schema.with_defaults({"n": -1, "f": -0.5, "s": "?", "pair": [7, 8]})
    (batch,) = TFRecordDataset(f"{tmp_path}/t", batch_size=4, schema=defaults)
    assert batch["n"].numpy().tolist() == [1, -1, 3, -1]
    assert repr(batch["f"].numpy().tolist()) == "[0.5, -0.5, nan, -0.5]"
    assert batch["s"].numpy().tolist() == ["é".encode(), b"?", b"", b"?"]
    assert batch["list"].to_list() == [[1, 2], [], [], [3]]
    assert batch["pair"].numpy().tolist() == [[1.5, 2], [7, 8], [3, 4], [7, 8]]
    records = list(RecordReader(f"{tmp_path}/t"))
    parsed = tf.io.parse_example(records, defaults.feature_spec())
    assert parsed["n"].numpy().tolist() == batch["n"].numpy().tolist()
    ours = decode_examples(records, defaults, nulls="default")
    assert ours["pair"].tolist() == batch["pair"].numpy().tolist()


def test_manifests_without_the_word_are_read() -> None:
    old = {"features": {"x": {"dtype": "int64", "shape": []}}}
    assert Schema.from_json(old) == Schema({"x": "int64"})


def test_a_field_that_had_no_nulls_takes_those_of_later_rows(tmp_path: Path) -> None:
    full = pa.field("x", pa.int64(), nullable=False, metadata={"unit": "m"})
    first = pa.table({"x": pa.array([1])}, schema=pa.schema([full]))
    later: Any
    for later in (pa.table({"x": pa.array([None], pa.int64())}), {"x": [None]}):
        write_exactly([first, later], f"{tmp_path}/t", if_exists="overwrite")
        write_exactly(first, f"{tmp_path}/a", if_exists="overwrite")
        assert not read_table(f"{tmp_path}/a").to_arrow().schema.field("x").nullable
        write_exactly(later, f"{tmp_path}/a", if_exists="append")
        for url in (f"{tmp_path}/t", f"{tmp_path}/a"):
            for table in (read_table(url).to_arrow(), iter_tables(url).read_all()):
                table.validate(full=True)
                assert table.schema.field("x").equals(full.with_nullable(True), check_metadata=True)
                pq.write_table(table, f"{tmp_path}/p")
                assert pq.read_table(f"{tmp_path}/p")["x"].to_pylist() == [1, None]
