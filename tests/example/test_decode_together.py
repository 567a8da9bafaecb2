"""Columns of numbers that one call decodes are those that are decoded one by one."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tfio_store.example import codec

NUMBERS = st.integers(-(2**63), 2**63 - 1)
KINDS: dict[str, Any] = {
    "a": "int64",
    "b": ("float32", (2,)),
    "c": "uint8",
    "d": tfs.Feature("int64", (3,)),
    "e": "bool",
    "f": ("int64", (None,)),
    "g": tfs.Feature("float32", nullable=True),
    "h": tfs.Feature("int64", default=7),
    "i": "float64",
    "j": "bytes",
}


def outcome(records: list[bytes], schema: dict[str, Any]) -> Any:
    try:
        found = tfs.decode_examples(records, schema)
    except (tfs.SchemaError, tfs.CorruptRecordError) as error:
        return str(error), getattr(error, "record", None)
    return {name: (column.dtype if hasattr(column, "dtype") else None, column.tolist())
            for name, column in found.items()}  # fmt: skip


values = st.one_of(
    NUMBERS,
    st.integers(0, 1),
    st.lists(st.integers(0, 3), max_size=4),
    st.floats(width=32, allow_nan=False),
    st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
    st.binary(max_size=3),
)


@settings(max_examples=300)
@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefghij"), values, max_size=10), max_size=4),
    st.sets(st.sampled_from("abcdefghij"), min_size=1),
)
def test_together_is_one_by_one(rows: list[dict[str, Any]], names: set[str]) -> None:
    records = [tfs.encode_example(row) for row in rows]
    schema = {name: KINDS[name] for name in sorted(names)}
    with patch.object(codec, "decode_fixed", lambda *_: {}):
        wanted = outcome(records, schema)
    assert outcome(records, schema) == wanted


@pytest.mark.parametrize("x", [0, 255, 256, -1])
def test_a_number_that_does_not_fit_is_named(x: int) -> None:
    records = [tfs.encode_example({"x": 1, "y": 2}), tfs.encode_example({"x": x, "y": 2})]
    schema = {"x": "uint8", "y": "uint8"}
    if 0 <= x < 256:
        found = tfs.decode_examples(records, schema)
        assert found["x"].tolist() == [1, x]
        assert found["x"].dtype == np.uint8
        return
    with pytest.raises(tfs.SchemaError) as caught:
        tfs.decode_examples(records, schema)
    assert (caught.value.feature, caught.value.record) == ("x", 1)


def together_of(batches: list[tfs.RecordBatch], schema: tfs.Schema) -> dict[str, Any] | None:
    """Decoded by a thread of C, if it can be."""
    forms = codec.NumberForms.of(schema)
    if forms is None:
        return None
    numbers = forms.columns(batches)
    here = forms.columns(batches).result()
    if numbers.begin(3, 2):
        numbers.begins(0.01)
    found = numbers.result()
    assert (found is None) == (here is None)
    return None if found is None else found[0]


@settings(max_examples=300)
@given(
    st.lists(
        st.lists(st.dictionaries(st.sampled_from("abcdei"), values, max_size=6), max_size=3),
        min_size=1,
        max_size=4,
    ),
    st.sets(st.sampled_from("abcdei"), min_size=1),
)
def test_several_batches_are_one(parts: list[list[dict[str, Any]]], names: set[str]) -> None:
    """As decoded each by itself; or not at all, where a record is unusual."""
    schema = tfs.Schema({name: KINDS[name] for name in sorted(names)})
    batches = [tfs.RecordBatch.from_records(map(tfs.encode_example, rows)) for rows in parts]
    found = together_of(batches, schema)
    together = outcome([record for batch in batches for record in batch], schema)  # type: ignore[arg-type]
    if found is None:
        return
    assert {name: (column.dtype, column.tolist()) for name, column in found.items()} == together


def test_sound_batches_of_numbers_are_decoded_at_once() -> None:
    if tfs.backend().core == "pure":
        pytest.skip("the pure core decodes each by itself")
    schema = tfs.Schema({"a": "int64", "b": ("float32", (2,))})
    rows = [{"a": i, "b": [float(i), -i / 2]} for i in range(7)]
    records = [tfs.encode_example(row) for row in rows]
    batches = [
        tfs.RecordBatch.from_records(records[at:end]) for at, end in ((0, 3), (3, 3), (3, 7))
    ]
    found = together_of(batches, schema)
    assert found is not None
    assert found["a"].tolist() == list(range(7))
    assert found["b"].tolist() == [[i, -i / 2] for i in range(7)]
    for feature in ("bytes", ("int64", (None,)), tfs.Feature("int64", default=1)):
        assert together_of(batches, tfs.Schema({"a": "int64", "b": feature})) is None
    assert together_of([*batches, tfs.RecordBatch.from_records([b"\xff"])], schema) is None
