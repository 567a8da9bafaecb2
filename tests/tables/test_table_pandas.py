"""Frames whose columns pandas or Arrow would change on the way: each comes back as it was."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfio_store import read_table, write_table

write_exactly = partial(write_table, exact=True)


def there_and_back(tmp_path: Path, table: Any) -> Any:
    write_exactly(table, f"{tmp_path}/t", num_shards=1)
    return read_table(f"{tmp_path}/t")


@pytest.mark.parametrize(
    "index",
    [pd.Index([7, 3]), pd.Index(["b", "a"], name="key"), pd.MultiIndex.from_tuples([(1, 2)] * 2)],
    ids=["numbers", "names", "two levels"],
)
def test_an_arrow_table_with_the_index_of_a_frame(tmp_path: Path, index: Any) -> None:
    frame = pd.DataFrame({"b": [3.0, 4.0], "a": ["x", None]}, index=index)
    found = there_and_back(tmp_path, pa.Table.from_pandas(frame))
    pd.testing.assert_frame_equal(found.to_pandas(), frame)
    some = read_table(f"{tmp_path}/t", columns=["a"]).to_pandas()
    assert some["a"].tolist() == frame["a"].tolist()
    found["more"] = np.array([1, 2])  # a column without an Arrow type
    wanted = frame.assign(more=[1, 2])
    pd.testing.assert_frame_equal(found.to_pandas(), wanted)


ROWS = {
    "arrays": [np.array([1, np.nan]), np.array([2.0, 3])],
    "other lengths": [np.array([1, np.nan]), np.array([2.0])],
    "lists": [[1.0, np.nan], [2.0]],
    "nulls": [np.array([1, np.nan]), None],
    "NaN for a null": [np.array([1, np.nan]), np.nan],
}


@pytest.mark.parametrize("name", ROWS)
def test_nan_inside_rows_is_a_number(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(ROWS[name], dtype=object)})
    first, second = there_and_back(tmp_path, frame).to_pandas()["x"]
    np.testing.assert_array_equal(first, [1, np.nan])
    assert (second is None) == frame["x"].isna()[1]


@pytest.mark.parametrize("missing", [[False, False, True], [False, False, False]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_beside_na(tmp_path: Path, dtype: Any, missing: list[bool]) -> None:
    values = pd.arrays.FloatingArray(np.array([1.5, np.nan, 3], dtype), np.array(missing))
    frame = pd.DataFrame({"x": values})
    found = there_and_back(tmp_path, frame)
    assert np.ma.getmaskarray(found["x"]).tolist() == missing
    assert np.isnan(np.ma.getdata(found["x"])[1])
    pd.testing.assert_frame_equal(found.to_pandas(), frame)


def test_sparse_columns_come_back_dense(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.arrays.SparseArray([1.5, np.nan, 0]), "s": ["a", "b", "c"]})
    found = there_and_back(tmp_path, frame).to_pandas()
    pd.testing.assert_frame_equal(found, frame.astype({"x": "float64"}))


OBJECTS: dict[str, list[Any]] = {
    "long integers": [2**60 + 1, None],
    "integers": [1, 2],
    "floats": [1.5, None],
    "flags": [True, None],
    "text": ["a", None],
    "bytes": [b"a", None],
    "decimals": [Decimal("1.5"), None],
    "times": [pd.Timestamp("2020-01-01"), None],
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_objects_again(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(OBJECTS[name], dtype=object)})
    found = there_and_back(tmp_path, frame).to_pandas()
    assert found["x"].dtype == object
    assert found["x"].tolist() == OBJECTS[name]
    assert [type(each) for each in found["x"]] == [type(each) for each in OBJECTS[name]]


@pytest.mark.parametrize("rows", [1, 2])
def test_nulls_inside_rows_are_refused(tmp_path: Path, rows: int) -> None:
    masked = np.ma.array([1, 2], mask=[False, True])
    row = masked if rows == 1 else [masked] * rows
    with pytest.raises(ValueError, match="'x': row 1 is null in part"):
        write_exactly(pd.DataFrame({"x": pd.Series([[1, 2], row])}), f"{tmp_path}/t")
    assert not list(tmp_path.iterdir())


def test_what_has_no_names_of_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"i": [1, 2]})
    for table, hint in (
        (frame["i"], r"give its to_frame\(\)"),
        (frame.to_records(), "for name in array.dtype.names"),
        (frame["i"].to_numpy(), "give a dict that names it"),
    ):
        with pytest.raises(TypeError, match=hint):
            write_table(table, tmp_path / "t")
