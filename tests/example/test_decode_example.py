"""Decoding: what comes out of good records, and every way in which a record can be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.support.examples import (
    entry,
    field,
    floats,
    int64s,
    strings,
    varint,
    wire_example,
)
from tfio_store import (
    CorruptRecordError,
    Feature,
    Ragged,
    RecordBatch,
    Schema,
    SchemaError,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_examples,
    encode_sequence_example,
)
from tfio_store.example import codec as codec_module

pytestmark = pytest.mark.usefixtures("codec")


def decode_one(feature: bytes, dtype: str, shape: tuple[int | None, ...] = (None,)):
    """The value of one feature ``x`` of one record."""
    decoded = decode_examples([wire_example(entry(b"x", feature))], {"x": (dtype, shape)})
    return decoded["x"][0].tolist()


def test_dense_columns():
    rows = [{"i": i, "m": np.full((2, 3), i), "s": [b"a", b"%d" % i], "t": "é"} for i in range(3)]
    schema = {"i": "int64", "m": ("int64", (2, 3)), "s": ("bytes", (2,)), "t": "str"}
    decoded = decode_examples([encode_example(row) for row in rows], schema)  # type: ignore[arg-type]
    assert decoded["i"].dtype == np.int64
    assert decoded["i"].tolist() == [0, 1, 2]
    assert decoded["m"].shape == (3, 2, 3)
    assert decoded["m"][2].tolist() == [[2] * 3] * 2
    assert decoded["s"].shape == (3, 2)
    assert decoded["s"].tolist() == [[b"a", b"0"], [b"a", b"1"], [b"a", b"2"]]
    assert decoded["t"].tolist() == ["é"] * 3
    assert list(decoded) == ["i", "m", "s", "t"]


def test_ragged_columns():
    rows = [{"x": list(range(i)), "y": np.full((i, 2), i, np.float32)} for i in (2, 0, 3)]
    schema = {"x": ("int64", (None,)), "y": ("float32", (None, 2)), "gone": ("bytes", (None,))}
    decoded = decode_examples([encode_example(row) for row in rows], schema)
    assert decoded["x"].tolist() == [[0, 1], [], [0, 1, 2]]
    assert decoded["y"].values.shape == (5, 2)
    assert decoded["y"].row_splits.tolist() == [0, 2, 2, 5]
    assert decoded["gone"].tolist() == [[], [], []]


def test_two_ragged_levels():
    rows = [[[1, 2], [3]], [], [[], [4]]]
    records = [encode_example({"x": Ragged.from_rows(row)}) for row in rows]
    assert decode_examples(records, {"x": ("int64", (None, None))})["x"].tolist() == rows
    bad = wire_example(entry(b"x", int64s(1, 2)), entry(b"x/row_lengths", int64s(3, -1)))
    with pytest.raises(SchemaError, match=r"record 3: .*x/row_lengths.*do not add up to the 2"):
        decode_examples([*records, bad], {"x": ("int64", (None, None))})


def test_defaults_stand_in_for_what_is_missing():
    schema = {
        "i": Feature("int64", default=7),
        "f": Feature("float32", (2,), default=[1.0, math.nan]),
        "b": Feature("bytes", (2,), default=b"zz"),
        "s": Feature("str", default="é"),
        "r": Feature("uint16", (2,), default=5, raw=True),
        "e": Feature("float32", (0, 3), default=0.0),
    }
    records = [encode_example({"i": 1, "b": [b"a", b"b"]}), wire_example(), b""]
    decoded = decode_examples(records, schema)
    assert decoded["i"].tolist() == [1, 7, 7]
    np.testing.assert_array_equal(decoded["f"], np.float32([[1, np.nan]] * 3))  # type: ignore[arg-type]
    assert decoded["b"].tolist() == [[b"a", b"b"], [b"zz", b"zz"], [b"zz", b"zz"]]
    assert decoded["s"].tolist() == ["é"] * 3
    assert decoded["r"].tolist() == [[5, 5]] * 3
    assert decoded["e"].shape == (3, 0, 3)
    assert (
        decode_examples(records, schema, strings="batch")["b"].tolist()
        == [b"a", b"b"] + [b"zz"] * 4
    )


def test_strings_as_a_batch_share_the_records_memory():
    records = RecordBatch.from_records(
        [encode_example({"s": "abc", "r": ["x"] * i}) for i in (1, 2)]
    )
    schema = {"s": "bytes", "r": ("bytes", (None,))}
    decoded = decode_examples(records, schema, strings="batch")  # type: ignore[arg-type]
    assert isinstance(decoded["s"], RecordBatch)
    assert decoded["s"].tolist() == [b"abc", b"abc"]
    assert decoded["r"].values.tolist() == [b"x"] * 3
    assert decoded["r"].row_splits.tolist() == [0, 1, 3]
    ours, theirs = (np.frombuffer(batch.buffer, np.uint8) for batch in (decoded["s"], records))
    assert np.shares_memory(ours, theirs)
    with pytest.raises(ValueError, match="strings must be 'object' or 'batch'"):
        decode_examples(records, schema, strings="numpy")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint16", "int32", "uint32", "float64"])
def test_other_dtypes_are_converted(dtype):
    records = encode_examples({"x": np.array([1, 0, 1], dtype)})
    decoded = decode_examples(records, {"x": dtype})["x"]
    assert decoded.dtype == dtype
    assert decoded.tolist() == [1, 0, 1]


@pytest.mark.parametrize(("dtype", "value"), [("bool", 2), ("int8", 128), ("uint32", -1)])
def test_an_integer_that_does_not_fit_is_refused(dtype, value):
    records = encode_examples({"x": np.array([[1, 1], [0, value]])})
    with pytest.raises(SchemaError, match=f"record 1: feature 'x' holds {value}, .*fit {dtype}"):
        decode_examples(records, {"x": (dtype, (2,))})
    with pytest.raises(SchemaError, match="record 1: "):
        decode_examples(records, {"x": (dtype, (None,))})


@pytest.mark.parametrize(
    "dtype", ["float64", "uint64", "complex64", "bfloat16", "datetime64[s]", "?"]
)
def test_raw_features_are_memory(dtype):
    import ml_dtypes

    item = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    values = np.arange(12).reshape(2, 3, 2).astype(item)
    schema = {"x": Feature(values.dtype.name, (3, 2), raw=True)}
    decoded = decode_examples(encode_examples({"x": values}, schema=schema), schema)["x"]
    assert decoded.dtype == values.dtype
    assert decoded.tolist() == values.tolist()
    ragged = {"x": Feature(values.dtype.name, (None, 2), raw=True)}
    column = Ragged(values.reshape(6, 2), [0, 1, 6])  # type: ignore[arg-type]
    decoded = decode_examples(encode_examples({"x": column}, schema=ragged), ragged)["x"]
    assert decoded.row_splits.tolist() == [0, 1, 6]
    assert decoded.values.tolist() == column.values.tolist()


def test_raw_of_another_size_is_refused():
    with pytest.raises(SchemaError, match="holds 3 bytes"):
        decode_examples([encode_example({"x": b"abc"})], {"x": Feature("uint16", raw=True)})


# ---- the wire ----------------------------------------------------------------------------------


def fixed32(value: float) -> bytes:
    return varint(1 << 3 | 5) + np.float32(value).tobytes()


@pytest.mark.parametrize(
    ("feature", "dtype", "value"),
    [
        (int64s(1, 2), "int64", [1, 2]),
        (field(3, field(1, 1) + field(1, 300)), "int64", [1, 300]),
        (field(3, field(1, 1) + field(1, varint(2) + varint(-3))), "int64", [1, 2, -3]),
        (floats(0.5), "float32", [0.5]),
        (field(2, fixed32(0.5) + fixed32(2)), "float32", [0.5, 2]),
        (field(2, fixed32(0.5) + field(1, np.float32([1, 2]).tobytes())), "float32", [0.5, 1, 2]),  # type: ignore[arg-type]
        (int64s(1) + int64s(2), "int64", [1, 2]),
        (strings(b"a") + int64s(2), "int64", [2]),
        (int64s(1) + strings(b"a") + int64s(2), "int64", [2]),
        (int64s(1) + field(3, b""), "int64", [1]),
        (field(1, b""), "bytes", []),
        (b"", "bytes", []),
        (strings(b"", b"\xff"), "bytes", [b"", b"\xff"]),
        (field(9, b"new") + int64s(1) + field(4, 5), "int64", [1]),
        (field(3, field(7, b"new") + field(1, varint(1)) + field(2, 5)), "int64", [1]),
        (field(3, 5) + int64s(4), "int64", [4]),
        (field(3, fixed32(1) + field(1, varint(6))), "int64", [6]),
        (field(3, field(1, b"\x81\x80\x00")), "int64", [1]),
        (field(3, field(1, b"\xff" * 9 + b"\x7f")), "int64", [-1]),
        (field(3, varint(1 << 3 | 1) + bytes(8) + field(1, varint(1))), "int64", [1]),
    ],
)
def test_encodings_of_a_feature(feature, dtype, value):
    assert decode_one(feature, dtype) == value


def decode_x(record: bytes):
    return decode_examples([record], {"x": "int64"})["x"].tolist()


def test_a_repeated_key_counts_last():
    assert decode_x(wire_example(entry(b"x", int64s(1)), entry(b"x", int64s(2)))) == [2]
    assert decode_x(wire_example(entry(b"x", floats(1)), entry(b"x", int64s(2)))) == [2]
    assert decode_x(
        wire_example(entry(b"x", int64s(1))) + wire_example(entry(b"x", int64s(2)))
    ) == [2]


def test_unknown_fields_and_features_are_skipped():
    features = entry(b"w", field(5, b"?")) + entry(b"x", int64s(1)) + field(3, b"?") + field(2, 9)
    record = field(7, b"??") + field(1, features) + field(2, b"lists")
    assert decode_x(record) == [1]


def test_an_entry_may_have_its_value_first_or_lack_its_key():
    assert decode_x(wire_example(field(1, field(2, int64s(1)) + field(1, b"x")))) == [1]
    decoded = decode_examples([wire_example(field(1, field(2, int64s(1))))], {"": "int64"})
    assert decoded[""].tolist() == [1]


GOOD = wire_example(entry(b"x", int64s(300)))


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (GOOD[:-1], "length reaches past"),
        (field(1, entry(b"x", int64s(1))[:-1]), "length reaches past"),
        (b"\x0a\xff\xff\xff\xff\x7f", "length reaches past"),
        (b"\x0a" + varint(2**64 - 1), "length reaches past"),
        (b"\x0a" + varint(2**63), "length reaches past"),
        (b"\x0a", "varint"),
        (b"\x0a\x80", "varint"),
        (b"\x80" * 11, "varint"),
        (b"\x02\x00", "tag"),
        (b"\x80\x80\x80\x80\x80\x01\x00", "tag"),
        (b"\x0b\x0c", "wire type"),
        (b"\x13" * 10_000 + b"\x14" * 10_000, "wire type"),
        (b"\x0e\x00", "wire type"),
        (b"\x0d\x00\x00", "length reaches past"),
        (b"\x09\x00\x00", "length reaches past"),
        (wire_example(field(1, field(1, b"x") + field(1, b"x"))), "twice"),
        (wire_example(field(1, field(2, b"") + field(2, b""))), "twice"),
        (wire_example(entry(b"x", field(3, field(1, b"\x80")))), "varint"),
        (wire_example(entry(b"x", field(3, field(1, b"\xff" * 10 + b"\x00")))), "varint"),
        (wire_example(entry(b"x", field(3, b"\x0a\x7f\x00"))), "length reaches past"),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0][:40],
)
def test_bytes_that_are_no_example_are_refused(record, says):
    before = encode_example({"x": 1})
    with pytest.raises(CorruptRecordError, match=says) as caught:
        decode_examples([before, record], {"x": "int64"})
    assert caught.value.offset == len(before)
    assert caught.value.record == 1


def test_floats_that_are_no_multiple_of_four_are_refused():
    record = wire_example(entry(b"x", field(2, field(1, b"abcde"))))
    for shape in [(), (None,)]:
        with pytest.raises(CorruptRecordError, match="multiple of 4"):
            decode_examples([record], {"x": ("float32", shape)})


def test_features_nobody_asked_for_are_not_decoded():
    record = wire_example(entry(b"broken", b"\xff\xff"), entry(b"x", int64s(1)))
    assert decode_x(record) == [1]


@pytest.mark.parametrize(
    ("feature", "shape", "says"),
    [
        (floats(1), (), "holds float values, where int64 is wanted"),
        (strings(b"a"), (None,), "holds bytes values, where int64 is wanted"),
        (int64s(1, 2), (), "holds 2 values, where 1 are wanted"),
        (field(3, b""), (), "holds 0 values, where 1 are wanted"),
        (int64s(1, 2), (3,), "holds 2 values, where 3 are wanted"),
        (int64s(*range(200)), (3,), "holds 200 values, where 3 are wanted"),
        (int64s(1, 2, 3), (None, 2), "holds 3 values, which are not rows of shape"),
        (b"", (), "is missing, and the schema has no default"),
    ],
)
def test_a_feature_that_the_schema_does_not_describe(feature, shape, says):
    records = [wire_example(entry(b"x", int64s(*range(math.prod(d or 2 for d in shape)))))] * 3
    with pytest.raises(SchemaError, match=says) as caught:
        decode_examples([*records, wire_example(entry(b"x", feature))], {"x": ("int64", shape)})
    assert (caught.value.record, caught.value.feature) == (3, "x")
    assert isinstance(caught.value, ValueError)


def test_a_missing_feature_names_record_and_feature():
    records = [encode_example({"x": 1}), encode_example({"y": 1})]
    with pytest.raises(SchemaError, match=r"^record 1: feature 'x' is missing"):
        decode_examples(records, {"x": "int64"})


def test_text_that_is_not_utf8_is_refused():
    with pytest.raises(SchemaError, match="record 1: feature 'x' is not UTF-8"):
        decode_examples([encode_example({"x": v}) for v in ("a", b"\xff")], {"x": "str"})


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="not one record"):
        decode_examples(b"", {"x": "int64"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="feature 'x': dtype must be one of"):
        decode_examples([], {"x": "int65"})


def test_no_records():
    schema = {"x": ("float32", (2,)), "y": ("int64", (None,)), "s": "bytes"}
    decoded = decode_examples([], schema)  # type: ignore[arg-type]
    assert decoded["x"].shape == (0, 2)
    assert decoded["y"].tolist() == []
    assert decoded["s"].tolist() == []


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data):
    schema = {"": ("int64", (None,)), "x": ("bytes", (None,)), "y": ("float32", (None,))}
    for wrapped in (data, field(1, data), wire_example(entry(b"x", data))):
        try:
            decode_examples([wrapped], schema)
            decode_sequence_examples([wrapped], {}, {"x": ("bytes", (None,))})
        except (CorruptRecordError, SchemaError):
            pass


def test_many_keys_are_told_apart():
    names = [f"embedding_vector_{i:04d}_normalised" for i in range(600)]
    record = encode_example({name: i for i, name in enumerate(names)})
    backwards = wire_example(
        *(entry(name.encode(), int64s(i)) for i, name in reversed(list(enumerate(names))))
    )
    decoded = decode_examples([record, backwards, record], dict.fromkeys(names, "int64"))
    assert [decoded[name].tolist() for name in names] == [[i] * 3 for i in range(600)]


# ---- sequences and tables ----------------------------------------------------------------------


def test_sequence_examples():
    records = [
        encode_sequence_example({"id": i}, {"f": [[i, j] for j in range(i)], "w": [["a"] * i] * 2})
        for i in (2, 0, 1)
    ]
    schema = {"f": ("int64", (2,)), "w": ("str", (None,)), "gone": "float32"}
    context, lists = decode_sequence_examples(records, {"id": "int64"}, schema)  # type: ignore[arg-type]
    assert context["id"].tolist() == [2, 0, 1]
    assert lists["f"].tolist() == [[[2, 0], [2, 1]], [], [[1, 0]]]
    assert lists["w"].tolist() == [[["a", "a"]] * 2, [[], []], [["a"], ["a"]]]
    assert lists["gone"].tolist() == [[], [], []]


def test_a_bad_step_is_named():
    records = [encode_sequence_example({}, {"f": [1] * i}) for i in (2, 0)]
    bad = encode_sequence_example({}, {"f": [1, [2, 3]]})
    with pytest.raises(SchemaError, match=r"record 2: feature 'f' holds 2 values, .*\(step 1\)"):
        decode_sequence_examples([*records, bad], {}, {"f": "int64"})
    with pytest.raises(SchemaError, match=r"record 1: feature 'f' holds int64 .*\(step 0\)"):
        decode_sequence_examples([records[1], bad], {}, {"f": "bytes"})


def test_steps_that_only_claim_values_get_no_memory():
    record = field(2, entry(b"f", field(1, b"") * 100_000))
    with pytest.raises(SchemaError, match="is missing"):
        decode_sequence_examples([record], {}, {"f": ("float32", (1 << 20,))})


@pytest.mark.parametrize("dtype", ["float32", "int64", "bytes"])
@pytest.mark.parametrize("width", [2**39, 2**31])
def test_a_schema_that_only_claims_values_gets_no_memory(dtype, width):
    record = encode_example({"x": ["a"] if dtype == "bytes" else np.ones(1, dtype)})
    with pytest.raises(SchemaError, match="record 0: feature 'x' holds 1 values"):
        decode_examples([record] * 1000, {"x": (dtype, (width,))})


def test_to_arrow():
    import pyarrow as pa

    rows = {
        "i": np.arange(3, dtype=np.int32),
        "m": np.arange(12.0, dtype=np.float32).reshape(3, 2, 2),
        "r": Ragged(np.arange(4), [0, 1, 1, 4]),  # type: ignore[arg-type]
        "b": [b"\xff", b"", b"x"],
        "s": ["é", "", "x"],
        "w": Ragged.from_rows([["a"], [], ["b", "c"]]),
        "flag": np.array([True, False, True]),
    }
    schema = {"i": "int32", "m": ("float32", (2, 2)), "r": ("int64", (None,)), "b": "bytes"}
    schema |= {"s": "str", "w": ("str", (None,)), "flag": "bool"}
    expected = {
        "b": rows["b"],
        "flag": [True, False, True],
        "i": [0, 1, 2],
        "m": rows["m"].tolist(),  # type: ignore[attr-defined]
        "r": [[0], [], [1, 2, 3]],
        "s": rows["s"],
        "w": [["a"], [], ["b", "c"]],
    }
    for strings_ in ("object", "batch"):
        table = decode_examples(encode_examples(rows), schema, strings=strings_).to_arrow()  # type: ignore[arg-type]
        table.validate(full=True)
        assert table.to_pydict() == expected
        assert table.schema.field("s").type == pa.large_string()
        assert table.schema.field("i").type == pa.int32()
        again = decode_examples(
            encode_examples(dict(zip(table.column_names, table.columns, strict=True))),
            schema,  # type: ignore[arg-type]
        )
        assert again["r"].tolist() == expected["r"]
        assert again["m"].tolist() == expected["m"]


def test_what_was_decoded_can_be_encoded_again():
    rows = {"a": np.arange(3), "r": Ragged.from_rows([[1.5], [], [2, 3]]), "s": ["x", "", "zz"]}
    rows |= {"n": Ragged.from_rows([[[1]], [], [[], [2, 3]]])}
    records = encode_examples(rows)
    schema = {"a": "int64", "r": ("float32", (None,)), "s": "bytes", "n": ("int64", (None, None))}
    for how in ("object", "batch"):
        assert encode_examples(decode_examples(records, schema, strings=how)) == records  # type: ignore[arg-type]


def test_spans_refuse_to_leave_their_buffer():
    spans = codec_module._example.Spans  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="record 1 lies outside"):
        spans.locate(b"abc", np.array([0, 2]), np.array([0, 2]), [b"x"])
    with pytest.raises(ValueError, match="record 0 lies outside"):
        spans.locate(b"abc", np.array([-1]), np.array([2]), [b"x"])
    with pytest.raises(ValueError, match="record 0 lies outside"):
        spans.locate(b"abc", np.array([1]), np.array([2**63 - 1]), [b"x"])


def test_spans_refuse_numbers_that_mean_nothing():
    record = encode_examples({"x": [1]})[0]
    spans = codec_module._example.Spans.locate(  # type: ignore[attr-defined]
        record, np.array([0]), np.array([len(record)]), [b"x"]
    )
    for kind in (0, 4, 127, -1, 2**31 - 1):
        with pytest.raises(ValueError, match="kind"):
            spans.counts(0, kind)
    for name in ("int64s", "floats", "objects", "joined", "spans"):
        with pytest.raises((MemoryError, SchemaError)):
            getattr(spans, name)(0, splits=np.array([0, 2**63 - 1]))


def test_errors_survive_pickling():
    import pickle

    error = SchemaError("is missing", feature="x", record=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.feature, again.record) == (str(error), "x", 3)
    assert isinstance(error, tfs.TFIOStoreError)


def test_rows_that_are_stacked_keep_zeros_at_the_ends_of_strings():
    strings_ = [b"\x00\x01\x00\x00", b"q\x00", b""]
    ragged = Ragged.from_rows([[b, b"z"] for b in strings_])
    table = {
        "b": strings_,
        "s": ["a\x00", "b", "\x00"],
        "n": [1, 2, 3],
        "two": [[b, b] for b in strings_],
        "r": ragged,
    }
    schema = Schema(
        {"b": "bytes", "s": "str", "n": "int64", "two": ("bytes", (2,)), "r": ("bytes", (None,))}
    )
    rows = [
        {name: column[0, ...] for name, column in decode_examples([record], schema).items()}
        for record in encode_examples(table)
    ]
    for name in schema:
        stacked = np.stack([row[name] for row in rows])
        assert stacked.tolist() == (ragged.tolist() if name == "r" else table[name])
        assert stacked.dtype == (np.int64 if name == "n" else object)


def test_a_row_of_an_ellipsis_is_an_array():
    ragged = Ragged.from_rows([[1, 2], [3]])
    assert ragged[1, ...].tolist() == [3]
    column = tfs.Nullable(np.array([b"a\x00", None], object), np.array([True, False]))
    assert column[0, ...].shape == ()
    assert column[0, ...].item() == b"a\x00"
    assert column[1, ...] is None
    assert tfs.Nullable([b"a"], np.array([True]))[0, ...] == b"a"
    with pytest.raises(IndexError):
        column[2, ...]


_WIDTHS = st.integers(1, 9).flatmap(lambda n: st.integers(1 << 7 * (n - 1), (1 << 7 * n) - 1))
"""Numbers whose varints have one to nine bytes, each as often."""


@given(st.lists(_WIDTHS | st.sampled_from([0, 1, -1, -(2**63), 2**63 - 1]), max_size=40))
def test_packed_integers_of_any_length(values: list[int]) -> None:
    """The compiled codec takes several at once, where eight bytes and eight places are left."""
    record = wire_example(entry(b"x", int64s(*values)))
    ragged = decode_examples([record, record], {"x": ("int64", (None,))})["x"]
    assert [row.tolist() for row in ragged] == [values, values]
    fixed = decode_examples([record, record], {"x": ("int64", (len(values),))})["x"]
    assert fixed.tolist() == [values, values]
    for count in {len(values) + 1, max(0, len(values) - 1)} - {len(values)}:
        with pytest.raises(SchemaError):
            decode_examples([record], {"x": ("int64", (count,))})


@given(st.lists(st.sampled_from([1, 300, 70_000, 2**40]), min_size=1, max_size=20), st.data())
def test_packed_integers_that_are_cut(values: list[int], data: st.DataObject) -> None:
    packed = b"".join(map(varint, values))
    cut = packed[: data.draw(st.integers(1, len(packed)))]
    feature = field(3, field(1, cut))
    if cut[-1] < 0x80:
        whole = sum(byte < 0x80 for byte in cut)
        assert decode_one(feature, "int64") == values[:whole]
    else:
        with pytest.raises(CorruptRecordError):
            decode_one(feature, "int64")
