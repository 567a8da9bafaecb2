"""`ShardedWriter(schema=...)`: what is no schema is refused, and so are records that break it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

SCHEMA = tfs.Schema(
    {
        "label": "int64",
        "image": ("float32", (2, 2)),
        "tokens": ("int64", (None,)),
        "rows": ("float32", (None, None)),
        "raw": tfs.Feature("uint8", (3,), raw=True),
        "name": tfs.Feature("str", default=""),
    }
)


def record(**change: Any) -> dict[str, Any]:
    sound: dict[str, Any] = {
        "label": 1,
        "image": np.zeros((2, 2), np.float32),
        "tokens": [1, 2, 3],
        "rows": [1.5, 2.5],
        "rows/row_lengths": [1, 1],
        "raw": b"abc",
    }
    changed = sound | change
    return {name: value for name, value in changed.items() if value is not None}


def writer(folder: Path, **options: Any) -> tfs.ShardedWriter:
    return tfs.ShardedWriter(str(folder / "t"), num_shards=1, **({"schema": SCHEMA} | options))


@pytest.mark.parametrize("by", ["write", "write_batch"])
def test_sound_records_are_written(tmp_path: Path, by: str) -> None:
    records = [record(label=i) for i in range(20)]
    with writer(tmp_path) as target:
        if by == "write_batch":
            target.write_batch(records)
        else:
            for each in records:
                target.write(each)
        target.write(b"what is bytes already")
    assert len(list(tfs.RecordReader(tmp_path / "t"))) == 21


WRONG: dict[str, Any] = {
    "label": {"label": None},
    "image": {"image": [1.0, 2.0]},
    "tokens": {"tokens": [1.5]},
    "raw": {"raw": b"abcd"},
    "lable": {"lable": 3},
    "name": {"name": 7},
}


@pytest.mark.parametrize("feature", WRONG)
def test_a_record_that_breaks_the_schema_is_refused(tmp_path: Path, feature: str) -> None:
    wrong = record(**WRONG[feature])
    with writer(tmp_path) as target:
        with pytest.raises(tfs.SchemaError, match=f"{feature}"):
            target.write(wrong)
        target.write(record())
    assert target.manifest.records == 1
    with writer(tmp_path, if_exists="overwrite") as target:
        with pytest.raises(tfs.SchemaError, match=rf"record 2: .*{feature}"):
            target.write_batch([record(), b"bytes", wrong])
        target.abort()
    assert len(list(tfs.RecordReader(tmp_path / "t"))) == 1


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("int64", TypeError),
        (["label"], TypeError),
        (3, TypeError),
        ({"label": "no dtype"}, ValueError),
        ({"label": object()}, TypeError),
        ({"features": {"label": {}}}, ValueError),
        ({1: "int64"}, TypeError),
    ],
)
def test_what_is_no_schema_is_refused(tmp_path: Path, schema: Any, error: type) -> None:
    with pytest.raises(error, match="schema= "):
        writer(tmp_path, schema=schema)
    with pytest.raises(error, match="schema= "):
        tfs.WriteJob(str(tmp_path / "t"), num_shards=1, schema=schema)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA.to_json(), dict(SCHEMA)])
def test_every_form_of_a_schema_is_kept_alike(tmp_path: Path, schema: Any) -> None:
    with writer(tmp_path, schema=schema) as target:
        target.write(record())
    assert tfs.infer_schema(tmp_path / "t") == SCHEMA


def test_a_job_checks_its_records_too(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "t"), num_shards=1, schema=SCHEMA)
    with job, pytest.raises(tfs.SchemaError, match="record 1: feature 'label'"):
        job.write_shard(0, [record(), record(label=None)])


ARRAYS = tfs.Schema(
    {
        "double": tfs.Feature("float64", (3,), raw=True),
        "pixels": tfs.Feature("uint8", (2, 2), raw=True),
        "small": ("uint8", (2, 2)),
        "rows": tfs.Feature("float64", (None, 2), raw=True),
        "when": tfs.Feature("datetime64[s]", raw=True),
        "price": "float32",
    }
)


def arrays(**change: Any) -> dict[str, Any]:
    sound: dict[str, Any] = {
        "double": np.array([0.1, 0.2, 0.3]),
        "pixels": np.array([[1, 2], [3, 255]], np.uint8),
        "small": np.array([[1, 2], [3, 255]], np.uint8),
        "rows": np.array([[0.1, 0.2]]),
        "when": np.datetime64("2020-01-01", "s"),
        "price": 1.5,
    }
    return sound | change


@pytest.mark.parametrize("by", ["write", "write_batch"])
def test_arrays_keep_dtype_and_shape_by_the_schema(tmp_path: Path, by: str) -> None:
    records = [arrays(), arrays(double=[1.0, 2.0, 3.0], rows=np.zeros((0, 2)), pixels=b"\1\2\3\4")]
    with writer(tmp_path, schema=ARRAYS) as target:
        if by == "write_batch":
            target.write_batch(records)
        else:
            for each in records:
                target.write(each)
    found = tfs.read_table(tmp_path / "t")
    for name in ("double", "pixels", "small", "when"):
        wanted = np.asarray(arrays()[name])
        assert found[name].dtype == wanted.dtype
        assert np.array_equal(found[name][0], wanted)
    assert found["rows"].tolist() == [[[0.1, 0.2]], []]
    assert found["double"][1].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"double": np.ones(2)}, r"'double' has shape \(2,\), where the schema has \(3,\)"),
        ({"double": np.ones((3, 1))}, r"'double' has shape \(3, 1\)"),
        ({"double": ["a"] * 3}, "'double' holds <U1, where the schema has raw float64"),
        ({"pixels": np.full((2, 2), 256)}, "'pixels' holds 256 .*uint8"),
        ({"pixels": np.full((2, 2), 1.5)}, "'pixels' holds 1.5 .*uint8"),
        ({"small": np.ones((4, 1), np.uint8)}, r"'small' has shape \(4, 1\)"),
        ({"small": np.full((2, 2), 300)}, "'small' holds 300"),
        ({"rows": np.ones(2)}, r"'rows' has shape \(2,\)"),
        ({"rows": 1.5}, r"'rows' has shape \(\)"),
        ({"when": 3}, "'when' .*datetime64"),
        ({"price": 1e300}, "'price' holds 1e.300, which float32 can't hold"),
        ({"price": np.float64(-1e300)}, "'price' holds -1e.300"),
        ({"price": np.ones((1, 1))}, r"'price' has shape \(1, 1\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, change: Any, says: str) -> None:
    with writer(tmp_path, schema=ARRAYS) as target:
        with pytest.raises(tfs.SchemaError, match=f"record 0: feature {says}"):
            target.write(arrays(**change))
        target.abort()


@pytest.mark.parametrize("record", [np.ones(3), np.zeros(2, np.uint8), np.float32(1)])
def test_a_bare_array_is_no_record(tmp_path: Path, record: Any) -> None:
    with tfs.TFRecordWriter(tmp_path / "f") as file:
        with pytest.raises(TypeError, match=r"not an array of .*tobytes"):
            file.write(record)
        file.write(np.bytes_(b"bytes"))
        file.write(memoryview(record.tobytes()))
    with writer(tmp_path) as target:
        with pytest.raises(TypeError, match="not an array of"):
            target.write(record)
        with pytest.raises(TypeError, match="not an array of"):
            target.write_batch([b"bytes", record])
        target.abort()


def test_masked_values_are_not_written(tmp_path: Path) -> None:
    schema = tfs.Schema({"x": tfs.Feature("float64", (2,), raw=True, nullable=True)})
    with tfs.ShardedWriter(f"{tmp_path}/t", num_shards=1, schema=schema.to_json()) as writer:
        with pytest.raises(ValueError, match="'x': 1 of 2 values are null"):
            writer.write({"x": np.ma.array([1.5, 2.5], mask=[False, True])})
        writer.write({"x": np.ma.masked_all(2)})
    assert tfs.read_table(f"{tmp_path}/t")["x"].tolist() == [[None, None]]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (1, 1.0),
        (np.int64(-(2**24)), -(2.0**24)),
        (2**100, 2.0**100),
        ([1, 2.5], [1.0, 2.5]),
        (np.array([3, 4], np.uint8), [3.0, 4.0]),
    ],
)
def test_integers_that_are_floats_are_taken_as_such(
    tmp_path: Path, given: Any, wanted: Any
) -> None:
    shape = (2,) if isinstance(wanted, list) else ()
    schema = {"x": tfs.Feature("float32", shape)}
    with tfs.ShardedWriter(tmp_path / "a", num_shards=1, schema=schema) as writer:
        writer.write({"x": given})
    assert tfs.read_table(tmp_path / "a")["x"][0].tolist() == wanted


def test_integers_that_float32_would_round_are_refused(tmp_path: Path) -> None:
    schema = {"x": "float32", "y": tfs.Feature("float32", (2,))}
    with tfs.ShardedWriter(tmp_path / "a", num_shards=1, schema=schema) as writer:
        with pytest.raises(tfs.SchemaError, match=r"'x'.*16777217, which no float32 is"):
            writer.write({"x": 16777217, "y": [1, 2]})
        with pytest.raises(tfs.SchemaError, match=r"'y'.*16777217, which no float32 is"):
            writer.write({"x": 16777217.0, "y": np.array([1, 16777217])})
