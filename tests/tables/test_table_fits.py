"""A table is held to its schema before it is written: what is committed can be read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from tfio_store import Feature, Ragged, RecordBatch, read_table, write_table
from tfio_store.example.fitting import fitted

MISFITS: dict[str, tuple[Any, Any, str]] = {
    "bytes behind numbers": ([{"x": [1, 2]}, {"x": [b"a"]}], None, "row 2 is bytes.*int64"),
    "numbers behind bytes": ([{"x": [b"a"]}, {"x": [1]}], None, "row 1 is int64.*bytes"),
    "text for numbers": ({"x": ["12"]}, {"x": "int64"}, "row 0 is str.*int64"),
    "text for floats": ({"x": np.array([["1.5"]])}, {"x": ("float32", (1,))}, "str.*float32"),
    "objects for floats": (
        {"x": np.array([["1"], ["2"]], object)},
        {"x": ("float32", (1,))},
        "row 0 is str.*float32",
    ),
    "bytes for raw memory": ({"x": [b"ab"]}, {"x": Feature("float64", raw=True)}, "is bytes"),
    "pandas text": (pd.DataFrame({"x": ["a"]}), {"x": "int64"}, "row 0 is str.*int64"),
    "Arrow text": (pa.table({"x": ["a"]}), {"x": "float32"}, "float32"),
    "Arrow binary": (pa.table({"x": [b"a"]}), {"x": "bool"}, "bool"),
    "bytes of another shape": ({"x": [b"a"]}, {"x": ("bytes", (2,))}, r"shape \(\).*\(2,\)"),
    "ragged bytes": ({"x": [[b"a"], []]}, {"x": "bytes"}, r"shape \(None,\).*\(\)"),
    "flags for bytes": ({"x": [True]}, {"x": "bytes"}, "row 0 is bool.*bytes"),
    "bytes that are no text": ({"x": ["a", b"\xff"]}, {"x": "str"}, "row 1 is not UTF-8"),
    "fixed bytes that are no text": ({"x": np.array([b"a", b"\xff"])}, {"x": "str"}, "row 1 .*UTF"),
    "dates for floats": ({"x": np.zeros(1, "M8[s]")}, {"x": "float32"}, "row 0 is datetime64"),
    "complex numbers for floats": ({"x": [1j]}, {"x": "float32"}, "row 0 is complex128"),
    "a fraction for integers": ({"x": [1.0, 1.5]}, {"x": "int64"}, "row 1 holds 1.5 .*int64"),
    "too large for its integers": ({"x": [1, 300]}, {"x": "uint8"}, "row 1 holds 300 .*uint8"),
    "too large for its floats": (
        {"x": [1, 1e300]},
        {"x": "float32"},
        "row 1 holds 1e.300.*float32",
    ),
    "NaN for integers": ({"x": [1, np.nan]}, {"x": "int64"}, "row 1 holds nan .*int64"),
    "in the middle of ragged rows": (
        {"x": [[1.0], [], [2.0, 2.5]]},
        {"x": ("int64", (None,))},
        "row 2 holds 2.5 .*int64",
    ),
    "a sign that unsigned bytes lack": (
        {"x": np.array([1, -1], np.int8)},
        {"x": "uint8"},
        "row 1 holds -1 .*uint8",
    ),
    "too large for signed bytes": (
        {"x": np.array([200], np.uint8)},
        {"x": "int8"},
        "row 0 holds 200 .*int8",
    ),
    "a sign that raw memory lacks": (
        {"x": [-1]},
        {"x": Feature("uint64", raw=True)},
        "row 0 holds -1 .*uint64",
    ),
    "too large for int64": (
        {"x": np.array([2**63 + 5], np.uint64)},
        {"x": "int64"},
        "row 0 holds 9223372036854775813 .*int64",
    ),
    "too large for float32": (
        {"x": [1.0, 1e300]},
        {"x": "float32"},
        "row 1 holds 1e.300 .*float32",
    ),
    "too small for float32": ({"x": [1.0, 1e-50]}, {"x": "float32"}, "row 1 holds 1e-50 .*float32"),
    "one level for two": (
        {"x": [[1, 2], [3]]},
        {"x": ("int64", (None, None))},
        r"one ragged level.*\(None, None\)",
    ),
    "an array for two levels": (
        {"x": np.array([[1, 2], [3, 4]])},
        {"x": ("int64", (None, None))},
        r"one ragged level.*\(None, None\)",
    ),
    "two levels for one": (
        {"x": [[[1, 2], [3]], [[4]]]},
        {"x": ("int64", (None,))},
        r"two ragged levels.*\(None,\)",
    ),
    "two levels for raw memory": (
        {"x": [[[1.0, 2.0], [3.0]], [[4.0]]]},
        {"x": Feature("float64", (None,), raw=True)},
        r"two ragged levels.*\(None,\)",
    ),
    "rows without values for scalars": ({"x": [[], []]}, {"x": "int64"}, r"shape \(None,\)|\(0,\)"),
    "an integer that a float rounds": (
        {"x": [1, 2**24 + 1]},
        {"x": "float32"},
        "row 1 holds 16777217 .*float32",
    ),
    "an integer that a raw float rounds": (
        {"x": [[2**53, 2**53 + 1]]},
        {"x": Feature("float64", (2,), raw=True)},
        "row 0 holds 9007199254740993 .*float64",
    ),
    "an integer that float64 rounds": (
        {"x": np.array([2**53 + 1], np.uint64)},
        {"x": "float64"},
        "row 0 holds 9007199254740993 .*float64",
    ),
    "cut dates": (
        {"x": np.array([0, 1500], "M8[ms]")},
        {"x": Feature("datetime64[s]", raw=True)},
        "row 1 holds 1970-01-01T00:00:01.500 .*datetime64",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    table, schema, complaint = MISFITS[name]
    with pytest.raises((TypeError, ValueError), match=rf"feature 'x': .*{complaint}"):
        write_table(table, f"{tmp_path}/t", schema=schema)
    assert not list(tmp_path.iterdir())


def test_rounding_is_no_misfit(tmp_path: Path) -> None:
    far = {"x": [0.1, np.inf, -np.inf, np.nan]}
    write_table(far, f"{tmp_path}/t", schema={"x": "float32"})
    assert np.array_equal(
        read_table(f"{tmp_path}/t")["x"], np.array(far["x"], np.float32), equal_nan=True
    )
    dates = np.array(["2026-01-01", "NaT"], "M8[s]")
    write_table(
        {"x": dates}, f"{tmp_path}/d", schema={"x": Feature("datetime64[ns]", nullable=True)}
    )
    assert read_table(f"{tmp_path}/d", nulls="nan")["x"].dtype == "M8[ns]"
    assert np.array_equal(read_table(f"{tmp_path}/d", nulls="nan")["x"], dates, equal_nan=True)


def test_no_rows_fit_any_feature(tmp_path: Path) -> None:
    schema: Any = {"a": ("float32", (2,)), "b": "str", "c": ("int64", (None,)), "d": "int64"}
    write_table({name: [] for name in schema}, f"{tmp_path}/t", schema=schema)
    assert [len(column) for column in read_table(f"{tmp_path}/t", schema=schema).values()] == [
        0
    ] * 4


@pytest.mark.parametrize(
    ("parts", "dtype", "rows"),
    [
        ([[["a"], ["b", "c"]], [[], []]], None, [["a"], ["b", "c"], [], []]),
        ([[[1], [2, 3]], [[], []]], None, [[1], [2, 3], [], []]),
        ([[[[1], [2, 3]], []], [[[]], []]], None, [[[1], [2, 3]], [], [[]], []]),
        ([[[], []]], ("str", (None,)), [[], []]),
        ([[[], []]], ("bytes", (None, None)), [[], []]),
        ([[]], ("int64", (None, None)), []),
        ([[[], []]], ("int64", (None, 2)), [[], []]),
    ],
)
def test_rows_without_values_fit_ragged_features(
    tmp_path: Path, parts: list[Any], dtype: Any, rows: list[Any]
) -> None:
    schema = dtype and {"x": dtype}
    write_table([{"x": part} for part in parts], f"{tmp_path}/t", schema=schema)
    found = as_rows(read_table(f"{tmp_path}/t", schema=schema)["x"])
    assert plain([row.tolist() if hasattr(row, "tolist") else row for row in map(deep, found)]) == (
        plain(rows)
    )


def deep(row: Any) -> Any:
    return [deep(item) for item in as_rows(row)] if isinstance(row, Ragged) else row


def test_a_part_without_rows_has_the_same_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same names"):
        write_table([{"x": [1, 2]}, {"y": []}], f"{tmp_path}/t")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "lengths", "fits"),
    [
        ("é€".encode(), [2, 3], True),
        ("é€".encode(), [1, 4], False),  # each is no text, and both together are
        ("é€".encode(), [5, 0], True),
        (b"a\xff", [1, 1], False),
    ],
)
def test_a_batch_of_text(data: bytes, lengths: list[int], fits: bool) -> None:
    sizes = np.array(lengths)
    batch = RecordBatch(data, np.cumsum(sizes) - sizes, sizes)
    if fits:
        assert fitted("x", batch, Feature("str"), 0) is batch
    else:
        with pytest.raises(ValueError, match=r"feature 'x': row . is not UTF-8"):
            fitted("x", batch, Feature("str"), 0)


SCALARS = st.one_of(
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=3),
    st.lists(st.floats(), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.lists(st.binary(max_size=3), min_size=1, max_size=3),
    st.lists(st.text(max_size=3), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(-9, 9), max_size=2), min_size=1, max_size=3),
    st.lists(st.lists(st.binary(max_size=2), max_size=2), min_size=1, max_size=3),
)
SCHEMAS = st.sampled_from(
    [None, "int64", "float32", "bytes", "str", "uint8", ("int64", (None,)), ("bytes", (None,))]
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.lists(SCALARS, min_size=1, max_size=2), dtype=SCHEMAS)
def test_what_is_committed_can_be_read(tmp_path: Path, parts: list[list[Any]], dtype: Any) -> None:
    url = f"{tempfile.mkdtemp(dir=tmp_path)}/t"
    try:
        write_table([{"x": part} for part in parts], url, schema=dtype and {"x": dtype})
    except (TypeError, ValueError, OverflowError):
        return
    found = read_table(url)["x"]
    rows = [row for part in parts for row in part]
    assert len(found) == len(rows)
    assert all(same(plain(got), plain(row)) for got, row in zip(as_rows(found), rows, strict=True))


def as_rows(column: Any) -> list[Any]:
    if isinstance(column, Ragged):
        return [column[i] for i in range(len(column))]
    return list(column)


def plain(row: Any) -> Any:
    """Text as UTF-8, and rows as lists: a schema may choose between these."""
    if isinstance(row, str):
        return row.encode()
    if isinstance(row, (list, np.ndarray)):
        return [plain(item) for item in row]
    return row


def same(got: Any, wanted: Any) -> bool:
    """Equal, but for what a schema may ask for: rounding to float32, and rows of one value."""
    if isinstance(got, list):
        items = wanted if isinstance(wanted, list) else [wanted]
        return len(got) == len(items) and all(map(same, got, items))
    if isinstance(wanted, bytes):
        return bool(got == wanted)
    with np.errstate(over="ignore"):
        rounded = np.float32(wanted)
    return bool(got in (wanted, rounded) or (np.isnan(got) and np.isnan(rounded)))
