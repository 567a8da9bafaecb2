"""Tables that are appended to a dataset: old and new rows are one table, or nothing is appended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfio_store import (
    Feature,
    Schema,
    ShardedWriter,
    WriteJob,
    encode_example,
    infer_schema,
    iter_tables,
    read_table,
    write_table,
)

DATES = pd.DataFrame({"x": pd.to_datetime(["2020-01-01"]).as_unit("us")})


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("days", [([1, None], [2]), ([1], [None]), (["a"], [None]), ([0.5], [1])])
def test_a_day_after_another(tmp_path: Path, days: tuple[list[Any], list[Any]]) -> None:
    for rows in days:
        write_table({"x": rows}, f"{tmp_path}/t", if_exists="append")
    assert read_table(f"{tmp_path}/t")["x"].tolist() == [row for rows in days for row in rows]


MISFITS: dict[str, tuple[Any, Any, str]] = {
    "finer dates": (DATES, DATES.assign(x=DATES.x.dt.as_unit("ns")), r"timestamp\[ns\].*\[us\]"),
    "integers that floats round": (
        {"x": [0.5]},
        {"x": np.array([2**64 - 1], np.uint64)},
        "row 0 holds 18446744073709551615 .*float32",
    ),
    "integers behind text": ({"x": ["a"]}, {"x": [1]}, "row 0 is int64.*str"),
    "fractions behind integers": ({"x": [1]}, {"x": [0.5]}, "row 0 holds 0.5 .*int64"),
    "ragged behind fixed": ({"x": [[1, 2]]}, {"x": [[1, 2], [3]]}, r"shape \(None,\).*\(2,\)"),
    "zones": (
        pa.table({"x": pa.array([1], pa.timestamp("s", "UTC"))}),
        pa.table({"x": pa.array([1], pa.timestamp("s"))}),
        r"Arrow type timestamp\[s\]",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, name: str) -> None:
    old, new, complaint = MISFITS[name]
    write_table(old, f"{tmp_path}/t")
    before = files(tmp_path)
    with pytest.raises((TypeError, ValueError), match=rf"feature '[xy]'.*{complaint}"):
        write_table(new, f"{tmp_path}/t", if_exists="append")
    assert files(tmp_path) == before


def test_a_chosen_type_must_be_that_of_the_dataset(tmp_path: Path) -> None:
    write_table({"x": [1]}, f"{tmp_path}/t")
    with pytest.raises(ValueError, match=r"feature 'x' is .*int64.* in the dataset, .*float32"):
        write_table({"x": [1]}, f"{tmp_path}/t", if_exists="append", schema={"x": "float32"})
    write_table({"x": [0.1]}, f"{tmp_path}/f", schema={"x": "float32"})
    write_table({"x": [0.5]}, f"{tmp_path}/f", if_exists="append")
    assert read_table(f"{tmp_path}/f")["x"].dtype == np.float32


def test_arrow_types_of_both(tmp_path: Path) -> None:
    codes = pa.dictionary(pa.int8(), pa.string())
    days = [
        pa.table({"c": pa.array(["a", "b"]).cast(codes), "n": pa.array([1, 2], pa.int32())}),
        pa.table({"c": pa.array(["z", None]).cast(codes), "n": pa.array([3, None], pa.int32())}),
        pa.table({"c": pa.array(["b"]).cast(codes), "n": pa.array([None])}),
    ]
    for day in days:
        write_table(day, f"{tmp_path}/t", if_exists="append")
    write_table({"n": [4], "c": ["a"]}, f"{tmp_path}/t", if_exists="append")
    found = read_table(f"{tmp_path}/t").to_arrow()
    assert found.schema.equals(days[0].schema)
    assert found["c"].to_pylist() == ["a", "b", "z", None, "b", "a"]
    assert found["n"].to_pylist() == [1, 2, 3, None, None, 4]
    assert iter_tables(f"{tmp_path}/t").read_all().to_pylist() == found.to_pylist()


def test_an_empty_dataset_takes_any_schema(tmp_path: Path) -> None:
    write_table({"x": np.zeros(0)}, f"{tmp_path}/t")
    write_table({"y": ["a"]}, f"{tmp_path}/t", if_exists="append")
    assert read_table(f"{tmp_path}/t")["y"].tolist() == ["a"]


def test_rows_that_come_in_between(tmp_path: Path) -> None:
    """The commit looks again: another writer may have appended since this one began."""
    write_table({"x": [1]}, f"{tmp_path}/t")

    def parts(rows: list[Any], columns: Any) -> Any:
        yield {"x": rows}
        write_table(columns, f"{tmp_path}/t", if_exists="append")

    write_table(parts([2], {"x": [None]}), f"{tmp_path}/t", if_exists="append")
    assert read_table(f"{tmp_path}/t")["x"].tolist() == [1, None, 2]

    def replaced() -> Any:
        yield {"x": [3]}
        write_table({"x": ["a"]}, f"{tmp_path}/t", if_exists="overwrite")

    with pytest.raises(ValueError, match=r"feature 'x' is .*'str'.* in the dataset, .*'int64'"):
        write_table(replaced(), f"{tmp_path}/t", if_exists="append")
    assert read_table(f"{tmp_path}/t")["x"].tolist() == ["a"]


@pytest.mark.parametrize("writer", [ShardedWriter, WriteJob])
def test_writers_with_a_schema(tmp_path: Path, writer: Any) -> None:
    url = f"{tmp_path}/t"
    write_table({"x": [1]}, url)
    before = files(tmp_path)
    for other in ({"x": "float32"}, {"x": ("int64", (1,))}):
        with pytest.raises(ValueError, match="feature 'x'"):
            writer(url, num_shards=1, if_exists="append", schema=other)
    assert files(tmp_path) == before
    nullable = Schema({"x": Feature("int64", nullable=True)})
    with writer(url, num_shards=1, if_exists="append", schema=nullable) as open_writer:
        if writer is WriteJob:
            open_writer.commit([open_writer.write_shard(0, [{"x": None}])])
        else:
            open_writer.write({"x": None})
    assert infer_schema(url) == nullable
    assert read_table(url)["x"].tolist() == [1, None]


def test_records_without_a_schema(tmp_path: Path) -> None:
    """Nobody knows whether they are what a schema says that comes later."""
    with ShardedWriter(f"{tmp_path}/t", num_shards=1) as writer:
        writer.write(encode_example({"x": 1}))
    with pytest.raises(ValueError, match="append to has records and no schema"):
        write_table({"x": [0.5]}, f"{tmp_path}/t", if_exists="append")
    with ShardedWriter(f"{tmp_path}/t", num_shards=1, if_exists="append") as writer:
        writer.write(encode_example({"x": 2}))
    assert read_table(f"{tmp_path}/t")["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kept", "new", "wanted"),
    [
        (Feature("int64", default=1), Feature("int64"), Feature("int64", default=1)),
        (Feature("int64"), Feature("int64", default=1), Feature("int64", default=1)),
        (
            Feature("float32", default=float("nan"), nullable=True),
            Feature("float32", default=0.0, nullable=True),
            Feature("float32", default=float("nan"), nullable=True),
        ),
    ],
)
def test_defaults(tmp_path: Path, kept: Feature, new: Feature, wanted: Feature) -> None:
    url = str(tmp_path / "t")
    write_table({"x": [1, 2]}, url, schema={"x": kept})
    write_table({"x": [3]}, url, schema={"x": new}, if_exists="append")
    assert str(infer_schema(url)["x"]) == str(wanted)
    assert read_table(url)["x"].tolist() == [1, 2, 3]


def test_defaults_that_stand_for_other_values(tmp_path: Path) -> None:
    url, other = str(tmp_path / "t"), {"x": Feature("int64", default=2)}
    write_table({"x": [1]}, url, schema={"x": Feature("int64", default=1)})
    with pytest.raises(ValueError, match=r"feature 'x' is .*default=1.*default=2"):
        write_table({"x": [3]}, url, schema=other, if_exists="append")
