"""Structs become columns of their fields on request, and are errors otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tfio_store import infer_schema, iter_tables, read_table, write_table

write_exactly = partial(write_table, exact=True)

INNER = pa.struct([pa.field("x", pa.float64(), nullable=False), ("y", pa.list_(pa.string()))])
STRUCT = pa.struct([("when", pa.timestamp("us", tz="UTC")), ("in", INNER), ("n", pa.int16())])
ROWS: list[Any] = [
    {"when": 1, "in": {"x": 0.1, "y": ["a", "b"]}, "n": 1},
    {"when": None, "in": None, "n": 2},
    None,
    {"when": 3, "in": {"x": 0.3, "y": []}, "n": None},
]
TABLE = pa.table({"s": pa.array(ROWS, STRUCT), "plain": [1, 2, 3, 4]}).replace_schema_metadata(
    {"made": "here"}
)
PARTS = TABLE.slice(0, 1), TABLE.slice(1)


def flat(table: Any) -> Any:
    """By Arrow's own way."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


FORMS: dict[str, Callable[[], Any]] = {
    "a table": lambda: TABLE,
    "parts": lambda: iter(PARTS),
    "a stream": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
}


@pytest.mark.parametrize("form", FORMS)
def test_fields_come_back_as_columns(tmp_path: Path, form: str) -> None:
    url = str(tmp_path / "t")
    write_exactly(FORMS[form](), url, flatten=True)
    wanted = flat(TABLE)
    assert wanted.column_names == ["s.when", "s.in.x", "s.in.y", "s.n", "plain"]
    assert list(infer_schema(url)) == wanted.column_names
    for found in (read_table(url).to_arrow(), iter_tables(url).read_all()):
        assert found.schema.metadata == TABLE.schema.metadata
        assert found.to_pydict() == wanted.to_pydict()
        assert found.schema.types == wanted.schema.types


def test_a_dict_of_arrays(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    write_exactly({"s": TABLE["s"], "plain": [1, 2, 3, 4]}, url, flatten=True)
    assert read_table(url).to_arrow().to_pydict() == flat(TABLE).to_pydict()


def test_a_frame(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    frame = pd.DataFrame({"s": [{"a": 1, "b": "x"}, None], "t": pd.Categorical(["u", "v"])})
    write_exactly(frame, url, flatten=True)
    found = read_table(url).to_pandas()
    assert list(found) == ["s.a", "s.b", "t"]
    assert found["s.b"].tolist()[0] == "x"
    assert found["s.a"].isna().tolist() == found["s.b"].isna().tolist() == [False, True]
    pd.testing.assert_series_equal(found["t"], frame["t"])


def test_a_chosen_field(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    table = pa.table({"s": pa.array([{"a": 0.1}])})
    write_exactly(table, url, flatten=True, schema={"s.a": "float32"})
    assert infer_schema(url)["s.a"].dtype == "float32"


ODD: dict[str, tuple[Any, Any, str]] = {
    "unasked": (TABLE, {}, "feature 's': Arrow type struct.*flatten=True"),
    "without fields": (
        pa.table({"s": pa.array([{}], pa.struct([]))}),
        {"flatten": True},
        "'s': a struct without fields",
    ),
    "of lists": (
        pa.table({"s": pa.array([[{"a": 1}]])}),
        {"flatten": True},
        "feature 's': Arrow type struct<a: int64> can't be encoded$",
    ),
    "of a name that is there": (
        pa.table({"s": pa.array([{"a": 1}]), "s.a": [2]}),
        {"flatten": True},
        "two columns 's.a'",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_structs_that_make_no_columns(tmp_path: Path, name: str) -> None:
    table, options, match = ODD[name]
    with pytest.raises((TypeError, ValueError), match=match):
        write_exactly(table, str(tmp_path / "t"), **options)
    assert not list(tmp_path.iterdir())
