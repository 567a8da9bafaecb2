"""No part of a table, and no row of a list, is rounded or recoded to fit the others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tfio_store import encode_examples, infer_schema, read_table, write_table

write_exactly = partial(write_table, exact=True)

LARGE = 2**53 + 1
"""No float64."""

CHANGED: dict[str, tuple[list[Any], str]] = {
    "float64 behind float32": ([np.array([1], "f4"), np.array([0.1])], "row 1 holds 0.1 "),
    "float64 behind float16": ([np.array([1], "f2"), np.array([0.1])], "row 1 holds 0.1 "),
    "too far for float32": ([np.array([1], "f4"), np.array([1e300])], "row 1 holds 1e.300"),
    "double behind float": ([pa.array([1], pa.float32()), pa.array([0.1])], "row 1 holds 0.1 "),
    "large integers": ([np.array([1.5]), np.array([LARGE])], f"row 1 holds {LARGE}"),
    "the largest": ([np.array([1.5]), np.array([2**63 - 1])], f"row 1 holds {2**63 - 1}"),
    "one list": ([[LARGE, 0.5]], f"row 0 holds {LARGE}"),
    "signs": ([[2**63 + 1, -1]], f"row 0 holds {2**63 + 1}"),
    "lists of one length": ([[[0.5, 1], [LARGE, 2]]], f"row 1 holds {LARGE}"),
    "ragged lists": ([[[0.5], [LARGE, 2]]], f"{LARGE} is an integer"),
    "one ragged row": ([[[0.5, LARGE], []]], f"holds {LARGE}"),
    "text behind bytes": ([[b"b"], ["a"]], "row 1 is str.* bytes"),
    "bytes behind text": ([["a"], [b"b"]], "row 1 is bytes.* str"),
    "text beside bytes": ([[b"b", "a"]], "row 1 is str.* bytes"),
    "an array of text": ([[b"b"], np.array(["a"])], "row 1 is str.* bytes"),
    "an array of bytes": ([["a"], np.array([b"b"])], "row 1 is bytes.* str"),
    "Arrow text": ([[b"b"], pa.array(["a"])], "row 1 is str.* bytes"),
    "Arrow bytes": ([["a"], pa.array([b"b"])], "row 1 is bytes.* str"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_would_change_is_refused(tmp_path: Path, name: str) -> None:
    parts, complaint = CHANGED[name]
    with pytest.raises((TypeError, ValueError), match=f"feature 'x': .*{complaint}"):
        write_exactly([{"x": part} for part in parts], f"{tmp_path}/t")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        ([np.array([1], "f4"), np.array([0.5, np.nan, np.inf, -0.0])], "float32"),
        ([np.array([0.1]), np.array([2**53, -(2**62)])], "float64"),
        ([[2**63 + 1, 5]], "uint64"),
        ([[[2**63 + 1], [5]]], "uint64"),
        ([[True], [np.float16(1)]], "bool"),
    ],
)
def test_what_fits_exactly_is_written(tmp_path: Path, parts: list[Any], dtype: str) -> None:
    write_exactly([{"x": part} for part in parts], f"{tmp_path}/t")
    found = read_table(f"{tmp_path}/t")["x"]
    assert found.dtype == dtype
    assert repr(found.tolist()) == repr(
        np.concatenate([np.array(part, dtype) for part in parts]).tolist()
    )


def test_a_chosen_type_may_round(tmp_path: Path) -> None:
    for rows in (np.array([0.1]), [0.1]):
        write_exactly(
            [{"x": rows}], f"{tmp_path}/t", schema={"x": "float32"}, if_exists="overwrite"
        )
        assert read_table(f"{tmp_path}/t")["x"].tolist() == [np.float32(0.1)]


def test_examples_do_not_round_integers() -> None:
    for rows in ([LARGE, 0.5], [2**63 + 1, 5]):
        with pytest.raises((ValueError, OverflowError), match="'x'"):
            encode_examples({"x": rows})


@pytest.mark.parametrize("later", [["a", None], [b"a"], [1], [0.5, None], [[1, 2], [3]], [[0.5]]])
@pytest.mark.parametrize("first", [[None], [], pa.nulls(2), np.ma.masked_all(1, object)])
def test_a_part_of_nulls_alone_decides_nothing(tmp_path: Path, first: Any, later: Any) -> None:
    def parts(*columns: Any) -> list[Any]:
        return [{"x": column} for column in columns]

    write_exactly(parts(first, first, later), f"{tmp_path}/t")
    found = read_table(f"{tmp_path}/t")["x"].tolist()
    alone = f"{tmp_path}/alone"
    write_exactly(parts(later), alone)
    nulls = 2 * len(first)
    assert all(row in (None, [None]) for row in found[:nulls])
    assert found[nulls:] == read_table(alone)["x"].tolist()
    expected = infer_schema(alone)["x"]
    assert infer_schema(f"{tmp_path}/t")["x"] == (
        replace(expected, nullable=True) if nulls else expected
    )


@pytest.mark.parametrize("other", [["a"], [b"a"]])
def test_decided_by_the_first_values(tmp_path: Path, other: Any) -> None:
    with pytest.raises(TypeError, match=r"'x': row 2 is \w+, where the schema has int64"):
        write_exactly([{"x": [None]}, {"x": [1]}, {"x": other}], f"{tmp_path}/t")


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.list_(pa.string()), pa.int8()])
@pytest.mark.parametrize("rows", [[], [None]])
def test_examples_of_nulls_alone_keep_their_type(tmp_path: Path, kind: Any, rows: Any) -> None:
    write_exactly(pa.table({"x": pa.array(rows, kind)}), f"{tmp_path}/a")
    found = read_table(f"{tmp_path}/a")
    write_exactly(found, f"{tmp_path}/b")
    assert read_table(f"{tmp_path}/b").schema == found.schema
    found["x"] = [1.5, 2.5]  # new values, and no longer what the schema says
    write_exactly(found, f"{tmp_path}/c")
    assert read_table(f"{tmp_path}/c")["x"].tolist() == [1.5, 2.5]
