"""Tables come back exactly: names, order, types, metadata; or an error names the column."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from tests.servers.place import Place
from tfio_store import (
    RecordReader,
    Schema,
    decode_examples,
    infer_schema,
    iter_tables,
    read_table,
    write_table,
)
from tfio_store.dataset.manifest import DatasetManifest

write_exactly = partial(write_table, exact=True)

RELAXED = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

SMALL = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *((kind, st.integers(-(2**bits), 2**bits - 1)) for kind, bits in SMALL.items()),
    (pa.uint8(), st.integers(0, 2**8 - 1)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    *((kind, st.text(max_size=3)) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, st.binary(max_size=3)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("s"), st.integers(0, 86399)),
    (pa.time32("ms"), st.integers(0, 86399999)),
    (pa.time64("us"), st.integers(0, 86399999999)),
    (pa.time64("ns"), st.integers(0, 86399999999999)),
    *((pa.duration(unit), st.integers(-(2**62), 2**62)) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit), st.integers(-(2**31), 2**31)) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", tz="Europe/Paris"), st.integers(-(2**31), 2**31)),
    (pa.timestamp("ns", tz="+05:30"), st.integers(-(2**31), 2**31)),
    (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    (pa.decimal256(40, 0), st.integers(-(10**39), 10**39).map(Decimal)),
    (pa.null(), st.none()),
]
DICTIONARIES = [
    (pa.dictionary(pa.int8(), pa.string()), st.text(max_size=1)),
    (pa.dictionary(pa.int32(), pa.int64(), ordered=True), st.integers(0, 3)),
    (pa.dictionary(pa.uint16(), pa.binary()), st.binary(max_size=1)),
]


def lists_of(kind: Any, items: st.SearchStrategy[Any]) -> list[tuple[Any, Any]]:
    some = st.lists(items, max_size=3)
    return [
        (pa.list_(kind), some),
        (pa.large_list(kind), some),
        (pa.list_(kind, 2), st.lists(items, min_size=2, max_size=2)),
        (pa.list_(pa.list_(kind)), st.lists(some, max_size=2)),
        (pa.list_(pa.list_(kind, 2)), st.lists(st.lists(items, min_size=2, max_size=2))),
    ]


SHAPES = [
    *SCALARS,
    *DICTIONARIES,
    *(each for kind, items in SCALARS[:-1] for each in lists_of(kind, items)),
    (pa.list_(pa.null()), st.just([])),
    (pa.list_(pa.int64(), 0), st.just([])),
]
NESTED: dict[Any, list[Any]] = {
    pa.list_(pa.list_(pa.time32("s")), 2): [[[1], [2]], None, [[], [3, 4]]],
    pa.list_(pa.list_(pa.dictionary(pa.int8(), pa.string())), 2): [[["a"], ["b"]], None],
    pa.list_(pa.list_(pa.string_view()), 2): [[["a"], ["b", "c"]], None],
    pa.list_(pa.list_(pa.binary_view()), 2): [[[b"a"], []]],
    pa.list_(pa.list_(pa.time64("us"), 2), 1): [[[1, 2]], None],
    pa.list_(pa.string(), 0): [[], []],
}
EXTENSIONS = [
    pa.uuid(),
    pa.json_(),
    pa.bool8(),
    pa.fixed_shape_tensor(pa.int32(), (2, 2)),
    pa.opaque(pa.binary(), "kind", "vendor"),
]
CELLS_OF = {pa.uuid(): b"a" * 16, pa.json_(): "[]", pa.bool8(): 1, EXTENSIONS[-1]: b"a"}


@st.composite
def arrow_columns(draw: Any, rows: int) -> Any:
    kind, items = draw(st.sampled_from(SHAPES))
    cells = draw(st.lists(st.none() | items, min_size=rows, max_size=rows))
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(cells, kind)


@st.composite
def arrow_tables(draw: Any) -> Any:
    rows = draw(st.integers(0, 4))
    names = draw(st.lists(st.text(max_size=3), unique=True, max_size=4))
    columns = [draw(arrow_columns(rows)) for _ in names]
    fields = [
        pa.field(name, column.type, metadata=draw(st.sampled_from([None, {"unit": "m"}])))
        for name, column in zip(names, columns, strict=True)
    ]
    metadata = draw(st.sampled_from([None, {"made": "here", b"\xff": b"\x00"}]))
    return pa.table(columns, schema=pa.schema(fields, metadata=metadata))


@RELAXED
@given(arrow_tables(), st.sampled_from([None, "GZIP"]), st.sampled_from(["object", "batch"]))
def test_any_arrow_table(tmp_path: Path, table: Any, compression: Any, strings: Any) -> None:
    if not table.num_columns:
        return  # a table without columns has no rows
    url = f"{tempfile.mkdtemp(dir=tmp_path)}/t"
    write_exactly(table, url, compression=compression, num_shards=1)
    found = read_table(url, strings=strings).to_arrow()
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.equals(table)


@settings(RELAXED, max_examples=10)
@given(arrow_tables(), st.sampled_from([None, "GZIP"]), st.integers(1, 4))
def test_any_arrow_table_through_s3_in_parts(
    s3: Place, table: Any, compression: Any, rows: int
) -> None:
    if not table.num_columns:
        return
    url, options = s3.url("t"), s3.storage_options
    parts = [table.slice(at, rows) for at in range(0, max(1, table.num_rows), rows)]
    write_exactly(
        iter(parts), url, compression=compression, num_shards=1, if_exists="overwrite",
        storage_options=options,
    )  # fmt: skip
    assert read_table(url, storage_options=options).to_arrow().equals(table)


def test_no_rows_have_their_types_too(tmp_path: Path) -> None:
    table = pa.schema({str(kind): kind for kind, _ in SHAPES}).empty_table()
    write_exactly(table, f"{tmp_path}/t")
    assert read_table(f"{tmp_path}/t").to_arrow().equals(table)


@pytest.mark.parametrize("strings", ["object", "batch"])
@pytest.mark.parametrize("kind", NESTED, ids=str)
def test_lists_of_lists(tmp_path: Path, kind: Any, strings: Any) -> None:
    rows = NESTED[kind]
    table = pa.table({"x": pa.array(rows, kind), "y": range(len(rows))})
    write_exactly(table, f"{tmp_path}/t", num_shards=1)
    assert read_table(f"{tmp_path}/t", strings=strings).to_arrow().equals(table)


def test_dictionaries_inside_lists_outgrow_their_index(tmp_path: Path) -> None:
    kind = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    parts = [pa.table({"x": pa.array([[f"{j}-{i}" for i in range(100)]], kind)}) for j in range(2)]
    write_exactly(parts, f"{tmp_path}/t", num_shards=1)
    found = read_table(f"{tmp_path}/t").to_arrow()["x"]
    assert found.to_pylist() == [row for part in parts for row in part["x"].to_pylist()]
    assert found.type == pa.list_(pa.dictionary(pa.int32(), pa.string()))
    streamed = pa.table(iter_tables(f"{tmp_path}/t", batch_rows=2))["x"]
    assert streamed.to_pylist() == found.to_pylist()


@pytest.mark.parametrize("strings", ["object", "batch"])
@pytest.mark.parametrize("kind", EXTENSIONS, ids=str)
def test_extension_types(tmp_path: Path, kind: Any, strings: Any) -> None:
    cells = pa.array([CELLS_OF.get(kind, [1, 2, 3, 4]), None], kind.storage_type)
    table = pa.table({"x": pa.ExtensionArray.from_storage(kind, cells)})
    write_exactly(table, f"{tmp_path}/t", num_shards=1)
    assert read_table(f"{tmp_path}/t", strings=strings).to_arrow().equals(table)
    write_exactly(table[:0], f"{tmp_path}/none")
    assert read_table(f"{tmp_path}/none").to_arrow().equals(table[:0])


FRAMES: dict[str, Any] = {
    "numbers": {"z": [1.5, np.nan], "a": [1, 2], "u": np.array([1, 2**64 - 1], np.uint64)},
    "flags": {"b": [True, False]},
    "nullable numbers": {"i": pd.array([1, None], "Int8"), "f": pd.array([None, 1.5], "Float32")},
    "nullable flags": {"b": pd.array([None, True], "boolean")},
    "text": {"s": ["é", None], "t": pd.array(["a", None], "string")},
    "bytes": {"b": pd.Series([b"\xff", None], dtype=object)},
    "zones": {"t": pd.date_range("2020-03-29", periods=2, tz="Europe/Paris")},
    "dates": {"t": pd.to_datetime(["2020-01-01", None]), "d": [dt.date(2020, 1, 1), None]},
    "durations": {"t": pd.to_timedelta([1, None], unit="s")},
    "decimals": {"d": [Decimal("1.50"), None]},
    "categories": {"c": pd.Categorical(["a", None], categories=["z", "a"])},
    "ordered": {"c": pd.Categorical([2, 1], categories=[3, 2, 1], ordered=True)},
    "periods": {"p": pd.period_range("2020", periods=2, freq="M")},
    "Arrow": {"a": pd.array([1, None], pd.ArrowDtype(pa.uint8()))},
    "complex": {"c": [1j, 2], "s": ["a", "b"]},
    "nothing": {"n": pd.Series([None, None], dtype=object)},
}


@pytest.mark.parametrize("name", FRAMES)
def test_pandas(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(FRAMES[name])
    write_exactly(frame, f"{tmp_path}/t", num_shards=1)
    pd.testing.assert_frame_equal(read_table(f"{tmp_path}/t").to_pandas(), frame)
    parts = (frame[i : i + 1] for i in range(2))
    write_exactly(parts, f"{tmp_path}/p", num_shards=1)
    pd.testing.assert_frame_equal(read_table(f"{tmp_path}/p").to_pandas(), frame)
    last = list(frame)[-1]
    found = read_table(f"{tmp_path}/t", columns=[last]).to_pandas()
    pd.testing.assert_frame_equal(found, frame[[last]])


CELLS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "Int16": st.none() | st.integers(-(2**15), 2**15 - 1),
    "float64": st.floats(),
    "boolean": st.none() | st.booleans(),
    "string": st.none() | st.text(max_size=3),
    "category": st.none() | st.sampled_from("ab"),
    "datetime64[us, Europe/Paris]": st.none() | st.datetimes(dt.datetime(1999, 1, 1)),
    "timedelta64[ns]": st.none() | st.timedeltas(dt.timedelta(-9), dt.timedelta(9)),
}


@st.composite
def frames(draw: Any) -> Any:
    rows = draw(st.integers(1, 4))
    kinds = draw(st.dictionaries(st.text(max_size=2), st.sampled_from(sorted(CELLS)), min_size=1))
    made = {}
    for name, kind in kinds.items():
        cells = draw(st.lists(CELLS[kind], min_size=rows, max_size=rows))
        if kind.startswith("datetime"):
            zone = pd.to_datetime(pd.Series(cells, dtype="datetime64[us]"), utc=True)
            made[name] = zone.astype(kind)
        else:
            made[name] = pd.Series(cells, dtype=kind)
    return pd.DataFrame(made)


@RELAXED
@given(frames())
def test_any_frame(tmp_path: Path, frame: Any) -> None:
    url = f"{tempfile.mkdtemp(dir=tmp_path)}/t"
    write_exactly(frame, url, num_shards=1)
    pd.testing.assert_frame_equal(read_table(url).to_pandas(), frame)


class Stream:
    """A producer of an Arrow C stream that is nothing else."""

    def __init__(self, table: Any, rows: int = 2) -> None:
        self._batches = table.to_batches(max_chunksize=rows)
        self._schema = table.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches)
        return reader.__arrow_c_stream__(requested_schema)


def test_any_arrow_stream(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, None], "s": ["a", None, "b"]})
    write_exactly(Stream(table), f"{tmp_path}/t", num_shards=1)
    assert read_table(f"{tmp_path}/t").to_arrow().equals(table)
    write_exactly([Stream(table), Stream(table)], f"{tmp_path}/two", num_shards=1)
    assert read_table(f"{tmp_path}/two").to_arrow().num_rows == 6
    write_exactly(Stream(table[:0]), f"{tmp_path}/none")
    assert read_table(f"{tmp_path}/none").to_arrow().equals(table[:0])


def test_parts_of_other_types(tmp_path: Path) -> None:
    utc, paris = (pa.table({"x": pa.array([1], pa.timestamp("s", tz=tz))}) for tz in ("UTC", "+01"))
    with pytest.raises(TypeError, match=r"'x': a part has the Arrow type .*\+01.*UTC"):
        write_exactly([utc, paris], f"{tmp_path}/t")
    assert not list(tmp_path.iterdir())
    texts = [pa.table({"x": pa.array(["a"], kind)}) for kind in (pa.string(), pa.large_string())]
    write_exactly(texts, f"{tmp_path}/t", num_shards=1)
    assert read_table(f"{tmp_path}/t").to_arrow()["x"].type == pa.string()
    late = [pa.table({"x": pa.nulls(1)}), pa.table({"x": ["a"]})]
    write_exactly(late, f"{tmp_path}/late", num_shards=1)
    assert read_table(f"{tmp_path}/late").to_arrow()["x"].to_pylist() == [None, "a"]


def test_dictionaries_of_parts_are_joined(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    parts = [
        pa.table({"x": pa.array([f"{i}" for i in range(a, b)]).dictionary_encode().cast(kind)})
        for a, b in ((0, 100), (50, 170))
    ]
    write_exactly(parts, f"{tmp_path}/t", num_shards=1)
    found = read_table(f"{tmp_path}/t").to_arrow()["x"]
    assert pa.types.is_dictionary(found.type)  # of a wider index than the parts
    assert found.to_pylist() == parts[0]["x"].to_pylist() + parts[1]["x"].to_pylist()
    streamed = pa.table(iter_tables(f"{tmp_path}/t", batch_rows=30))["x"]
    assert streamed.to_pylist() == found.to_pylist()


def test_a_chosen_feature_has_its_own_type(tmp_path: Path) -> None:
    table = pa.table({"x": [0.1], "y": pa.array([1], pa.timestamp("s", tz="UTC"))})
    write_exactly(table, f"{tmp_path}/t", schema={"x": "float32"})
    found = read_table(f"{tmp_path}/t").to_arrow()
    assert found.schema.types == [pa.float32(), pa.timestamp("s", tz="UTC")]


def test_types_on_request(tmp_path: Path) -> None:
    write_exactly({"x": [1, 2], "s": ["a", "b"]}, f"{tmp_path}/t", num_shards=1)
    wanted = pa.schema({"s": pa.string(), "x": pa.int8()}, metadata={"a": "b"})
    found = read_table(f"{tmp_path}/t").to_arrow(schema=wanted)
    assert found.schema.types == [pa.int8(), pa.string()]
    assert found.schema.metadata == {b"a": b"b"}
    with pytest.raises(ValueError, match="feature 's' can't become int64"):
        read_table(f"{tmp_path}/t").to_arrow(schema=pa.schema({"s": pa.int64()}))


def test_the_schema_carries_the_types(tmp_path: Path) -> None:
    table = pa.table({"d": pa.array([1], pa.date32())})
    manifest = write_exactly(table, f"{tmp_path}/t")
    schema = infer_schema(f"{tmp_path}/t")
    assert Schema.of(schema.to_json()).to_json() == manifest.schema
    with RecordReader(f"{tmp_path}/t") as reader:
        found = decode_examples(list(reader), schema)
    assert found.to_arrow().equals(table)
    again = DatasetManifest.from_bytes(manifest.to_bytes())
    assert again.schema == manifest.schema


@pytest.mark.parametrize("arrow", ["???", "AAAA", 3])
def test_types_that_are_damaged(arrow: Any) -> None:
    json = {"features": {"x": {"dtype": "int64", "shape": []}}, "arrow": arrow}
    with pytest.raises(ValueError, match=r"not the Arrow types|not a schema"):
        decode_examples([], Schema.from_json(json)).to_arrow()
