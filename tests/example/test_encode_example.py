"""Encoding: what may be a feature's value, what it becomes, and what is refused."""

from __future__ import annotations

import collections
import datetime
import decimal

import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tfio_store as tfs
import tfio_store.example.codec as codec_module
from tests.support.examples import (
    entry,
    field,
    floats,
    int64s,
    strings,
    wire_example,
)
from tfio_store import Ragged, encode_example, encode_examples, encode_sequence_example

pytestmark = pytest.mark.usefixtures("codec")


def one(feature: bytes) -> bytes:
    return wire_example(entry(b"x", feature))


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        (b"\x00raw", strings(b"\x00raw")),
        ("héllo", strings("héllo".encode())),
        (bytearray(b"ab"), strings(b"ab")),
        (memoryview(b"ab"), strings(b"ab")),
        (7, int64s(7)),
        (-(2**63), int64s(-(2**63))),
        (2**63 - 1, int64s(2**63 - 1)),
        (True, int64s(1)),
        (1.5, floats(1.5)),
        (float("nan"), floats(float("nan"))),
        (float("inf"), floats(float("inf"))),
        (1e-45, floats(1e-45)),
        (np.float64(3.4e38), floats(3.4e38)),
        (np.int8(-1), int64s(-1)),
        (np.uint64(5), int64s(5)),
        (np.float64(0.1), floats(0.1)),
        (np.bool_(False), int64s(0)),
        (np.str_("a"), strings(b"a")),
        (np.str_("a\0"), strings(b"a\0")),
        (np.array(["2020-01-01"], "M8[D]"), int64s(18262)),
        (np.datetime64("2020-01-01T00:00:00", "s"), int64s(1577836800)),
        (np.timedelta64(-3, "ms"), int64s(-3)),
        ([np.datetime64("1970"), np.datetime64("1970-01-03")], int64s(0, 2)),
        (np.bytes_(b"a"), strings(b"a")),
        ([1, 2, 300], int64s(1, 2, 300)),
        ((True, 2), int64s(1, 2)),
        ([0.5, -1.0], floats(0.5, -1)),
        ([np.float32(0.5), np.float32(1)], floats(0.5, 1)),
        (["a", b"b"], strings(b"a", b"b")),
        ([[1, 2], [3, 4]], int64s(1, 2, 3, 4)),
        ([np.array([1, 2]), np.array([3, 4])], int64s(1, 2, 3, 4)),
        ([1, 2.5], floats(1, 2.5)),
        ([[1, 2], [0.5, 1 << 24]], floats(1, 2, 0.5, 1 << 24)),
        ([], b""),
        ([[], []], b""),
        (np.array(3), int64s(3)),
        (np.arange(6).reshape(2, 3), int64s(0, 1, 2, 3, 4, 5)),
        (np.arange(6).reshape(2, 3).T, int64s(0, 3, 1, 4, 2, 5)),
        (np.arange(6, dtype=np.float32)[::2], floats(0, 2, 4)),
        (np.arange(3, dtype=">f4"), floats(0, 1, 2)),
        (np.arange(3, dtype=">i8"), int64s(0, 1, 2)),
        (np.array([1, 255], np.uint8), int64s(1, 255)),
        (np.array([1.5], np.float16), floats(1.5)),
        (np.array([1.5], np.float64), floats(1.5)),
        (np.array([1.5], ml_dtypes.bfloat16), floats(1.5)),
        (np.array([3], ml_dtypes.int4), int64s(3)),
        (np.array([True, False]), int64s(1, 0)),
        (np.array([b"a\0b", b""]), strings(b"a\0b", b"")),
        (np.array(["é", "xyz"]), strings("é".encode(), b"xyz")),
        (np.array([b"a", "b"], dtype=object), strings(b"a", b"b")),
        (np.empty((0, 3), np.float32), field(2, b"")),
        (np.empty(0, np.int32), field(3, b"")),
        (np.empty(0, "S3"), field(1, b"")),
        (pd.Series([1, 2]), int64s(1, 2)),
        (pa.scalar(4), int64s(4)),
        (pa.array([0.5]), floats(0.5)),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0][:40],
)
def test_a_value_becomes_a_feature(value, feature):
    assert encode_example({"x": value}) == one(feature)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 2 has StringDType")
