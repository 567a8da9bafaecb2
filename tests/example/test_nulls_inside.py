"""Nulls inside rows: a record has no place for them, so they are errors in all their forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfio_store import (
    Feature,
    Nullable,
    Ragged,
    RecordBatch,
    Schema,
    SchemaError,
    decode_examples,
    encode_example,
    encode_examples,
)

MASKED = np.ma.array([1, 2, 3], mask=[False, True, False])
ARRAYS: dict[str, Any] = {
    "masked": MASKED,
    "Arrow": pa.array([16777217, None]),
    "Arrow text": pa.array(["a", None]),
    "an Arrow chunk": pa.chunked_array([pa.array([1]), pa.array([None], pa.int64())]),
    "Int64": pd.array([16777217, None], dtype="Int64"),
    "a series": pd.Series([1, None], dtype="Int64"),
    "text": pd.Series(["a", None]),
    "objects": pd.Series([b"a", None], dtype=object),
    "an index": pd.Index(["a", None]),
    "categories": pd.Categorical(["a", None]),
    "Nullable": Nullable(["a", "b"], np.array([True, False])),
}


pytestmark = pytest.mark.usefixtures("codec")


PLACES: dict[str, Callable[[Any], Any]] = {
    "rows of equal length": lambda row: [row, row],
    "rows of other lengths": lambda row: [row, row[:1]],
    "a list of rows": lambda row: [[row, row]],
    "lists of rows": lambda row: [[row, row], [row]],
    "a pair": lambda row: (row, [0, len(row)]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ARRAYS)
def test_nulls_inside_rows_are_refused(name: str, place: str) -> None:
    with pytest.raises(ValueError, match=r"'x': .*null.*a row is null as a whole, or not at all"):
        encode_examples({"x": PLACES[place](ARRAYS[name])})


@pytest.mark.parametrize("name", ARRAYS)
def test_a_value_that_is_null_in_part_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"'x': 1 of . values are null; a feature is null as a"):
        encode_example({"x": ARRAYS[name]})


@pytest.mark.parametrize("name", ARRAYS)
def test_no_ragged_holds_nulls(name: str) -> None:
    column = ARRAYS[name]
    with pytest.raises(ValueError, match="1 nulls inside rows"):
        Ragged(column, [0, len(column)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 nulls inside rows"):
        Ragged.from_rows([column])


NULL_ROWS = {
    "masked": np.ma.masked_all(2, int),
    "Arrow": pa.nulls(2),
    "Int64": pd.array([None, None], dtype="Int64"),
    "a series": pd.Series([None, None], dtype="string"),
}


@pytest.mark.parametrize("name", NULL_ROWS)
def test_a_row_whose_values_are_all_null_is_null(name: str) -> None:
    row = NULL_ROWS[name]
    assert encode_example({"x": row}) == encode_example({})
    assert encode_examples({"x": [[1, 2], row]})[1] == encode_example({})


@pytest.mark.parametrize(
    "row",
    [
        np.ma.array([1, 2]),
        pa.array([1, 2]),
        pd.array([1, 2], dtype="Int64"),
        pd.Series([1, 2]),
        pd.Index([1, 2]),
    ],
    ids=lambda row: type(row).__name__,
)
def test_rows_without_nulls_may_be_any_array(row: Any) -> None:
    wanted = [encode_example({"x": [1, 2]}), encode_example({"x": [1]})]
    assert encode_examples({"x": [row, row[:1]]}).tolist() == wanted
    assert encode_examples({"x": [row, row]}).tolist() == [wanted[0]] * 2
    assert encode_example({"x": row}) == wanted[0]
    empty = encode_examples({"x": [row, row[:0]]})
    assert empty[1] != encode_example({})  # no values, and no null


def test_nan_inside_rows_is_a_number() -> None:
    row = pd.Series([1.5, np.nan])
    assert encode_examples({"x": [row, row]})[0] == encode_example({"x": [1.5, np.nan]})
    assert encode_example({"x": row}) == encode_example({"x": [1.5, np.nan]})


def test_a_batch_without_nulls_in_a_ragged() -> None:
    batch = RecordBatch.from_records([b"a", b"b"])
    assert encode_examples({"x": Ragged(batch, [0, 2])})[0] == encode_example({"x": [b"a", b"b"]})  # type: ignore[arg-type]


A_THEN_NULL = [encode_example({"x": 1}), encode_example({})]
NULLABLE_COLUMNS: dict[str, Any] = {
    "an array of pandas": pd.array([1, None], dtype="Int64"),
    "objects of an index": pd.Index([1, None], dtype=object),
    "Arrow in Nullable": Nullable(pa.array([1, None]), np.array([True, True])),
    "both have nulls": Nullable(pa.array([1, 5]), np.array([True, False])),
    "a list in Nullable": Nullable([1, None], np.array([True, False])),
    "a masked array in Nullable": Nullable(
        np.ma.array([1, 2], mask=[False, True]), np.ones(2, bool)
    ),
    "rows that mean nothing": Nullable([[1], [2, 3]], np.array([True, False])),
    "flags that lie apart": Nullable(np.array([1, 2]), np.array([True, True, False])[::2]),
}


@pytest.mark.parametrize("name", NULLABLE_COLUMNS)
def test_nulls_of_a_column_in_all_their_forms(name: str) -> None:
    assert encode_examples({"x": NULLABLE_COLUMNS[name]}).tolist() == A_THEN_NULL


@pytest.mark.parametrize("column", [pd.Index(["a", None]), pd.Categorical(["a", None])], ids=type)
def test_text_of_pandas_with_nulls(column: Any) -> None:
    wanted = [encode_example({"x": "a"}), encode_example({})]
    assert encode_examples({"x": column}).tolist() == wanted


RECORDS: Any = np.ma.array(np.zeros(1, "i4,i4"), mask=np.ones(1, "?,?"))


def test_errors_name_the_feature() -> None:
    with pytest.raises(ValueError, match="'x': row 1 is null, and must be empty"):
        encode_examples({"x": Nullable(pa.array([[1], [2, 3]]), np.array([True, False]))})
    with pytest.raises(TypeError, match=r"'x': dtype .* can't be encoded"):
        encode_examples({"x": RECORDS})
    with pytest.raises(TypeError, match=r"'x': dtype .* can't be encoded"):
        encode_example({"x": RECORDS})
    for value in (np.timedelta64(5), [np.timedelta64(5)]):
        with pytest.raises(TypeError, match=r"'x': dtype timedelta64.*can't be encoded"):
            encode_example({"x": value})


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("nulls", ["mask", "default"])
def test_row_lengths_of_a_null(raw: bool, nulls: Any) -> None:
    schema = Schema({"x": Feature("int64", (None, None), nullable=True, raw=raw)})
    records = [encode_example({}), encode_example({"x/row_lengths": [0, 0]})]
    with pytest.raises(
        SchemaError, match="holds 2 row lengths, and the record has no 'x'"
    ) as found:
        decode_examples(records, schema, nulls=nulls)
    assert (found.value.feature, found.value.record) == ("x/row_lengths", 1)
