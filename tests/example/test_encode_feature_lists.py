"""Tables with feature lists as SequenceExamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.examples import FLOATS, INT64S
from tfio_store import (
    Feature,
    Nullable,
    Ragged,
    RecordBatch,
    Schema,
    decode_examples,
    encode_examples,
    encode_sequence_example,
)
from tfio_store.example import codec as codec_module, pure

pytestmark = pytest.mark.usefixtures("codec")


def steps(dtype: str, *step: int | None, nullable: bool = False) -> Feature:
    return Feature(dtype, (None, *step), nullable=nullable, sequence=True)


SCHEMA = Schema(
    {
        "one": steps("int64"),
        "id": "int64",
        "pair": steps("float32", 2),
        "some": steps("str", None),
        "null": steps("bytes", nullable=True),
    }
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": INT64S,
            "one": st.lists(INT64S, max_size=3),
            "pair": st.lists(st.tuples(FLOATS, FLOATS).map(list), max_size=3),
            "some": st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=3),
            "null": st.none() | st.lists(st.binary(max_size=5), max_size=3),
        }
    ),
    min_size=1,
    max_size=5,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ROWS)
def test_a_table_is_written_as_its_rows_are(rows: list[dict[str, Any]]) -> None:
    columns = {name: [row[name] for row in rows] for name in SCHEMA}
    batch = encode_examples(columns, schema=SCHEMA)
    for row, record in zip(rows, batch, strict=True):
        lists = {name: value for name, value in row.items() if value is not None and name != "id"}
        assert bytes(record) == encode_sequence_example({"id": row["id"]}, lists)
    found = decode_examples(batch, SCHEMA)
    for name in SCHEMA.keys() - {"pair"}:
        assert found[name].tolist() == columns[name]
    pairs = [pair for row in columns["pair"] for pair in row]
    assert np.array_equal(found["pair"].values, np.reshape(pairs, (-1, 2)), equal_nan=True)
    again = encode_examples(found, schema=SCHEMA)
    assert list(map(bytes, again)) == list(map(bytes, batch))


@pytest.mark.parametrize(
    ("column", "step"),
    [
        (np.array([[1, 2], [3, 4]]), ()),
        (np.array([[[1, 2]], [[3, 4]]]), (2,)),
        (np.array([[[1, 2]], [[3, 4]]]), (None,)),
        (Ragged(np.array([[1, 2], [3, 4]]), np.array([0, 2, 2])), (2,)),
        (Ragged(np.array([[1, 2], [3, 4]]), np.array([0, 2, 2])), (None,)),
        ([[[1, 2]], [[3, 4], [5, 6]]], (2,)),
        ([[[1], [2, 3]], []], (None,)),
        ([[], []], (None,)),
        ([[], []], (2,)),
        ([[[]]], (None,)),
        ([[[], []], []], (None,)),
        (Nullable(Ragged(np.array([1, 2]), np.array([0, 2, 2])), np.array([True, False])), ()),
    ],
)
def test_forms_of_a_column(column: Any, step: tuple[int | None, ...]) -> None:
    schema = {"x": steps("int64", *step, nullable=isinstance(column, Nullable))}
    found = decode_examples(encode_examples({"x": column}, schema=schema), schema)
    wanted = column.tolist() if hasattr(column, "tolist") else column
    assert found["x"].tolist() == wanted


def test_strings_of_a_batch() -> None:
    schema = {"x": steps("bytes"), "y": steps("bytes", None)}
    words = RecordBatch.from_records([b"a", b"", b"bc"])
    columns = {
        "x": Ragged(words, np.array([0, 2, 3])),
        "y": Ragged(Ragged(words, np.array([0, 2, 3])), np.array([0, 1, 2])),
    }
    found = decode_examples(encode_examples(columns, schema=schema), schema)
    assert found["x"].tolist() == [[b"a", b""], [b"bc"]]
    assert found["y"].tolist() == [[[b"a", b""]], [[b"bc"]]]


def test_no_rows_and_no_context() -> None:
    schema = {"x": steps("int64"), "y": steps("str", None)}
    assert len(encode_examples({"x": [], "y": []}, schema=schema)) == 0
    (record,) = encode_examples({"x": [[]], "y": [[]]}, schema=schema)
    assert bytes(record) == encode_sequence_example({}, {"x": [], "y": []})


@pytest.mark.parametrize(
    ("column", "step", "says"),
    [
        ([1, 2], (), "rows of single values, where the schema has a feature list"),
        ([["a"], ["b"]], (), "row 0 is str, where the schema has int64"),
        ([[1], [2.5]], (), "row 1 holds 2.5"),
        ([[[1, 2]], [[3]]], (2,), "two ragged levels, where the schema has the shape"),
        ([[1], [2, 3]], (None,), "at most one ragged level, where"),
        ([[[[1]], [[2]]], [[[3]]]], (None,), "two ragged levels|can't be"),
        ([[1], None], (), "row 1 is null"),
        ([[[]]], (), "two ragged levels, where the schema has"),
        ([[[], []]], (2,), "two ragged levels, where the schema has"),
        (np.zeros((1, 2, 0)), (2,), "steps of shape \\(0,\\), where the schema has"),
        ([[[1, 2, 3]]], (2,), "rows of shape \\(None, 3\\), where the schema has"),
    ],
)
def test_what_is_no_feature_list(column: Any, step: tuple[int | None, ...], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"feature 'x'.*({says})"):
        encode_examples({"x": column}, schema={"x": steps("int64", *step)})


def test_the_columns_have_one_number_of_rows() -> None:
    schema = Schema({"id": "int64", "x": steps("int64")})
    with pytest.raises(ValueError, match="they have: 'id' 2, 'x' 1"):
        encode_examples({"id": [1, 2], "x": [[1]]}, schema=schema)
    with pytest.raises(ValueError, match=r"not so: \['x'\]"):
        encode_examples({"id": [1, 2]}, schema=schema)


VALUES, SPLITS = np.arange(4), np.array([0, 1, 4])


@pytest.mark.parametrize(
    ("steps_", "inner", "width", "valid", "says"),
    [
        (np.array([0, 2]), SPLITS, 1, None, "3 numbers that rise from 0"),
        (np.array([1, 1, 2]), SPLITS, 1, None, "3 numbers that rise from 0"),
        (np.array([0, 2, 1]), SPLITS, 1, None, "3 numbers that rise from 0"),
        (np.array([0, 1, 3]), SPLITS, 1, None, "row_splits must be 4 numbers"),
        (np.array([0, 1, 3]), None, 1, None, "4 values, 3 wanted"),
        (np.array([0, 1, 2]), None, -2, None, "values"),
        (np.array([0, 1, 2]), SPLITS, 1, np.array([True]), "1 flags of nulls, 2 wanted"),
    ],
)
def test_both_codecs_check_sizes(
    steps_: Any, inner: Any, width: int, valid: Any, says: str
) -> None:
    compiled = codec_module._example  # type: ignore[attr-defined]
    for module in (compiled, pure):
        with pytest.raises(ValueError, match=f"feature 'x': .*{says}"):
            module.encode_sequence_columns([], [(b"x", VALUES, steps_, inner, width, valid)], 2)


@pytest.mark.parametrize("sequence", [True, False])
@pytest.mark.parametrize("shape", [(2,), (2, 2), (1, 2, 3)])
@pytest.mark.parametrize("dtype", ["int64", "float32", "str"])
def test_lists_of_fixed_dimensions(dtype: str, shape: tuple[int, ...], sequence: bool) -> None:
    """Rows that differ in number are lists of lists, whose inner lengths are those of the shape."""
    one = np.arange(np.prod(shape)).reshape(shape)
    given: Any = (one.astype(str).astype(object) if dtype == "str" else one.astype(dtype)).tolist()
    schema = {"x": Feature(dtype, (None, *shape), sequence=sequence)}
    rows: Any
    for rows in ([[given], []], [[given], [given, given]], [[given] * 2] * 2, [[], []]):
        found = decode_examples(encode_examples({"x": rows}, schema=schema), schema)["x"]
        assert found.tolist() == rows
    arrays = [[np.array(given, object if dtype == "str" else dtype)], []]
    found = decode_examples(encode_examples({"x": arrays}, schema=schema), schema)["x"]
    assert found.tolist() == [[given], []]


@pytest.mark.parametrize("sequence", [True, False])
def test_lists_of_other_dimensions(sequence: bool) -> None:
    schema = {"x": Feature("int64", (None, 2, 2), sequence=sequence)}
    for odd in ([[1, 2], [3]], [[1, 2]], [1, 2, 3, 4], [[[1, 2]], [[3, 4]]]):
        with pytest.raises(ValueError, match=r"feature 'x'.*where the schema has"):
            encode_examples({"x": [[odd], []]}, schema=schema)