def test_numpy_variable_strings():
    values = np.array(["é", ""], np.dtypes.StringDType())
    assert encode_example({"x": values}) == one(strings("é".encode(), b""))


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ([1, None], ValueError, "a list holds a null"),
        (2**63, ValueError, "9223372036854775808 does not fit int64"),
        ([1, -(2**63) - 1], ValueError, "does not fit int64"),
        (np.uint64(2**63), ValueError, "does not fit int64"),
        (np.array([1, 2**64 - 1], np.uint64), ValueError, "18446744073709551615 does not fit"),
        (np.array([1, None]), TypeError, "dtype object may hold only bytes and str, not int"),
        (np.array([{}, []], dtype=object), TypeError, "not dict"),
        ([True, 2.5], TypeError, "mixes float32 and int64"),
        ([[True], [2.5]], TypeError, "mixes float32 and int64"),
        ([(1 << 24) + 1, 2.5], ValueError, "floats and the integer 16777217, which no float32 is"),
        ([1, "a"], TypeError, "mixes bytes and int64"),
        (["a", 1], TypeError, "mixes"),
        ([1.5, b"a"], TypeError, "mixes"),
        ([[1, 2], [3]], ValueError, "Ragged.from_rows"),
        ([[1, 2], 3], ValueError, "differing lengths"),
        (1j, TypeError, "complex"),
        (np.zeros(2, complex), TypeError, "two features"),
        (np.zeros(1, "m8"), TypeError, "astype"),
        ([np.datetime64("1970"), 1], TypeError, "mixes times and other values"),
        (1e300, ValueError, "1e+300 does not fit float32"),
        (1e-50, ValueError, "1e-50 does not fit float32"),
        (np.float64(-1e39), ValueError, "does not fit float32"),
        (np.longdouble("1e400"), ValueError, "does not fit float32"),
        ([0.5, 1e300], ValueError, "1e+300 does not fit float32"),
        (np.array([[0.0, 1e-50]]), ValueError, "1e-50 does not fit float32"),
        (np.array([0, -1e300]), ValueError, "keeps it exactly"),
        (np.zeros(1, [("a", "i4")]), TypeError, "dtype"),
        (datetime.time(3), TypeError, "time"),
        (decimal.Decimal("1.5"), TypeError, "Decimal"),
        ({"nested": 1}, TypeError, "dict"),
        ({1, 2}, TypeError, "set"),
        ("\ud800", ValueError, "not valid Unicode"),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0][:40],
)
def test_what_does_not_fit_is_refused_by_name(value, error, says):
    with pytest.raises(error, match="feature 'x'") as caught:
        encode_example({"good": 1, "x": value})
    assert says in str(caught.value)


@pytest.mark.parametrize("features", [None, [("a", 1)], {1: 2}, {b"a": 1}, {"a": 1, 2: 3}])
def test_features_are_a_mapping_of_str(features):
    with pytest.raises(TypeError, match="feature"):
        encode_example(features)


def test_features_are_in_sorted_order_of_their_bytes():
    names = ["b", "a", "é", "", "z", "\U0001f600", "\uffff"]
    expected = wire_example(*(entry(name.encode(), int64s(1)) for name in sorted(names)))
    assert encode_example(dict.fromkeys(names, 1)) == expected
    assert sorted(names) == sorted(names, key=str.encode)


def test_no_features_at_all():
    assert encode_example({}) == field(1, b"")


def test_any_mapping_will_do():
    class Row(dict):
        pass

    assert encode_example(Row(x=1)) == one(int64s(1))


def test_ragged_is_values_and_row_lengths():
    expected = wire_example(entry(b"x", int64s(1, 2, 3)), entry(b"x/row_lengths", int64s(2, 0, 1)))
    assert encode_example({"x": Ragged.from_rows([[1, 2], [], [3]])}) == expected
    with pytest.raises(ValueError, match="x/row_lengths"):
        encode_example({"x": Ragged.from_rows([[1]]), "x/row_lengths": 1})


def test_an_array_that_changes_afterwards_is_not_referred_to():
    values = np.arange(4, dtype=np.float32)
    record = encode_example({"x": values})
    values[:] = 9
    assert record == one(floats(0, 1, 2, 3))


def test_long_lengths_take_longer_varints():
    for size in (0, 1, 127, 128, 16383, 16384, 2**21):
        assert encode_example({"x": b"a" * size}) == one(strings(b"a" * size))


def test_sequence_example():
    record = encode_sequence_example({"id": 3}, {"w": ["a", ["b", "c"]], "f": [[0.5], []]})
    lists = entry(b"f", field(1, floats(0.5)) + field(1, b"")) + entry(
        b"w", field(1, strings(b"a")) + field(1, strings(b"b", b"c"))
    )
    assert record == wire_example(entry(b"id", int64s(3))) + field(2, lists)
    with pytest.raises(TypeError, match="feature 'w'"):
        encode_sequence_example({}, {"w": [1, None]})


