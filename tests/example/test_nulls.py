"""Nulls: a record holds one by lacking the feature. Both codecs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tests.support.examples import entry, field, int64s, strings, wire_example
from tfio_store import (
    Feature,
    Nullable,
    Ragged,
    RecordBatch,
    Schema,
    SchemaError,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_examples,
    encode_sequence_example,
    infer_schema,
)
from tfio_store.example import decoding

ABSENT = wire_example()


pytestmark = pytest.mark.usefixtures("codec")


def nullable(dtype: str, shape: tuple[int | None, ...] = (), **more: Any) -> Schema:
    return Schema({"x": Feature(dtype, shape, nullable=True, **more)})


ONE_NULL: dict[str, tuple[Any, bytes]] = {
    "None": ([1, None], int64s(1)),
    "pandas.NA": ([1, pd.NA], int64s(1)),
    "masked": ([1, np.ma.masked], int64s(1)),
    "NaT and text": (["a", pd.NaT], strings(b"a")),
    "bytes": ([b"a", None], strings(b"a")),
    "lists": ([[1, 2], None], int64s(1, 2)),
    "an empty list is none": ([[], None], field(1, b"")),
    "a masked array": (np.ma.array([1, 9], mask=[False, True]), int64s(1)),
    "rows that are masked": (
        np.ma.array([[1, 2], [3, 4]], mask=np.array([[0, 0], [1, 1]], bool)),
        int64s(1, 2),
    ),
    "Int64": (pd.Series([1, None], dtype="Int64"), int64s(1)),
    "boolean": (pd.Series([True, None], dtype="boolean"), int64s(1)),
    "pandas text": (pd.Series(["a", None]), strings(b"a")),
    "pandas objects": (pd.Series([b"a", np.nan], dtype=object), strings(b"a")),
    "categories": (pd.Series(["a", None], dtype="category"), strings(b"a")),
    "Arrow": (pa.array([1, None]), int64s(1)),
    "Arrow text": (pa.array(["a", None]), strings(b"a")),
    "Arrow binary": (pa.array([b"a", None]), strings(b"a")),
    "Arrow lists": (pa.array([[1, 2], None]), int64s(1, 2)),
    "Arrow fixed lists": (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), int64s(1, 2)),
    "Arrow flags": (pa.array([True, None]), int64s(1)),
    "a chunk": (pa.chunked_array([pa.array([1]), pa.array([None], pa.int64())]), int64s(1)),
    "a slice": (pa.array([5, 1, None, 7]).slice(1, 2), int64s(1)),
    "a sliced list": (pa.array([[5], [1, 2], None, [7]]).slice(1, 2), int64s(1, 2)),
    "Nullable": (Nullable(RecordBatch.from_records([b"a", b"z"]), [True, False]), strings(b"a")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ONE_NULL)
def test_a_null_is_a_feature_that_the_record_lacks(name):
    column, first = ONE_NULL[name]
    assert encode_examples({"x": column}).tolist() == [wire_example(entry(b"x", first)), ABSENT]


@pytest.mark.parametrize("null", [None, pd.NA, pd.NaT, np.ma.masked, pa.scalar(None, pa.int64())])
def test_nulls_of_one_record_are_left_out(null):
    assert encode_example({"a": null, "x": 1, "z": null}) == wire_example(entry(b"x", int64s(1)))
    masked = np.ma.array([1, 2], mask=[True, True])
    assert encode_example({"x": masked}) == ABSENT
    assert encode_example({"x": np.ma.array([1, 2])}) == encode_example({"x": [1, 2]})


def test_what_is_null_in_part_is_refused():
    with pytest.raises(ValueError, match="'x': a list holds a null"):
        encode_example({"x": [1, None]})
    with pytest.raises(ValueError, match="'x': 1 of 2 values are null"):
        encode_example({"x": np.ma.array([1, 2], mask=[False, True])})
    with pytest.raises(ValueError, match="'x': row 1 is null in part"):
        encode_examples({"x": np.ma.array([[1, 2], [3, 4]], mask=np.array([[0, 0], [0, 1]], bool))})
    with pytest.raises(ValueError, match="'x': 1 nulls inside its lists"):
        encode_examples({"x": pa.array([[1], [2, None]])})
    with pytest.raises((TypeError, ValueError), match="'x'"):
        encode_examples({"x": [[1, 2], [None, 3]]})
    with pytest.raises(TypeError, match="'x': a step is null"):
        encode_sequence_example({}, {"x": [1, None]})


def test_nan_is_a_null_only_on_request():
    for column in ([1.5, np.nan], pd.Series([1.5, np.nan]), pa.array([1.5, np.nan])):
        assert encode_examples({"x": column})[1] != ABSENT
        assert encode_examples({"x": column}, nan_as_null=True)[1] == ABSENT


def test_nat_is_a_null():
    dates = np.array([1, "NaT"], "M8[s]")
    raw = {"x": Feature("datetime64[s]", raw=True, nullable=True)}
    for column in (dates, pd.Series(dates), dates.astype("m8[s]"), pa.array(dates)):
        assert encode_examples({"x": column})[1] == ABSENT
    assert encode_examples({"x": dates}, schema=raw)[1] == ABSENT
    assert encode_example({"x": dates[1]}) == encode_example({"x": dates[1:]}) == ABSENT
    with pytest.raises(ValueError, match="'x': row 1 is null in part"):
        encode_examples({"x": np.array([[1, 2], [3, "NaT"]], "M8[s]")})
    with pytest.raises(ValueError, match="'x': row 0 is null in part"):
        encode_examples({"x": Ragged(dates, np.array([0, 2, 2]))})
    with pytest.raises(ValueError, match="'x': 1 of 2 values are NaT"):
        encode_example({"x": dates})


def test_a_schema_that_is_not_nullable_refuses_nulls():
    with pytest.raises(ValueError, match=r"'x': row 1 is null, where the schema has int64 that is"):
        encode_examples({"x": [1, None]}, schema={"x": "int64"})


@pytest.mark.parametrize(
    "feature",
    [
        Feature("uint8", nullable=True),
        Feature("float32", (2,), nullable=True),
        Feature("str", nullable=True),
        Feature("bytes", (2,), nullable=True),
        Feature("int64", (None,), nullable=True),
        Feature("float32", (None, None), nullable=True),
        Feature("datetime64[s]", raw=True, nullable=True),
        Feature("float64", (None, 2), raw=True, nullable=True),
    ],
    ids=str,
)
def test_a_column_of_nulls_alone(feature):
    batch = encode_examples({"x": [None, None]}, schema={"x": feature})
    assert batch.tolist() == [ABSENT] * 2
    assert masks_as_none(decode_examples(batch, {"x": feature})["x"]) == [None, None]


# ---- decoding ----------------------------------------------------------------------------------


ROWS: dict[str, tuple[Feature, list[Any]]] = {
    "ints": (Feature("int64", nullable=True), [1, None, 3]),
    "small ints": (Feature("uint8", nullable=True), [1, None, 255]),
    "flags": (Feature("bool", nullable=True), [True, None, False]),
    "floats": (Feature("float32", nullable=True), [None, 1.5, None]),
    "raw floats": (Feature("float64", nullable=True, raw=True), [0.1, None, 0.3]),
    "text": (Feature("str", nullable=True), ["é", None, ""]),
    "bytes": (Feature("bytes", nullable=True), [b"\xff", None, b""]),
    "pairs": (Feature("int64", (2,), nullable=True), [[1, 2], None, [3, 4]]),
    "pairs of text": (Feature("str", (2,), nullable=True), [["a", ""], None, ["b", "c"]]),
    "raw pairs": (Feature("float64", (2,), nullable=True, raw=True), [[0.1, 0.2], None, [1, 2]]),
    "lists": (Feature("int64", (None,), nullable=True), [[1, 2], None, [], [3]]),
    "lists of text": (Feature("str", (None,), nullable=True), [["a"], None, [], None]),
    "lists of pairs": (Feature("float32", (None, 2), nullable=True), [[[1, 2]], None, []]),
    "raw lists": (Feature("float64", (None,), nullable=True, raw=True), [[0.1], None, []]),
    "nested": (Feature("int64", (None, None), nullable=True), [[[1], []], None, [], [[2, 3]]]),
    "no values": (Feature("float32", (0,), nullable=True), [[], None, []]),
}


def masks_as_none(column):
    """Rows as lists; a masked row as None."""
    if not isinstance(column, np.ma.MaskedArray):
        return column.tolist()
    if column.ndim == 1:
        return column.tolist()
    return [None if row.mask.all() else row.tolist() for row in column]


def ragged(feature: Feature, rows: list[Any]):
    splits = np.cumsum([0, *map(len, rows)])
    flat = [item for row in rows for item in row]
    if feature.nested:
        return Ragged(ragged(Feature(feature.dtype, (None,)), flat), splits)
    values = np.empty((len(flat), *feature.row_shape), feature.item_dtype())
    values[:] = np.array(flat, feature.item_dtype()).reshape(values.shape)
    return Ragged(values, splits)


def given_column(feature: Feature, rows: list[Any]):
    valid = np.array([row is not None for row in rows])
    if feature.ragged:
        return Nullable(ragged(feature, [[] if row is None else row for row in rows]), valid)
    return rows if feature.width else Nullable(np.zeros((len(rows), 0), np.float32), valid)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("in_batches", [False, True])
def test_there_and_back(name, in_batches):
    feature, rows = ROWS[name]
    schema = {"x": feature, "y": "int64"}
    columns = {"x": given_column(feature, rows), "y": list(range(len(rows)))}
    found = decode_examples(
        encode_examples(columns, schema=schema),  # type: ignore[arg-type]
        schema,  # type: ignore[arg-type]
        strings="batch" if in_batches else "object",
    )
    assert found["y"].tolist() == columns["y"]
    column = found["x"]
    if in_batches and feature.wire == "bytes" and not feature.raw:
        assert isinstance(column, Nullable)
        if feature.ragged:
            got = [None if row is None else [each.decode() for each in row] for row in column]
            assert got == rows
        elif feature.shape == ():
            text = [row.encode() if isinstance(row, str) else row for row in rows]
            assert column.tolist() == text
        return
    assert masks_as_none(column) == rows
    if feature.width and not feature.ragged:
        assert column.dtype == feature.item_dtype()
        assert column.shape == (len(rows), *feature.shape)


@pytest.mark.parametrize("name", ROWS)
def test_tables_have_real_nulls(name):
    feature, rows = ROWS[name]
    schema = Schema({"x": feature})
    batch = encode_examples({"x": given_column(feature, rows)}, schema=schema)
    found = decode_examples(batch, schema)
    arrow = found.to_arrow()
    assert arrow["x"].null_count == rows.count(None)
    assert arrow["x"].to_pylist() == pytest.approx(rows) if name == "floats" else rows
    frame = found.to_pandas()
    assert frame["x"].isna().tolist() == [row is None for row in rows]
    again = encode_examples({"x": arrow["x"]}, schema=schema)
    assert again.tolist() == batch.tolist()


def test_what_nulls_become():
    rows = {"f": [1.5, None], "i": [1, None], "s": ["a", None], "r": [[1], None]}
    batch = encode_examples(rows)
    schema = infer_schema(batch)
    assert schema == Schema(
        {
            "f": Feature("float32", nullable=True),
            "i": Feature("int64", nullable=True),
            "s": Feature("bytes", nullable=True),
            "r": Feature("int64", nullable=True),
        }
    )
    found = decode_examples(batch, schema.select(["f", "s"]), nulls="nan")
    assert np.isnan(found["f"][1])
    assert not isinstance(found["f"], np.ma.MaskedArray)
    assert found["s"].tolist() == [b"a", None]
    with pytest.raises(ValueError, match="'i': int64 has no NaN"):
        decode_examples(batch, schema, nulls="nan")
    with pytest.raises(ValueError, match="'f' is nullable and has no default"):
        decode_examples(batch, schema, nulls="default")
    defaults = schema.with_defaults({"f": -1, "i": 7, "s": "?", "r": 0})
    found = decode_examples(batch, defaults, nulls="default")
    assert {name: column.tolist() for name, column in found.items()} == {
        "f": [1.5, -1], "i": [1, 7], "s": [b"a", b"?"], "r": [1, 0],
    }  # fmt: skip
    assert decode_examples(batch, defaults)["i"].filled().tolist() == [1, 7]
    with pytest.raises(ValueError, match="nulls must be"):
        decode_examples(batch, schema, nulls="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a RecordBatch has no place for the nulls"):
        decode_examples(batch, defaults, nulls="default", strings="batch")
    ragged = {"x": Feature("int64", (None,), nullable=True)}
    found = decode_examples([ABSENT], ragged, nulls="default")
    assert found["x"].tolist() == [[]]
    dates = nullable("datetime64[s]", raw=True)
    assert np.isnat(decode_examples([ABSENT], dates, nulls="nan")["x"]).all()


def test_records_that_are_neither_null_nor_right():
    batch = [encode_example({"x": [1, 2]}), ABSENT, encode_example({"x": [1]})]
    with pytest.raises(SchemaError, match="record 2: feature 'x' holds 1 values, where 2 are"):
        decode_examples(batch, nullable("int64", (2,)))
    with pytest.raises(SchemaError, match="record 1: feature 'x' holds bytes"):
        decode_examples([ABSENT, encode_example({"x": "a"})], nullable("int64"))
    with pytest.raises(SchemaError, match="record 2: feature 'x' holds 300, which does not fit"):
        decode_examples([ABSENT, ABSENT, encode_example({"x": 300})], nullable("uint8"))
    with pytest.raises(SchemaError, match="record 1: feature 'x' is not UTF-8"):
        decode_examples([ABSENT, encode_example({"x": b"\xff"})], nullable("str"))
    with pytest.raises(SchemaError, match="record 1: feature 'x' holds 3 bytes"):
        decode_examples([ABSENT, encode_example({"x": b"abc"})], nullable("uint16", raw=True))
    with pytest.raises(SchemaError, match="record 0: feature 'x' is missing"):
        decode_examples([ABSENT], {"x": "int64"})
    with pytest.raises(ValueError, match="a step of a feature list is never null"):
        decode_sequence_examples([ABSENT], {}, nullable("int64"))


def test_other_writers_nulls():
    """A feature without a list, and one whose list is empty, are nulls of a fixed shape, and empty
    rows of a ragged one."""
    forms = [wire_example(entry(b"x", b"")), wire_example(entry(b"x", field(3, b""))), ABSENT]
    found = decode_examples(forms, nullable("int64"))["x"]
    assert found.tolist() == [None] * 3
    found = decode_examples(forms, nullable("int64", (None,)))["x"]
    assert found.tolist() == [[], [], None]


def test_room_for_nulls_is_limited():
    with pytest.raises(MemoryError, match="'x': with it, nulls and defaults would take"):
        decode_examples([ABSENT] * 3, nullable("int64", (2**38,)))


@pytest.mark.parametrize("absent", [{"nullable": True}, {"default": 7}])
def test_room_for_nulls_and_defaults_is_that_of_all_columns(monkeypatch, absent):
    monkeypatch.setattr(decoding, "MOST_ROOM", 100)
    feature = Feature("int64", (2,), **absent)
    full, empty = encode_example({"x": [1, 2], "y": [3, 4]}), ABSENT
    schema = Schema({"x": feature, "plain": ("int64", (None,)), "y": feature})
    assert len(decode_examples([empty] * 3 + [full] * 40, schema)["x"]) == 43
    with pytest.raises(MemoryError, match="'y': with it, nulls and defaults would take 128 bytes"):
        decode_examples([empty] * 4, schema)
    with pytest.raises(SchemaError, match=r"record 4: feature 'x' holds 1 values, where 2 are"):
        decode_examples([full] * 4 + [encode_example({"x": 1})], schema)


def test_json_keeps_nullable():
    schema = nullable("int64", default=7)
    text = json.dumps(schema.to_json())
    assert '"nullable": true' in text
    assert Schema.from_json(json.loads(text)) == schema
    assert "nullable" not in json.dumps(Schema({"x": "int64"}).to_json())
    assert "int64 (nullable)" in repr(schema)


def test_inferred_where_values_are_missing():
    records = [encode_example({"a": 1, "r": [1, 2]}), encode_example({"a": 1, "s": "x", "r": [1]})]
    assert infer_schema([*records, ABSENT]) == Schema(
        {
            "a": Feature("int64", nullable=True),
            "r": Feature("int64", (None,), nullable=True),
            "s": Feature("bytes", nullable=True),
        }
    )
    assert infer_schema(records)["a"] == Feature("int64")


def test_nullable_of_what_does_not_fit():
    with pytest.raises(ValueError, match="valid must hold 2 flags"):
        Nullable([b"a", b"b"], [True])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row 1 is null, and must be empty"):
        Nullable(Ragged.from_rows([[1], [2]]), [True, False])  # type: ignore[arg-type]
    column = Nullable([b"a", b"b"], [True, False])  # type: ignore[arg-type]
    assert list(column[1:]) == [None]


CELLS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "float32": st.floats(width=32, allow_nan=False),
    "bytes": st.binary(max_size=4),
    "str": st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
}


@st.composite
def columns(draw):
    dtype = draw(st.sampled_from(sorted(CELLS)))
    shape = draw(st.sampled_from([(), (2,), (None,), (None, None)]))
    cell = CELLS[dtype]
    for dim in reversed(shape):
        cell = st.lists(cell, min_size=dim or 0, max_size=3 if dim is None else dim)
    return Feature(dtype, shape, nullable=True), cell


@given(st.data())
def test_any_rows_there_and_back(data):
    rows = data.draw(st.integers(0, 4))
    schema, table, wanted = {}, {}, {}
    for name in data.draw(st.sets(st.text(max_size=2), max_size=3)):
        feature, cell = data.draw(columns())
        schema[name] = feature
        cells = st.lists(st.none() | cell, min_size=rows, max_size=rows)
        rows_given = data.draw(cells)
        table[name] = given_column(feature, rows_given)
        wanted[name] = rows_given
    found = decode_examples(encode_examples(table, schema=schema), schema)
    for name, cells in wanted.items():
        assert masks_as_none(found[name]) == cells
        arrow = found.to_arrow()[name] if len(found) else None
        assert arrow is None or arrow.to_pylist() == cells
