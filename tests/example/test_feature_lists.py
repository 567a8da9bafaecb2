"""Feature lists of SequenceExamples as columns, and how their schema is found."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.examples import entry, field, floats, int64s, wire_example
from tfio_store import (
    CorruptRecordError,
    Feature,
    Nullable,
    Schema,
    SchemaError,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_sequence_example,
    infer_schema,
)

pytestmark = pytest.mark.usefixtures("codec")


def steps(dtype: str, *step: int | None, nullable: bool = False) -> Feature:
    return Feature(dtype, (None, *step), nullable=nullable, sequence=True)


def lists(*entries: bytes) -> bytes:
    """A record of these feature lists alone."""
    return field(2, b"".join(entries))


RECORDS = [
    encode_sequence_example(
        {"id": i},
        {
            "label": [j % 2 for j in range(i)],
            "frame": [[0.5, float(j)] for j in range(i)],
            "words": [["a"] * j for j in range(i)],
        },
    )
    for i in (2, 0, 3)
]
SCHEMA = Schema(
    {
        "frame": steps("float32", 2),
        "id": "int64",
        "label": steps("int64"),
        "words": steps("bytes", None),
    }
)


def test_feature_lists_are_found_and_decoded_beside_the_context():
    assert infer_schema(RECORDS) == SCHEMA
    assert SCHEMA.sequence
    assert not Schema({"id": "int64"}).sequence
    found = decode_examples(RECORDS, SCHEMA)
    assert list(found) == list(SCHEMA)
    assert found["id"].tolist() == [2, 0, 3]
    assert found["label"].tolist() == [[0, 1], [], [0, 1, 0]]
    assert found["frame"].values.shape == (5, 2)
    assert found["frame"][2].tolist() == [[0.5, 0], [0.5, 1], [0.5, 2]]
    assert found["words"][2].tolist() == [[], [b"a"], [b"a", b"a"]]


def test_a_schema_with_feature_lists_goes_through_json():
    again = Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())))
    assert again == SCHEMA
    assert "sequence" not in Schema({"id": "int64"}).to_json()["features"]["id"]
    assert "float32 (sequence)" in repr(SCHEMA)


def test_strings_as_a_batch():
    record = encode_sequence_example({}, {"p": [["a", "b"], ["c", "d"]], "q": ["x", "y"]})
    schema = {"p": steps("bytes", 2), "q": steps("str")}
    found = decode_examples([record], schema, strings="batch")
    assert list(found["p"].values) == [b"a", b"b", b"c", b"d"]
    assert found["p"].row_splits.tolist() == [0, 4]
    table = found.to_arrow().to_pydict()
    assert table == {"p": [[[b"a", b"b"], [b"c", b"d"]]], "q": [["x", "y"]]}
    _, apart = decode_sequence_examples([record], {}, {"p": ("bytes", (2,))}, strings="batch")
    assert list(apart["p"].values) == [b"a", b"b", b"c", b"d"]


def test_a_feature_list_that_some_records_lack_is_nullable():
    records = [encode_sequence_example({}, {"x": [1]}), encode_sequence_example({}, {})]
    records.append(encode_sequence_example({}, {"x": []}))
    schema = infer_schema(records)
    assert schema == Schema({"x": steps("int64", nullable=True)})
    found = decode_examples(records, schema)["x"]
    assert isinstance(found, Nullable)
    assert found.tolist() == [[1], None, []]
    assert decode_examples(records, schema, nulls="default")["x"].tolist() == [[1], [], []]
    with pytest.raises(ValueError, match="feature 'x': a ragged feature has no NaN"):
        decode_examples(records, schema, nulls="nan")
    assert decode_examples(records, {"x": steps("int64")})["x"].tolist() == [[1], [], []]


def test_steps_that_vary_make_lists_of_lists():
    for values in ([[1], []], [[1, 2], [3]], [[], [1, 2, 3]]):
        record = encode_sequence_example({}, {"x": values})
        assert infer_schema([record]) == Schema({"x": steps("int64", None)})
        assert decode_examples([record], infer_schema([record]))["x"][0].tolist() == values


def test_a_feature_list_without_a_value_is_left_out():
    record = encode_sequence_example({"id": 1}, {"x": [[], []], "y": []})
    assert infer_schema([record]) == Schema({"id": "int64"})
    bytes_without = lists(entry(b"x", field(1, field(1, b""))))  # steps of an empty BytesList
    assert infer_schema([bytes_without]) == Schema({"x": steps("bytes", None)})


def test_the_context_and_the_feature_lists_may_not_share_a_name():
    clash = encode_sequence_example({"x": 1}, {"x": [2, 3]})
    other = encode_sequence_example({"x": 1}, {})
    with pytest.raises(SchemaError, match="record 1: feature 'x' is a feature of the context and"):
        infer_schema([other, clash])
    assert decode_examples([clash], {"x": "int64"})["x"].tolist() == [1]
    assert decode_examples([clash], {"x": steps("int64")})["x"].tolist() == [[2, 3]]


def test_steps_of_two_kinds_contradict_each_other():
    record = encode_sequence_example({}, {"x": [1, 0.5]})
    with pytest.raises(SchemaError, match="feature 'x' holds int64 values, and float32 elsewhere"):
        infer_schema([RECORDS[0], record])


def test_row_lengths_are_no_matter_of_feature_lists():
    record = encode_sequence_example({"x/row_lengths": 7}, {"x": [[1], [2, 3]]})
    schema = infer_schema([record])
    assert schema == Schema({"x": steps("int64", None), "x/row_lengths": "int64"})
    assert decode_examples([record], schema)["x/row_lengths"].tolist() == [7]
    nested = encode_sequence_example({"a": [1, 2], "a/row_lengths": [2]}, {"b": [1]})
    again = infer_schema([nested])
    assert again == Schema({"a": ("int64", (None, None)), "b": steps("int64")})


def test_errors_name_record_and_step():
    bad = encode_sequence_example({}, {"label": [1, [2, 3]]})
    with pytest.raises(SchemaError, match=r"record 1: feature 'label' holds 2 .*\(step 1\)"):
        decode_examples([RECORDS[0], bad], {"label": steps("int64")})
    packed = field(2, field(1, b"123"))  # floats of three bytes
    for wrong in (packed, b"\x0b"):
        torn = lists(entry(b"x", field(1, floats(1)) + field(1, floats(2)) + field(1, wrong)))
        with pytest.raises(CorruptRecordError, match="record 1 of the batch is not"):
            decode_examples([RECORDS[0], torn], {"x": steps("float32")})
        with pytest.raises(CorruptRecordError, match="record 1 of the batch is not"):
            infer_schema([RECORDS[0], torn])


def test_of_a_key_that_repeats_the_last_list_counts():
    def entries(*values: int) -> bytes:
        return entry(b"x", b"".join(field(1, int64s(value)) for value in values))

    record = lists(entries(1, 2), entries(3)) + wire_example() + lists(entries(4, 5))
    assert infer_schema([record]) == Schema({"x": steps("int64")})
    assert decode_examples([record], infer_schema([record]))["x"].tolist() == [[4, 5]]


def test_what_a_feature_list_cannot_be():
    with pytest.raises(ValueError, match=r"a feature list has steps, .* got \(2,\)"):
        Feature("int64", (2,), sequence=True)
    with pytest.raises(ValueError, match="holds no raw memory"):
        Feature("float64", (None,), raw=True, sequence=True)
    with pytest.raises(ValueError, match="feature 'x': sequence=True is for the one schema"):
        decode_sequence_examples(RECORDS, {}, {"x": steps("int64")})


EVENT = b"\x09" + np.float64(1.7e9).tobytes() + b"\x10\x05" + field(5, field(1, b"loss"))


@pytest.mark.parametrize("record", [EVENT, b"x1", b"a" + bytes(8), b"\x12\x02" + field(2, b"")])
def test_other_messages_are_told_apart(record):
    with pytest.raises(CorruptRecordError, match=r"record 1 of the batch is not .* and no feature"):
        infer_schema([encode_example({"x": 1}), record])


@pytest.mark.parametrize("record", [b"", b"\n\0", encode_sequence_example({}, {})])
def test_records_without_a_feature_are_examples(record):
    assert infer_schema([record]) == Schema({})
    assert infer_schema([record, encode_example({"x": 1})])["x"].nullable
