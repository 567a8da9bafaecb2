"""The table of docs/types.md: TensorFlow reads each row by its plain feature, and the dtype and the
values come back."""

from __future__ import annotations

import datetime
import decimal
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.example.columns import normal_column
from tfio_store.example.learned import schema_of

tf = pytest.importorskip("tensorflow")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

from tests.support.table_types import ARROW, NUMPY, PANDAS, plain_feature  # noqa: E402

DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12, 0, 1)
ITEMS: dict[str, Any] = {
    "bool": True,
    "half": 0.5,
    "float": 0.5,
    "double": 0.1,
    "string": "ü\0",
    "large_string": "ü",
    "string_view": "ü",
    "binary": b"\0a\0",
    "large_binary": b"\0",
    "binary_view": b"\0",
    "fixed_size_binary[4]": b"abc\0",
    "date32[day]": DAY,
    "date64[ms]": DAY,
    "time32[s]": datetime.time(12, 0, 1),
    "time64[ns]": datetime.time(12, 0, 1),
    "timestamp[us]": NOON,
    "timestamp[us, tz=UTC]": NOON.replace(tzinfo=datetime.timezone.utc),
    "duration[s]": datetime.timedelta(seconds=5),
    "null": None,
}


def item(kind: Any) -> Any:
    """A value of an Arrow type."""
    if str(kind) in ITEMS:
        return ITEMS[str(kind)]
    if pa.types.is_dictionary(kind):
        return item(kind.value_type)
    if pa.types.is_decimal(kind):
        return decimal.Decimal("1.50") if kind.scale == 2 else decimal.Decimal("1.505")
    if pa.types.is_fixed_size_list(kind):
        return [item(kind.value_type)] * kind.list_size
    if hasattr(kind, "value_type"):
        return [] if pa.types.is_null(kind.value_type) else [item(kind.value_type)] * 2
    return 7


def columns() -> dict[str, Any]:
    found: dict[str, Any] = dict(NUMPY)
    found |= {f"pandas: {what}": pa.array(s) if "UTC" in what else s for what, s in PANDAS}
    for kind in ARROW:
        name = str(kind)
        if any(odd in name for odd in ("struct", "map", "list_view", "interval", "run_end")):
            continue
        if name.count("list<") < 3:
            found[name] = pa.array([item(kind)] * 2, kind)
    del found["complex128 array"]
    return found


COLUMNS = columns()


def held(column: Any, feature: tfs.Feature) -> Any:
    """The values of a normal column as records hold them; a null is TensorFlow's default."""
    if isinstance(column, tfs.Nullable):
        values = np.asarray(list(column.values), object)
        values[~column.valid] = 0 if feature.wire == "int64" else ""
        return [int(np.int64(v)) if feature.wire == "int64" else v for v in values]
    if isinstance(column, tfs.Ragged):
        flat, splits = held(column.values, feature), column.row_splits.tolist()
        return [flat[start:stop] for start, stop in pairwise(splits)]
    column = getattr(column, "batch", column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        return column.view(np.int64).tolist()
    return np.asarray(column).tolist() if isinstance(column, np.ndarray) else list(column)


def encoded(value: Any) -> Any:
    """Text as TensorFlow has it."""
    if isinstance(value, list):
        return [encoded(each) for each in value]
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("what", COLUMNS)
def test_tensorflow_reads_the_row_and_the_values_come_back(tmp_path: Path, what: str) -> None:
    column, url = COLUMNS[what], str(tmp_path / "t")
    normal = normal_column("x", column)
    feature = schema_of({"x": normal})["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tfs.write_table({"x": column}, url, num_shards=1)
    schema = tfs.infer_schema(url)
    assert schema["x"] == feature
    spec = eval(
        plain_feature(feature), {"tf": tf, **vars(tf.io), "RaggedFeature": tf.io.RaggedFeature}
    )
    records = list(tfs.RecordReader(url))
    seen = tf.io.parse_example(records, {"x": spec})["x"]
    seen = seen.to_list() if isinstance(seen, tf.RaggedTensor) else seen.numpy().tolist()
    wanted = encoded(held(normal, feature))
    if feature.wire == "float32":
        wanted = np.asarray(wanted, np.float32).tolist()
        assert np.array_equal(np.asarray(seen, np.float32), wanted, equal_nan=True)
    elif what != "null":
        assert seen == wanted
    found = tfs.read_table(url)
    flat = found["x"]
    while isinstance(flat, tfs.Ragged):
        flat = flat.values
    if feature.dtype not in ("str", "bytes"):
        assert np.asarray(flat).dtype == feature.dtype
    if isinstance(column, pa.Array) and "double" not in str(column.type):
        assert found.to_arrow()["x"].combine_chunks().equals(column)
        assert found.to_arrow()["x"].type == column.type
    elif isinstance(column, pa.Array):
        assert "float" in str(found.to_arrow()["x"].type)


def test_float64_is_told_once_by_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [0.1], "y": [1], "z": [0.2]})
    with pytest.warns(RuntimeWarning, match="columns 'x', 'z'; schema={'x': 'float64'}") as told:
        tfs.write_table([frame, frame], tmp_path / "t")
    assert len(told) == 1
    assert told[0].filename == __file__
    assert tfs.read_table(tmp_path / "t")["x"].dtype == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tfs.write_table(frame, tmp_path / "a", schema={"x": "float32", "z": "float64"})
        tfs.write_table(frame, tmp_path / "b", exact=True)
    assert tfs.infer_schema(tmp_path / "a")["z"] == tfs.Feature("float64", raw=True)
    pd.testing.assert_frame_equal(tfs.read_table(tmp_path / "b").to_pandas(), frame)


