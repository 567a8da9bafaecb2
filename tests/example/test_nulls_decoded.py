"""How nulls are read: in one pass over the records, whatever these leave out, and into memory that
Arrow takes as it is. Both codecs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tfio_store import Feature, RecordBatch, Schema, decode_examples, encode_example
from tfio_store.example import codec as module
from tfio_store.example.arrow import to_arrow

NAMES = ("a", "b", "bb", "ab", "a_longer_name_of_a_feature")
SCHEMA = Schema({name: Feature("int64", nullable=True) for name in NAMES[:4]})


pytestmark = pytest.mark.usefixtures("codec")


@st.composite
def orders(draw: st.DrawFn) -> list[list[str]]:
    """The features of each record, in its own order, or in the order of the record before."""
    rows = [draw(st.permutations(NAMES))]
    for _ in range(draw(st.integers(0, 8))):
        rows.append(draw(st.permutations(NAMES)) if draw(st.booleans()) else rows[-1])
    return [[name for name in row if draw(st.integers(0, 3))] for row in rows]


@given(orders())
def test_features_may_come_in_any_order_and_be_left_out(rows):
    values = [{name: 10 * i + k for k, name in enumerate(row)} for i, row in enumerate(rows)]
    # The maps of several records, one entry each, make one record with entries in that order.
    records = [b"".join(encode_example({n: v}) for n, v in row.items()) for row in values]
    found = decode_examples(records, SCHEMA)
    for name in SCHEMA:
        assert found[name].tolist() == [row.get(name) for row in values]


@given(st.sets(st.text(max_size=3), min_size=2, max_size=30), st.data())
def test_features_that_nobody_wants_are_passed_over(names, data):
    wanted = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    values = {name: i for i, name in enumerate(sorted(names))}
    found = decode_examples([encode_example(values)], Schema(dict.fromkeys(wanted, "int64")))
    assert {name: int(column[0]) for name, column in found.items()} == {
        name: values[name] for name in wanted
    }


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
@pytest.mark.parametrize("nulls", [0, 1])
def test_arrow_takes_the_memory_of_the_values(dtype, nulls):
    records = [encode_example({"x": np.array(i, dtype)} if i else {}) for i in (0, 1, 2)][
        1 - nulls :
    ]
    if dtype == "float64":
        raw = [np.array(i, dtype).tobytes() for i in (1, 2)]
        records = records[:nulls] + [encode_example({"x": each}) for each in raw]
    schema = Schema({"x": Feature(dtype, raw=dtype == "float64", nullable=True)})
    found = decode_examples(records, schema)
    column = found.to_arrow()["x"].chunk(0)
    assert column.to_pylist() == [None] * nulls + [1, 2]
    assert column.buffers()[1].address == np.asarray(found["x"]).ctypes.data


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (("int64", (None,)), [[1, 2], None, [], [3]]),
        (("int64", (2,)), [[1, 2], None, [3, 4]]),
        (("str", ()), [None, "text", ""]),
        (("bytes", ()), [None, b"bytes", b""]),
        (("bool", ()), [True, None, False] * 5),
        (("float32", ()), [None, 1.5] + [2.5] * 30),
    ],
)
def test_nulls_are_those_that_arrow_makes(feature, column):
    schema = Schema({"x": Feature(*feature, nullable=True)})
    records = [encode_example({} if row is None else {"x": row}) for row in column]
    found = to_arrow(decode_examples(records, schema, strings="batch"), schema)["x"].chunk(0)
    found.validate(full=True)
    assert found.equals(pa.array(column, found.type))


def test_flags_are_one_for_each_record():
    batch = RecordBatch.from_records([encode_example({"x": 1})])
    locate = module._example.Spans.locate  # type: ignore[attr-defined]
    spans = locate(batch.buffer, batch.offsets, batch.lengths, [b"x"])
    for read in (spans.int64s, spans.floats, spans.objects, spans.spans, spans.joined):
        with pytest.raises(ValueError, match="valid must have a place for each record"):
            read(0, valid=np.empty(2, bool))
