"""Records that are written as they are: each is what the longer way makes of it, and what readers
get."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tfio_store.errors import SchemaError
from tfio_store.example.record_fit import FittingRecords, fit_record
from tfio_store.example.schema import written_schema

FEATURES: dict[str, Any] = {
    "int64": "int64",
    "int8": "int8",
    "uint64": "uint64",
    "bool": "bool",
    "float32": "float32",
    "float64": "float64",
    "bfloat16": "bfloat16",
    "bytes": "bytes",
    "str": "str",
    "time": "datetime64[ms]",
    "label": tfs.Feature.class_label(["cat", "dog"]),
    "photo": tfs.Feature.image(),
    "two labels": tfs.Feature.class_label(["cat", "dog"], shape=(2,)),
    "two": ("int64", (2,)),
    "two floats": ("float32", (2,)),
    "two names": ("str", (2,)),
    "two by three": ("float32", (2, 3)),
    "ragged": ("int64", (None,)),
    "ragged pairs": ("uint8", (None, 2)),
    "nested": ("int64", (None, None)),
    "raw": tfs.Feature("int16", (2,), raw=True),
    "nullable": tfs.Feature("int64", nullable=True),
    "with a default": tfs.Feature("int64", default=3),
    "steps": tfs.Feature("int64", (None,), sequence=True),
}
SCALARS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.integers(-3, 3),
    st.floats(),
    st.floats(width=32),
    st.booleans(),
    st.binary(max_size=4),
    st.text(max_size=4),
    st.none(),
    st.sampled_from([np.str_("a\0"), np.bytes_(b"a"), np.int8(1), np.uint64(2**64 - 1), "\udc80"]),
    st.sampled_from([np.float16(1), np.float64(1e300), np.float32(1e-45), np.bool_(True), "dog"]),
    st.sampled_from([np.ma.masked, np.datetime64(1, "ms"), np.longdouble(1), 1 + 0j]),
)
DTYPES = ["int64", "int32", "uint8", ">i8", "uint64", "float32", "float64", "bool", "S2", "U2", "O"]
ARRAYS = st.builds(
    lambda dtype, shape, number: np.full(shape, number).astype(dtype),
    st.sampled_from(DTYPES),
    st.sampled_from([(), (0,), (2,), (3,), (2, 2), (2, 3), (0, 2)]),
    st.integers(0, 3),
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.lists(st.integers(0, 2), max_size=3) | ARRAYS


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(sorted(FEATURES)), VALUES)
def test_what_fits_is_written_as_the_longer_way_writes_it(name: str, value: Any) -> None:
    schema = written_schema({"x": FEATURES[name]})
    record = {"x": value}
    if record not in FittingRecords(schema):
        return
    fit = fit_record(record, schema)
    try:
        data = tfs.encode_example(record)
    except ValueError:
        assert "\udc80" in (value if isinstance(value, list) else [value])
        return
    assert data == tfs.encode_example(fit)
    found = tfs.decode_examples([data], schema)["x"]
    got = found[0] if not isinstance(found, tfs.Ragged) else found.values
    feature = schema["x"]
    if feature.dtype in ("bytes", "str"):
        assert np.array(got, object).tolist() == value
    else:
        wanted = np.asarray(value).astype(feature.item_dtype())
        np.testing.assert_array_equal(np.asarray(got).reshape(wanted.shape), wanted)


FITTING: dict[str, list[Any]] = {
    "int64": [0, -(2**63), 2**63 - 1, np.int64(3), np.uint8(3)],
    "int8": [-128, 127],
    "uint64": [2**63 - 1],
    "float32": [0.0, 0.1, 3.4e38, np.float32(0.5), np.float64(0.5)],
    "bytes": [b"", b"a\0"],
    "str": ["", "ä"],
    "label": [0, 1],
    "two": [[1, 2], np.array([1, 2])],
    "two floats": [[1.0, 2.5], np.ones(2, np.float32)],
    "two names": [["a", "b"]],
    "two labels": [[0, 1]],
    "two by three": [np.ones((2, 3), np.float32)],
    "ragged": [[1], [1, 2, 3], np.arange(5)],
    "ragged pairs": [np.ones((4, 2), np.uint8)],
    "with a default": [5],
}
OTHER: dict[str, list[Any]] = {
    "int64": [2**63, True, 1.0, None, b"", [1]],
    "int8": [128],
    "float32": [1, 1e300, 1e-50, float("nan"), float("inf"), True],
    "bytes": ["a", np.bytes_(b"a\0"), bytearray(b"a")],
    "str": [b"a", np.str_("a\0")],
    "label": [2, -1, "cat"],
    "two": [[1], (1, 2), np.array([1, 2, 3]), np.array([1, 2], np.int32), [1, None]],
    "two labels": [np.array([0.0, 1.0]), np.array([0, 1])],
    "ragged": [[], np.zeros(0, np.int64)],
    "float64": [0.5],
    "bool": [True],
    "time": [0],
    "photo": [b"GIF89a"],
    "nested": [[[1, 2]]],
    "raw": [np.zeros(2, np.int16)],
    "steps": [[1, 2]],
}


@pytest.mark.parametrize("name", FEATURES)
def test_what_is_known_to_fit(name: str) -> None:
    records = FittingRecords(written_schema({"x": FEATURES[name]}))
    records = pickle.loads(pickle.dumps(records))
    assert all({"x": value} in records for value in FITTING.get(name, ()))
    assert all({"x": value} not in records for value in OTHER.get(name, ()))


@pytest.mark.parametrize("record", [{}, {"x": 1}, {"x": 1, "y": 2, "z": 3}, {1: 2}, [1], b"", None])
def test_a_record_of_other_features(record: object) -> None:
    assert record not in FittingRecords(written_schema({"x": "int64", "y": "int64"}))


def test_a_writer_refuses_what_does_not_fit_behind_what_does(tmp_path: Any) -> None:
    writer = tfs.ShardedWriter(str(tmp_path / "train"), num_shards=1, schema={"x": "int8"})
    writer.write({"x": 1})
    for value in (128, "1", 1.5, [1, 2]):
        with pytest.raises(SchemaError, match="x"):
            writer.write({"x": value})
    writer.write_batch([{"x": 2}, {"x": np.int8(3)}])
    writer.close()
    assert tfs.read_table(str(tmp_path / "train"))["x"].tolist() == [1, 2, 3]