WIDE = [0.1, 1e300, 1e-300, -0.0, 123456789.0, float("nan"), float("inf")]


def doors(url: str) -> dict[str, Any]:
    """Each way to write float64 by a schema that says so."""
    schema = {"x": "float64"}
    rows = [{"x": x} for x in WIDE]

    def sharded() -> None:
        with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
            writer.write(rows[0])
            writer.write_batch(rows[1:])

    def job() -> None:
        with tfs.WriteJob(url, schema=schema) as job:
            job.commit([job.write(rows)])

    def encoded_batch() -> None:
        with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
            writer.write_batch(tfs.encode_examples({"x": WIDE}, schema=schema))

    def converted() -> None:
        np.save(url + ".npy", np.array(WIDE))
        tfs.convert(url + ".npy", url, schema={"array": "float64"}, num_shards=1)

    def exactly() -> None:
        tfs.write_table({"x": WIDE}, url, exact=True)

    return {
        "write_table": lambda: tfs.write_table({"x": WIDE}, url, schema=schema),
        "exact": exactly,
        "ShardedWriter": sharded,
        "WriteJob": job,
        "encode_examples": encoded_batch,
        "convert": converted,
    }


@pytest.mark.parametrize("door", doors(""))
def test_a_schema_that_says_float64_is_exact(tmp_path: Path, door: str) -> None:
    url = str(tmp_path / "t")
    doors(url)[door]()
    name = "array" if door == "convert" else "x"
    for schema in (None, {name: "float64"}):  # both are told of memory
        found = tfs.read_table(url, schema=schema)[name]
        assert found.dtype == np.float64
        assert found.tobytes() == np.array(WIDE).tobytes()


def test_float64_of_a_reader_takes_rounded_values_too() -> None:
    records = [tfs.encode_example({"x": 0.5})]
    for feature in ("float64", tfs.Feature("float64", raw=True)):
        assert tfs.decode_examples(records, {"x": feature})["x"].dtype == np.float64
    with pytest.raises(tfs.SchemaError, match="'x'"):
        tfs.decode_examples([tfs.encode_example({"x": b"abc"})], {"x": "float64"})


def test_no_schema_says_float64_where_records_have_no_room_for_it(tmp_path: Path) -> None:
    steps = {"x": tfs.Feature("float64", (None,), sequence=True)}
    with pytest.raises(ValueError, match="'x' is a feature list of float64"):
        tfs.ShardedWriter(tmp_path / "t", num_shards=1, schema=steps)


@pytest.mark.parametrize("value", [1e300, -1e39, 1e-50, np.float64(1e300), np.longdouble(1e39)])
def test_a_float_beyond_float32_is_refused_in_every_door(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match=r"feature 'x'.* does not fit float32"):
        tfs.encode_example({"a": 1, "x": value})
    with pytest.raises(ValueError, match=r"feature 'x'.* does not fit float32"):
        tfs.encode_examples({"x": [1.5, value]})
    with pytest.raises(ValueError, match=r"feature 'x'.* does not fit float32"):
        tfs.write_table({"x": np.array([1.5, value])}, tmp_path / "t")
    writer = tfs.ShardedWriter(tmp_path / "t", num_shards=1)
    with pytest.raises(ValueError, match=r"feature 'x'.* does not fit float32"), writer:
        writer.write({"x": value})
    writer = tfs.ShardedWriter(tmp_path / "t", num_shards=1, schema={"x": "float32"})
    with pytest.raises(tfs.SchemaError, match=r"'x'.*which float32 can't hold"), writer:
        writer.write({"x": value})
    assert not list(tmp_path.iterdir())


def test_what_no_feature_holds_is_refused_by_name(tmp_path: Path) -> None:
    for column, says in (
        (np.array([2**63], np.uint64), "does not fit int64.*raw=True.*exact=True"),
        (np.array([1j]), "two features.*exact=True"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"feature 'x'.*{says}"):
            tfs.write_table({"x": column}, tmp_path / "no")
        tfs.write_table({"x": column}, tmp_path / "t", exact=True, if_exists="overwrite")
        assert tfs.read_table(tmp_path / "t")["x"].tolist() == column.tolist()


def test_times_of_dicts_keep_their_unit_by_the_schema(tmp_path: Path) -> None:
    schema = {"t": "datetime64[ms]", "d": tfs.Feature("timedelta64[s]", (None,))}
    with tfs.ShardedWriter(tmp_path / "t", num_shards=1, schema=schema) as writer:
        writer.write({"t": np.datetime64("2026-01-02", "D"), "d": np.ones(2, "m8[m]")})
        with pytest.raises(tfs.SchemaError, match=r"'t'.*int64, where the schema has datetime64"):
            writer.write({"t": 5, "d": np.ones(2, "m8[m]")})
        with pytest.raises(tfs.SchemaError, match=r"'t'.*does not fit datetime64"):
            writer.write({"t": np.datetime64(1, "us"), "d": np.ones(2, "m8[m]")})
    table = tfs.read_table(tmp_path / "t")
    assert table["t"].tolist() == [datetime.datetime(2026, 1, 2)]
    assert table["d"][0].tolist() == [datetime.timedelta(minutes=1)] * 2
    assert tfs.infer_schema(tmp_path / "t").feature_spec()["t"].dtype == tf.int64