COLUMNS = {
    "i": (np.array([1, -1, 300], np.int32), [1, -1, 300]),
    "f": (np.arange(6.0).reshape(3, 2), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    "S": (np.array([b"a", b"bcd", b""]), [b"a", b"bcd", b""]),
    "U": (np.array(["é", "b", ""]), ["é", "b", ""]),
    "O": (np.array([b"a\0", "b", b""], object), [b"a\0", "b", b""]),
    "list": ([b"x", "é", b""], [b"x", "é", b""]),
    "numbers": ([1, 2, 3], [1, 2, 3]),
    "ragged": ((np.array([1, 2, 3]), [0, 2, 2, 3]), [[1, 2], np.empty(0, int), [3]]),
    "ragged2": (
        Ragged(np.arange(6, dtype=np.float32).reshape(3, 2), [0, 0, 1, 3]),  # type: ignore[arg-type]
        [np.empty(0, np.float32), [0.0, 1.0], [2.0, 3.0, 4.0, 5.0]],
    ),
    "words": ([["a"], ["b", "c"], ["d"]], [["a"], ["b", "c"], ["d"]]),
    "matrix": ([["a", "b"]] * 3, [["a", "b"]] * 3),
    "batch": (tfs.RecordBatch.from_records([b"1", b"", b"22"]), [b"1", b"", b"22"]),
    "nested": (
        Ragged.from_rows([[[1, 2], [3]], [[4]], [[], [5]]]),
        [Ragged.from_rows(rows) for rows in ([[1, 2], [3]], [[4]], [[], [5]])],
    ),
    "series": (pd.Series([1.5, 2.5, 3.5]), [1.5, 2.5, 3.5]),
    "texts": (pd.Series(["a", "b", "c"]), ["a", "b", "c"]),
    "arrow": (pa.array(["a", "é", ""]), ["a", "é", ""]),
    "arrow slice": (pa.array([b"zz", b"a", b"bb", b""])[1:], [b"a", b"bb", b""]),
    "arrow chunks": (pa.chunked_array([[1], [2, 3]]), [1, 2, 3]),
    "arrow list": (pa.array([[9], [1, 2], [3], [4]])[1:], [[1, 2], [3], [4]]),
    "arrow fixed": (pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)), [[1, 2]] * 3),
    "arrow bool": (pa.array([True, False, True]), [True, False, True]),
    "arrow dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_the_rows_one_by_one(name):
    column, rows = COLUMNS[name]
    batch = encode_examples({"b": column, "a": [0, 1, 2]})
    assert batch.tolist() == [encode_example({"b": row, "a": i}) for i, row in enumerate(rows)]  # type: ignore[arg-type, var-annotated]


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (np.array([object(), object()]), TypeError),
        ([1, "a"], TypeError),
        (pa.array([{"a": 1}, {"a": 2}]), TypeError),
        (np.array([1, 2**63], np.uint64), ValueError),
        (np.zeros(2, complex), TypeError),
        ((np.arange(3), [0, 2]), ValueError),
        ((np.arange(3), [0, 5, 3]), ValueError),
        (5, ValueError),
        ([["a", 1], ["b"]], TypeError),
    ],
    ids=lambda value: repr(value).split(" at 0x")[0][:40],
)
def test_columns_that_do_not_fit_are_refused_by_name(column, error):
    with pytest.raises(error, match="feature 'x'"):
        encode_examples({"x": column})


@pytest.mark.parametrize(
    "kind", [np.bytes_, bytearray, memoryview, lambda data: np.str_(data.decode())]
)
def test_strings_of_other_types_are_strings(kind):
    wanted = encode_example({"a": b"xy"}), encode_example({"a": [b"xy", b"z"]})
    assert encode_example({"a": kind(b"xy")}) == wanted[0]
    for schema in (None, {"a": "str"}):
        assert list(encode_examples({"a": [kind(b"xy")] * 2}, schema=schema)) == [wanted[0]] * 2
    batch = encode_examples({"a": [[kind(b"xy"), b"z"], [kind(b"xy")]]})
    assert list(batch) == [wanted[1], wanted[0]]
    array = np.empty(1, object)
    array[0] = kind(b"xy")
    assert encode_example({"a": array}) == wanted[0]
    assert list(encode_examples({"a": array})) == [wanted[0]]


