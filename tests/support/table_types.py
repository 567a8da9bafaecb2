"""Prints the tables of docs/types.md and docs/tables.md: what columns become in records.

``python -m tests.support.table_types`` prints them anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.support.examples import entry, field, int64s, strings, wire_example
from tfio_store import decode_examples, infer_schema
from tfio_store.example.columns import normal_column
from tfio_store.example.feature import Feature
from tfio_store.example.learned import schema_of

ITEM = pa.int32()
ARROW = [
    *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)),
    *(pa.decimal128(9, 2), pa.decimal256(40, 3)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")),
    *(pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.duration("s")),
    *(pa.dictionary(pa.int8(), pa.string()), pa.null()),
    *(pa.list_(ITEM), pa.large_list(pa.string()), pa.list_(ITEM, 3), pa.list_(pa.float64())),
    *(pa.list_(pa.list_(ITEM)), pa.list_(pa.list_(ITEM, 3)), pa.list_(pa.null())),
    *(pa.list_(pa.list_(pa.list_(ITEM))), pa.struct({"a": ITEM}), pa.map_(pa.string(), ITEM)),
    *(pa.month_day_nano_interval(), pa.list_view(ITEM), pa.run_end_encoded(ITEM, ITEM)),
]

NUMPY: list[tuple[str, Any]] = [
    ("bool array", np.zeros(1, bool)),
    ("int16 array", np.zeros(1, np.int16)),
    ("uint64 array", np.zeros(1, np.uint64)),
    ("float32 array", np.zeros(1, np.float32)),
    ("float16 array", np.zeros(1, np.float16)),
    ("float64 array", np.zeros(1)),
    ("longdouble array", np.zeros(1, np.longdouble)),
    ("complex128 array", np.zeros(1, complex)),
    ("datetime64[ms] array", np.zeros(1, "M8[ms]")),
    ("datetime64[ms] array, NaT among it", np.array([1, "NaT"], "M8[ms]")),
    ("timedelta64[s] array", np.ones(1, "m8[s]")),
    ("uint8 array of shape [n, 28, 28]", np.zeros((1, 28, 28), np.uint8)),
    ("float32 array of shape [n, 3]", np.zeros((1, 3), np.float32)),
    ("float64 array of shape [n, 3]", np.zeros((1, 3))),
    ("list of str", ["a"]),
    ("list of bytes", [b"a"]),
    ("list of lists that differ in length", [[1], [1, 2]]),
    ("masked array of int64", np.ma.array([1, 2], mask=[True, False])),
    ("list of int and None", [1, None]),
]

PANDAS: list[tuple[str, Any]] = [
    ("float64, NaN among it", pd.Series([1.5, np.nan])),
    ("Int64, pandas.NA among it", pd.Series([1, None], dtype="Int64")),
    ("str, missing ones among it", pd.Series(["a", None])),
    (
        "datetime64[ns], NaT among it",
        pd.to_datetime(pd.Series(["2020-01-01", None])).dt.as_unit("ns"),
    ),
    ("datetime64[us, UTC]", pd.Series(pd.date_range("2020", periods=1, tz="UTC", unit="us"))),
    ("category of str", pd.Series(["a"], dtype="category")),
]


RECORDS: list[tuple[str, bytes | None, bytes | None]] = [
    ("one value in each", int64s(1), int64s(2)),
    ("three values in each", int64s(2, 2, 3), int64s(3, 3, 4)),
    ("one value, and two", int64s(9), int64s(9, 2)),
    ("an empty list, and one value", field(3, b""), int64s(5)),
    ("an empty list, and two values", field(3, b""), int64s(9, 2)),
    ("no feature, and one value", None, int64s(5)),
    ("no feature, and two values", None, int64s(9, 2)),
    ("no feature, and byte strings", None, strings(b"def", b"1234")),
    ("a feature without a list, and one value", b"", int64s(5)),
    ("empty lists", field(3, b""), field(3, b"")),
    ("features without a list", b"", b""),
]
"""Forms in which writers leave values out: a feature ``x`` of two records."""


def kept(feature: Feature) -> str:
    flags = ", nullable" if feature.nullable else ""
    shape = "" if feature.shape == () else f", {feature.shape}"
    held = {"bytes": "BytesList", "float32": "FloatList", "int64": "Int64List"}[feature.wire]
    return f"`{feature.dtype}`{shape}{flags} | {held}"


def line(what: str, column: Any) -> str:
    try:
        feature = schema_of({"x": normal_column("x", column)})["x"]
    except (TypeError, ValueError):
        return f"| {what} | refused | | |"
    return f"| {what} | {kept(feature)} | `{plain_feature(feature)}` |"


def plain_feature(feature: Feature) -> str:
    """What `tf.io.parse_example` takes for the feature ``x``, without ``tf.io.``."""
    default = {"int64": "0", "float32": "0.0", "bytes": "''"}[feature.wire]
    dtype = {"bytes": "tf.string"}.get(feature.wire, f"tf.{feature.wire}")
    if feature.nested:
        return f"RaggedFeature({dtype}, 'x', [RaggedFeature.RowLengths('x/row_lengths')])"
    if feature.ragged:
        rows = "".join(f", [RaggedFeature.UniformRowLength({n})]" for n in feature.row_shape)
        return f"RaggedFeature({dtype}" + (f", 'x'{rows})" if rows else ")")
    given = f", {default}" if feature.nullable else ""
    return f"FixedLenFeature({list(feature.row_shape)}, {dtype}{given})"


def inferred(what: str, *features: bytes | None) -> str:
    records = [wire_example(*([] if x is None else [entry(b"x", x)])) for x in features]
    schema = infer_schema(records)
    if not schema:
        return f"| {what} | left out | |"
    rows = decode_examples(records, schema)["x"].tolist()
    return f"| {what} | {kept(schema['x']).split(' |')[0]} | `{rows}` |"


DASHES = "| --- | --- | --- | --- |"


def _array(kind: Any) -> Any:
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays([1], [1])
    return pa.array([], kind)


def _series(series: Any) -> Any:
    aware = isinstance(series.dtype, pd.DatetimeTZDtype)
    return pa.array(series) if aware else series


def markdown() -> dict[str, str]:
    """The tables by the headings of their first columns."""
    rows: dict[str, Iterable[tuple[str, Any]]] = {
        "Arrow type": [(f"`{kind}`".replace("item: ", ""), _array(kind)) for kind in ARROW],
        "numpy and Python": NUMPY,
        "pandas": [(what, _series(series)) for what, series in PANDAS],
    }
    tables = {
        head: "\n".join(
            [f"| {head} | feature | in the record | TensorFlow's feature |", DASHES]
            + [line(what, column) for what, column in given]
        )
        for head, given in rows.items()
    }
    head = ["| two records | inferred feature | rows |", "| --- | --- | --- |"]
    return {**tables, "two records": "\n".join([*head, *(inferred(*each) for each in RECORDS)])}


if __name__ == "__main__":
    print("\n\n".join(markdown().values()))
