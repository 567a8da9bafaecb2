"""Rows as data engines write them, two at a time: single values, lists, ragged, empty and missing
ones, of each kind of list. They come as columns that rows alone decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import entry, field, floats, int64s, strings, wire_example
from tests.support.framed import framed
from tfio_store import Feature, infer_schema, iter_tables, read_table, write_table

KINDS: dict[str, tuple[Any, int, list[Any]]] = {
    "int64": (int64s, 3, [4, 5, -6]),
    "float32": (floats, 2, [0.5, -1.5, 8.0]),
    "bytes": (strings, 1, [b"ab", b"", b"\xff"]),
}
"""What makes a feature of values, the field of its list, and some values."""

ONE = [0]
ALL = [0, 1, 2]
EMPTY: list[int] = []
NONE = None
"""The record lacks the feature."""
UNSAID = "no list"
"""The feature has no list, and so no kind."""

FORMS: dict[str, tuple[Any, Any, tuple[int | None, ...], bool, list[Any]]] = {
    "single values": (ONE, [2], (), False, [0, 2]),
    "lists": (ALL, [2, 1, 0], (3,), False, [[0, 1, 2], [2, 1, 0]]),
    "ragged": (ONE, ALL, (None,), False, [[0], [0, 1, 2]]),
    "an empty list, then one value": (EMPTY, ONE, (None,), False, [[], [0]]),
    "a list, then an empty one": (ALL, EMPTY, (None,), False, [[0, 1, 2], []]),
    "a missing feature, then one value": (NONE, ONE, (), True, [None, 0]),
    "a list, then a missing feature": (ALL, NONE, (3,), True, [[0, 1, 2], None]),
    "no list, then a list": (UNSAID, ALL, (None,), False, [[], [0, 1, 2]]),
    "empty lists": (EMPTY, EMPTY, (0,), False, [[], []]),
}
"""Two rows, and what becomes of them: shape, whether it is nullable, and the rows."""


def record(kind: str, which: Any) -> bytes:
    encode, number, values = KINDS[kind]
    if which is NONE:
        return wire_example()
    if which == UNSAID:
        return wire_example(entry(b"x", b""))
    chosen = [values[i] for i in which]
    return wire_example(entry(b"x", encode(*chosen) if chosen else field(number, b"")))


def values_of(kind: str, rows: Any) -> Any:
    if isinstance(rows, list):
        return [values_of(kind, row) for row in rows]
    return None if rows is None else KINDS[kind][2][rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_what_they_become(tmp_path: Path, form: str, kind: str) -> None:
    first, second, shape, nullable, rows = FORMS[form]
    path, again = tmp_path / "rows.tfrecord", str(tmp_path / "again")
    path.write_bytes(framed([record(kind, first), record(kind, second)]))
    url, wanted = str(path), values_of(kind, rows)
    assert infer_schema(url)["x"] == Feature(kind, shape, nullable=nullable)
    pytest.importorskip("pyarrow", exc_type=ImportError)
    assert read_table(url).to_arrow()["x"].to_pylist() == wanted
    assert iter_tables(url).read_all()["x"].to_pylist() == wanted
    write_table(iter_tables(url), again)
    assert read_table(again).to_arrow()["x"].to_pylist() == wanted


def test_what_never_has_a_list_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.tfrecord"
    path.write_bytes(framed([wire_example(entry(b"x", b""), entry(b"y", int64s(1)))] * 2))
    assert read_table(str(path)).to_arrow().to_pydict() == {"y": [1, 1]}