def test_numpys_bytes_are_held_to_text():
    for rows in ([np.bytes_(b"\xff")], np.array([[np.bytes_(b"\xff")]], object)):
        shape = np.shape(rows)[1:]
        with pytest.raises(ValueError, match="row 0 is not UTF-8"):
            encode_examples({"a": rows}, schema={"a": ("str", shape)})


def test_columns_of_differing_rows_are_refused():
    with pytest.raises(ValueError, match="'a' 2, 'b' 3"):
        encode_examples({"a": [1, 2], "b": [1, 2, 3]})


def test_no_rows_and_no_columns():
    rows = encode_examples({"x": np.empty((2, 0), object), "y": (np.empty(0, object), [0, 0, 0])})
    assert (
        rows.tolist() == [wire_example(entry(b"x", field(1, b"")), entry(b"y", field(1, b"")))] * 2
    )
    assert encode_examples({"a": np.empty((0, 3))}).tolist() == []
    assert encode_examples({}).tolist() == []


def test_with_a_schema_columns_are_cast_or_written_raw():
    schema = {"a": "int64", "b": tfs.Feature("uint64", (2,), raw=True)}
    batch = encode_examples(
        {"a": [1.0, 2.0], "b": np.full((2, 2), 2**64 - 1, np.uint64)},
        schema=schema,  # type: ignore[arg-type]
    )
    assert batch[1] == wire_example(entry(b"a", int64s(2)), entry(b"b", strings(b"\xff" * 16)))
    with pytest.raises(ValueError, match=r"feature 'a': row 0 holds 1.5 .* fit int64"):
        encode_examples({"a": [1.5]}, schema={"a": "int64"})
    with pytest.raises(ValueError, match=r"\['b'\]"):
        encode_examples({"a": [1]}, schema=schema)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rows of shape \(\)"):
        encode_examples({"a": [1]}, schema={"a": ("int64", (2,))})


def test_columns_refuse_counts_that_overflow():
    encode = codec_module._example.encode_columns  # type: ignore[attr-defined]
    nothing = np.zeros(0, np.int64)
    for records, width in (
        (2**32, 2**32),
        (2**62, 4),
        (2**61, 8),
        (1, -1),
        (-1, 0),
        (2**63 - 1, 0),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            encode([(b"x", nothing, None, width, None)], records)
    with pytest.raises(ValueError):  # noqa: PT011
        encode([(b"x", nothing, nothing, 1, None)], 2**63 - 1)


def test_columns_without_values_have_no_kind():
    splits = np.zeros(3, np.int64)
    valid = np.array([True, False])
    buffer, offsets = codec_module._example.encode_columns(  # type: ignore[attr-defined]
        [(b"a", None, splits, 1, None), (b"b", None, splits, 1, valid)], 2
    )
    first, second = wire_example(entry(b"a", b""), entry(b"b", b"")), wire_example(entry(b"a", b""))
    assert bytes(buffer) == first + second
    assert offsets.tolist() == [0, len(first), len(first + second)]
    with pytest.raises(ValueError):  # noqa: PT011
        codec_module._example.encode_columns([(b"a", None, None, 1, None)], 2)  # type: ignore[attr-defined]


ZEROS, TEXT = b"\x00\x01\x00\x00", "a\x00"
"""numpy's own strings would lose the zeros at their ends."""


@pytest.mark.parametrize(
    ("column", "feature", "rows"),
    [
        ([ZEROS, b"q"], "bytes", [ZEROS, b"q"]),
        ((ZEROS, b"q", ZEROS), "bytes", [ZEROS, b"q", ZEROS]),
        (collections.deque([ZEROS, b"q"]), "bytes", [ZEROS, b"q"]),
        ((TEXT, "b", TEXT), "str", [TEXT, "b", TEXT]),
        (((ZEROS, b"q"),) * 3, ("bytes", (2,)), [[ZEROS, b"q"]] * 3),
        ([(ZEROS, b"q")], ("bytes", (2,)), [[ZEROS, b"q"]]),
        (((ZEROS,), (b"q", ZEROS), ()), ("bytes", (None,)), [[ZEROS], [b"q", ZEROS], []]),
        (pa.array([ZEROS, b"q"]), "bytes", [ZEROS, b"q"]),
        (pd.Series([ZEROS, b"q"]), "bytes", [ZEROS, b"q"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_zeros_at_the_ends_of_strings_are_written(column, feature, rows):
    found = tfs.decode_examples(encode_examples({"x": column}), {"x": feature})["x"]
    assert found.tolist() == rows
