"""Schemas: what they accept, JSON and back, and inferring them from records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.support.examples import entry, field, int64s, strings, wire_example
from tests.support.indexes import root_bytes
from tfio_store import (
    CorruptRecordError,
    Feature,
    ManifestError,
    Ragged,
    RecordBatch,
    Schema,
    SchemaError,
    ShardedWriter,
    decode_examples,
    encode_example,
    infer_schema,
)
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.records.framing import FrameWriter

SCHEMA = Schema(
    {
        "z": "int64",
        "image": ("float32", (3, 64, 64)),
        "tokens": ("int64", (None,)),
        "text": Feature("str", default="?"),
        "blob": Feature("bytes", (2,), default=[b"\xff", b""]),
        "weird": Feature("float32", default=math.inf),
        "exact": Feature("complex64", (2,), raw=True),
    }
)


def test_a_schema_is_a_mapping_in_the_order_given():
    assert list(SCHEMA) == ["z", "image", "tokens", "text", "blob", "weird", "exact"]
    assert list(Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())))) == list(SCHEMA)
    assert hash(Schema({"a": "int64", "z": "str"})) == hash(Schema({"z": "str", "a": "int64"}))
    assert SCHEMA["tokens"] == Feature("int64", (None,))
    assert len(SCHEMA) == 7
    assert Schema(dict(SCHEMA)) == SCHEMA
    assert Schema({"z": np.int64, "s": bytes})["s"] == Feature("bytes")  # type: ignore[dict-item]
    assert Schema({"z": np.dtype("float32")})["z"] == Feature("float32")  # type: ignore[dict-item]


def test_repr_is_a_table():
    assert repr(SCHEMA.select(["image", "text", "exact"])) == (
        "Schema:\n"
        "  feature  dtype            shape        default\n"
        "  image    float32          (3, 64, 64)\n"
        "  text     str              ()           '?'\n"
        "  exact    complex64 (raw)  (2,)"
    )


def test_json_there_and_back():
    again = Schema.from_json(json.loads(json.dumps(SCHEMA.to_json(), allow_nan=False)))
    assert again == SCHEMA
    nan = Schema({"x": Feature("float32", default=math.nan)})
    assert math.isnan(Schema.from_json(nan.to_json())["x"].default)


@pytest.mark.parametrize("value", [None, [], {}, {"features": 3}, {"features": {"x": {}}}])
def test_json_that_is_no_schema(value):
    with pytest.raises(ValueError, match="not a schema"):
        Schema.from_json(value)


@pytest.mark.parametrize(
    ("feature", "says"),
    [
        ("int65", "dtype must be one of"),
        ("datetime64", "dtype must be one of"),
        ("complex64", "dtype must be one of"),
        (("int64", (-1,)), "no negative dimension"),
        (("int64", (2, None)), "only the first dimension"),
        (("int64", (None, None, None)), "only the first dimension"),
        (("int64", (None, 0)), "can't be told apart"),
        (("int64", 3), "shape must be a tuple"),
        (("int64", (2**33, 2**33)), "too many values"),
        (("int64", (None,), 3), "no default"),
        (("int64", (2,), [1, 2, 3]), "default must be a scalar or of shape"),
        (("object", (), None, True), "no fixed size"),
        ((">i4", (), None, True), "'>i4' is big-endian, and raw memory is not: pass 'int32'"),
        (("no_such", (), None, True), "not known to numpy"),
        (("bytes", (), None, True), "raw is for numbers"),
        (("str", (None,), None, True), "raw is for numbers"),
        ((), "dtype"),
    ],
)
def test_features_that_make_no_sense(feature, says):
    with pytest.raises((TypeError, ValueError), match=f"feature 'x': .*{says}"):
        Schema({"x": feature})


HOSTILE = [
    ({"default": json.loads("[" * 900 + "]" * 900)}, "nested more than 64 lists"),
    ({"dtype": "i4,(2,", "raw": True}, "not the name of a single dtype"),
    ({"dtype": "(" * 300 + "1)i4", "raw": True}, "not the name of a single dtype"),
    ({"dtype": "datetime64[(2,"}, "not the name of a single dtype"),
    ({"shape": [1] * 256}, "256 dimensions"),
    ({"shape": [math.inf]}, "not a schema"),
]


@pytest.mark.parametrize(("feature", "says"), HOSTILE)
def test_schemas_that_are_made_to_do_harm(feature: dict[str, Any], says: str) -> None:
    """No other error than ValueError, and soon."""
    with pytest.raises(ValueError, match=says):
        Schema.from_json({"features": {"x": {"dtype": "int64", "shape": [], **feature}}})


def test_a_schema_that_is_none_is_the_manifests_error(tmp_path: Path) -> None:
    with ShardedWriter(tmp_path / "t", schema={"x": "int64"}) as writer:
        writer.write({"x": 1})
    path = tmp_path / "_t.manifest.json"
    document = json.loads(path.read_bytes())
    for feature, says in HOSTILE[:-1]:
        document["schema"]["features"]["x"] = {"dtype": "int64", "shape": [], **feature}
        path.write_bytes(root_bytes(document))
        with pytest.raises(ManifestError, match=says):
            tfs.open(tmp_path / "t").schema  # noqa: B018


@pytest.mark.parametrize("dtype", ["<i4", "|u1", "?", "float", "S3", "V8", "M8[25s]", "complex64"])
def test_names_of_dtypes_that_numpy_knows(dtype: str) -> None:
    feature = Feature(dtype, (2,), raw=True)
    assert Feature.from_json(feature.to_json()) == feature
    assert feature.item_dtype() == np.dtype(dtype)


def test_names_that_collide():
    with pytest.raises(ValueError, match="needs that name"):
        Schema({"x": ("int64", (None, None)), "x/row_lengths": "int64"})
    with pytest.raises(KeyError, match="no feature 'q'"):
        SCHEMA.select(["z", "q"])


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_inferred_schemas_decode_what_they_were_inferred_from(rows):
    records = [
        encode_example({"x": [1.5] * n, "s": "a", "m": np.ones((2, 3))} | ({"o": 1} if o else {}))
        for n, o in rows
    ]
    schema = infer_schema(records)
    decoded = decode_examples(records, schema)
    assert decoded["s"].tolist() == [b"a"] * len(rows)
    assert schema["m"] == Feature("float32", (6,))
    if "x" in schema:
        assert [np.size(row) for row in decoded["x"]] == [n for n, _ in rows]
    if "o" in schema:
        assert schema["o"] == Feature("int64", nullable=not all(o for _, o in rows))


def test_nested_ragged_is_recognised():
    record = encode_example({"x": Ragged.from_rows([[1.5], [2.5, 3.5]])})
    schema = infer_schema([record])
    assert schema == Schema({"x": ("float32", (None, None))})
    assert decode_examples([record], schema)["x"].tolist() == [[[1.5], [2.5, 3.5]]]


@pytest.mark.parametrize(
    "other",
    [
        {"x": [1.5], "x/row_lengths": [1, 1]},
        {"x": [1.5], "x/row_lengths": [2, -1]},
        {"x": [1.5]},
        {"x/row_lengths": [0]},
    ],
)
def test_row_lengths_that_do_not_fit_are_a_feature_of_their_own(other):
    records = [encode_example({"x": Ragged.from_rows([[1.5], [2.5, 3.5]])}), encode_example(other)]
    for each in (records, records[::-1]):
        schema = infer_schema(each)
        assert set(schema) == {"x", "x/row_lengths"}
        assert schema["x"].shape == (None,) or schema["x"].nullable
        decode_examples(each, schema)


def test_records_that_contradict_each_other():
    with pytest.raises(SchemaError, match="record 1: feature 'x' holds float32 values"):
        infer_schema([encode_example({"x": 1}), encode_example({"x": 1.5})])
    with pytest.raises(
        CorruptRecordError,
        match="record 0 of the batch is not a tf",
    ):
        infer_schema([b"\x0a\xff"])
    with pytest.raises(CorruptRecordError, match="name is not UTF-8"):
        infer_schema([wire_example(entry(b"\xff", int64s(1)))])


def test_what_never_holds_a_value_is_left_out():
    record = wire_example(entry(b"e", b""), entry(b"i", field(3, b"")), entry(b"s", strings(b"")))
    assert infer_schema([record]) == Schema({"i": ("int64", (0,)), "s": "bytes"})


def test_infer_looks_no_further_than_the_sample(tmp_path):
    writer = FrameWriter()
    writer.write_many([encode_example({"x": 1})] * 5 + [encode_example({"x": [1, 2]})])
    path = tmp_path / "x.tfrecord"
    path.write_bytes(writer.take())
    assert infer_schema(str(path), sample=5) == Schema({"x": "int64"})
    assert infer_schema(path) == Schema({"x": ("int64", (None,))})
    batch = RecordBatch.from_records([encode_example({"x": "a"})])
    assert infer_schema(batch) == Schema({"x": "bytes"})
    with pytest.raises(ValueError, match="sample must be at least 1"):
        infer_schema(path, sample=0)
    with pytest.raises(ValueError, match="no records"):
        infer_schema(RecordBatch.from_records([]))


def test_the_manifest_knows_better(place):
    manifest = DatasetManifest((), None, schema=SCHEMA.to_json())
    place.put("_train.manifest.json", manifest.to_bytes())
    for name in ("train", ""):
        found = infer_schema(place.url(name), storage_options=place.storage_options)
        assert found == SCHEMA


@pytest.mark.parametrize(
    ("dtype", "default"),
    [
        ("datetime64[s]", np.datetime64("1970-01-01")),
        ("datetime64[ns]", np.datetime64("2026-11-22T01:02:03.123456789")),
        ("datetime64[s]", np.datetime64("NaT")),
        ("timedelta64[s]", np.timedelta64(-5, "s")),
        ("timedelta64[ms]", np.timedelta64(5, "s")),
        ("timedelta64[s]", np.timedelta64("NaT")),
    ],
)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_dates_as_defaults(dtype: str, default: Any, shape: tuple[int, ...]) -> None:
    given = default if not shape else np.array([default, default])
    schema = Schema({"x": Feature(dtype, shape, raw=True, nullable=True)}).with_defaults(
        {"x": given}
    )
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    for each in (schema, again):
        found = decode_examples([encode_example({})], each, nulls="default")["x"]
        assert found.dtype == dtype
        assert np.array_equal(found[0], np.array(given, dtype), equal_nan=True)
    assert np.isnat(default) or again == schema


@pytest.mark.parametrize(
    ("dtype", "default"),
    [
        ("int64", -0.5),
        ("uint8", np.int64(-1)),
        ("uint8", 300),
        ("bool", 2),
        ("float32", 1e300),
        ("datetime64[s]", np.datetime64("1970-01-01T00:00:00.5")),
    ],
)
def test_a_default_that_would_change_is_refused(dtype: str, default: Any) -> None:
    schema = Schema({"x": Feature(dtype, raw="64[" in dtype, nullable=True)})
    with pytest.raises(ValueError, match=r"feature 'x': default .* is no"):
        schema.with_defaults({"x": default})


@pytest.mark.parametrize("default", [7, 7.0, np.int8(7), np.array(7)])
def test_a_default_of_another_type(default: Any) -> None:
    schema = Schema({"x": Feature("int64", nullable=True)}).with_defaults({"x": default})
    assert decode_examples([encode_example({})], schema, nulls="default")["x"].tolist() == [7]


def shards_of(folder: Path, *shards: list[bytes]) -> str:
    for number, records in enumerate(shards):
        writer = FrameWriter()
        writer.write_many(records)
        (folder / f"t-{number:02d}.tfrecord").write_bytes(writer.take())
    return f"{folder}/t-*.tfrecord"


def test_a_sample_is_of_several_shards(tmp_path: Path) -> None:
    one, other = encode_example({"x": 1, "y": 1}), encode_example({"x": [1, 2]})
    url = shards_of(tmp_path, *[[one] * 10] * 19, [other] * 10)
    found = infer_schema(url, sample=16)
    assert found == Schema({"x": ("int64", (None,)), "y": Feature("int64", nullable=True)})
    assert found.records_seen == 16
    assert repr(found).startswith("Schema of 16 records:\n")
    assert infer_schema(url).records_seen == 200
    assert infer_schema(url, sample=150).records_seen == 150
    assert infer_schema(url, full=True).records_seen == 200
    assert infer_schema([one], full=True).records_seen == 1
    assert found.select(["x"]).records_seen is None


def test_full_looks_at_every_record(tmp_path: Path) -> None:
    records = [encode_example({"x": 1})] * 2000 + [encode_example({"x": 1, "late": 2.5})]
    url = shards_of(tmp_path, [records[0]], records, [records[0]])
    assert "late" not in infer_schema(url)
    found = infer_schema(url, full=True)
    assert (found["late"], found.records_seen) == (Feature("float32", nullable=True), 2003)


def test_errors_of_a_sample_name_the_shard(tmp_path: Path) -> None:
    good = encode_example({"x": 1})
    url = shards_of(tmp_path, [good] * 5, [], [good, good, encode_example({"x": "a"})])
    with pytest.raises(SchemaError, match=r"t-02\.tfrecord: record 2: feature 'x' holds bytes"):
        infer_schema(url)
    url = shards_of(tmp_path, [good] * 5, [], [good, b"\x0a\xff"])
    with pytest.raises(CorruptRecordError, match=r"t-02\.tfrecord.*record 1 is not"):
        infer_schema(url)
    with pytest.raises(ValueError, match="no records"):
        infer_schema(shards_of(tmp_path, [], [], []))
