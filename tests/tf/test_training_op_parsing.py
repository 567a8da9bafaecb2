"""The training op's decoder beside ``tf.io.parse_example``: whatever that accepts, and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.examples import entry, field, floats, int64s, strings, varint, wire_example  # noqa: E402
from tfio_store.tf.dataset.columns import columns_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

KEYS = ["a", "b", "c", "é"]
BATCH = 16

# --- Examples ---------------------------------------------------------------------------

INTS = st.integers(-(2**63), 2**63 - 1)
REALS = st.floats(width=32)


def unpacked(kind: int, values: list[Any]) -> bytes:
    """A Feature with one field for each value."""
    if kind == 3:
        return field(3, b"".join(varint(1 << 3) + varint(value) for value in values))
    return field(2, b"".join(varint(1 << 3 | 5) + np.float32(v).tobytes() for v in values))


LENGTHS: dict[str, Any] = {"max_size": 4}
FEATURES = st.one_of(
    st.just(b""),
    st.lists(st.binary(max_size=30), **LENGTHS).map(lambda values: strings(*values)),
    st.lists(INTS, **LENGTHS).map(lambda values: int64s(*values)),
    st.lists(REALS, **LENGTHS).map(lambda values: floats(*values)),
    st.lists(INTS, **LENGTHS).map(lambda values: unpacked(3, values)),
    st.lists(REALS, **LENGTHS).map(lambda values: unpacked(2, values)),
)


def values_of(dtype: Any, count: int) -> st.SearchStrategy[bytes]:
    """Features that fit a column."""
    if dtype == tf.string:
        some: Any = st.lists(st.binary(max_size=40), min_size=count, max_size=count)
        return some.map(lambda values: strings(*values))
    kind, one = (3, INTS) if dtype == tf.int64 else (2, REALS)
    some = st.lists(one, min_size=count, max_size=count)
    packed = int64s if kind == 3 else floats
    return st.one_of(
        some.map(lambda values: packed(*values)),
        some.map(lambda values: unpacked(kind, values)),
    )


# --- specs ------------------------------------------------------------------------------

DTYPES = st.sampled_from([tf.int64, tf.float32, tf.string])
SHAPES = st.sampled_from([[], [1], [2], [2, 2], [1, 3]])
DEFAULTS = {tf.int64: [7, -1], tf.float32: [0.5, -2.0], tf.string: ["", "none", b"\0x\0"]}


@st.composite
def specs(draw: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True)):
        dtype = draw(DTYPES)
        default = draw(st.none() | st.sampled_from(DEFAULTS[dtype]))  # type: ignore[call-overload]
        kind = draw(st.sampled_from(["fixed", "sequence", "sparse", "ragged", "uniform"]))
        if kind == "fixed":
            shape = draw(SHAPES)
            if default is not None:
                default = np.full(shape, default, object).tolist()
            found[key] = tf.io.FixedLenFeature(shape, dtype, default)
        elif kind == "sequence":
            shape = draw(st.sampled_from([[], [2]]))
            found[key] = tf.io.FixedLenSequenceFeature(shape, dtype, True, default)
        elif kind == "sparse":
            found[key] = tf.io.VarLenFeature(dtype)
        else:
            splits = draw(st.sampled_from([tf.int32, tf.int64]))
            parts = [tf.io.RaggedFeature.UniformRowLength(2)] if kind == "uniform" else []
            found[key] = tf.io.RaggedFeature(dtype, None, parts, row_splits_dtype=splits)
    return found


def count_of(spec: Any) -> st.SearchStrategy[int]:
    if isinstance(spec, tf.io.FixedLenFeature):
        return st.just(int(np.prod(spec.shape, dtype=int)))
    if isinstance(spec, tf.io.FixedLenSequenceFeature) and spec.shape:
        return st.sampled_from([0, 2, 4])
    if isinstance(spec, tf.io.RaggedFeature) and spec.partitions:
        return st.sampled_from([0, 2, 4])
    return st.integers(0, 4)


@st.composite
def fitting(draw: Any, spec: dict[str, Any]) -> bytes:
    """An Example that most specs take: some features too many, some keys twice."""
    entries = []
    for key, feature in spec.items():
        if draw(st.integers(0, 9)) == 0:  # another of that name, which a later one hides
            entries.append(entry(key.encode(), draw(FEATURES)))
        optional = getattr(feature, "default_value", b"") is not None or not isinstance(
            feature, tf.io.FixedLenFeature
        )
        if not (optional and draw(st.booleans())):
            count = draw(count_of(feature))
            entries.append(entry(key.encode(), draw(values_of(feature.dtype, count))))
    if draw(st.booleans()):
        entries.insert(0, entry(b"other", draw(FEATURES)))
    if draw(st.booleans()):  # in two Features, which merge
        return b"".join(wire_example(each) for each in entries)
    return wire_example(*entries)


@st.composite
def arbitrary(draw: Any) -> bytes:
    """Where a key repeats, TensorFlow passes over an empty Feature that comes last; we do not."""
    keys = st.sampled_from([*KEYS, "other"])
    entries, met = [], set()
    for key, value in draw(st.lists(st.tuples(keys, FEATURES), max_size=5)):
        if value or key not in met:
            entries.append(entry(key.encode(), value))
        met.add(key)
    return wire_example(*entries)


# --- both -------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What two tensors must agree on."""
    if isinstance(value, tf.SparseTensor):
        return ["sparse", *map(plain, (value.indices, value.values, value.dense_shape))]
    if isinstance(value, tf.RaggedTensor):
        return ["ragged", plain(value.flat_values), *map(plain, value.nested_row_splits)]
    found = value.numpy()
    same = found.tobytes() if found.dtype.kind in "fi" else found.tolist()
    return [value.dtype.name, value.shape.as_list(), same]


def parsed(batch: Any, spec: dict[str, Any]) -> Any:
    """Of TensorFlow; None for an Example that it refuses."""
    try:
        found = tf.io.parse_example(tf.constant(batch, tf.string), spec)
    except tf.errors.InvalidArgumentError:
        return None
    return {name: plain(value) for name, value in found.items()}


def ours(path: Path, batch: list[bytes], spec: dict[str, Any]) -> Any:
    with tfs.TFRecordWriter(str(path)) as writer:
        for record in batch:
            writer.write(record)
    dataset = tfs.TFRecordDataset(str(path), batch_size=len(batch), schema=spec)
    assert columns_of(spec) is not None
    try:
        (found,) = dataset
    except tf.errors.InvalidArgumentError as error:
        said = error.message  # rows of one length are cut by TensorFlow, behind the parser
        told = f"{path}: the record at offset" in said or "Input to reshape" in said
        return None if told else said
    return {name: plain(value) for name, value in found.items()}


COMMON = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@COMMON
@given(data=st.data(), spec=specs())
def test_examples_that_fit(tmp_path: Path, data: Any, spec: dict[str, Any]) -> None:
    some = data.draw(st.lists(fitting(spec), min_size=1, max_size=4))
    batch = (some * BATCH)[:BATCH]
    assert ours(tmp_path / "f", batch, spec) == parsed(batch, spec)


@COMMON
@given(some=st.lists(arbitrary(), min_size=1, max_size=4), spec=specs())
def test_any_examples(tmp_path: Path, some: list[bytes], spec: dict[str, Any]) -> None:
    batch = (some * BATCH)[:BATCH]
    assert ours(tmp_path / "f", batch, spec) == parsed(batch, spec)


# --- one by one -------------------------------------------------------------------------

RAGGED = tf.io.RaggedFeature
SPECS: dict[str, dict[str, Any]] = {
    "sparse": {"s": tf.io.SparseFeature(["at"], "x", tf.int64, [100])},
    "row lengths": {"r": RAGGED(tf.int64, "x", [RAGGED.RowLengths("lengths")], tf.int64)},
    "two partitions": {
        "r": RAGGED(tf.int64, "x", [RAGGED.UniformRowLength(1), RAGGED.UniformRowLength(1)])
    },
    "value and its own": {"x": RAGGED(tf.int64), "y": RAGGED(tf.int64, "x")},
    "empty shape": {"e": tf.io.FixedLenFeature([0], tf.int64, [])},
    "no values": {"none": tf.io.FixedLenFeature([2, 0], tf.int64)},
}


def rows() -> list[bytes]:
    found = []
    for i in range(3000):
        x, lengths = list(range(i % 7)), [i % 7] if i % 7 else []
        keys = {"x": x, "at": x, "lengths": lengths, "e": [], "none": [], "one": [i]}
        found.append(wire_example(*[entry(k.encode(), int64s(*v)) for k, v in keys.items()]))
    return found


@pytest.mark.parametrize("name", SPECS)
def test_spec(tmp_path: Path, name: str) -> None:
    """Batches of more than a tile."""
    assert ours(tmp_path / "f", rows(), SPECS[name]) == parsed(rows(), SPECS[name])


def test_strings_in_batches_of_more_than_a_tile(tmp_path: Path) -> None:
    batch = [
        wire_example(
            entry(b"s", strings(*[b"%d" % i * (i % 40)] * (i % 5))),
            entry(b"f", strings(b"x" * (i % 60), b"")),
        )
        for i in range(2500)
    ]
    spec = {
        "s": tf.io.RaggedFeature(tf.string),
        "f": tf.io.FixedLenFeature([2], tf.string),
        "d": tf.io.FixedLenFeature([3], tf.string, ["a", "", "c" * 40]),
        "p": tf.io.FixedLenSequenceFeature([], tf.string, True, default_value="pad"),
    }
    assert ours(tmp_path / "f", batch, spec) == parsed(batch, spec)


@pytest.mark.parametrize("shape", [[1 << 20], [1 << 40], [1 << 20, 1 << 20]])
@pytest.mark.parametrize("dtype", [tf.int64, tf.float32, tf.string])
def test_a_width_that_no_record_has_costs_no_memory(
    tmp_path: Path, shape: list[int], dtype: Any
) -> None:
    spec = {"x": tf.io.FixedLenFeature(shape, dtype)}
    batch = [wire_example(entry(b"x", values)) for values in [int64s(1), floats(1), strings(b"")]]
    assert ours(tmp_path / "f", batch * BATCH, spec) is None


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (wire_example(entry(b"y", int64s(1))), "feature 'x' (int64) is required and is missing"),
        (wire_example(entry(b"x", floats(1))), "feature 'x' holds float values, not int64 ones"),
        (wire_example(entry(b"x", int64s(1, 2))), "feature 'x' holds 2 values, not 1"),
        (b"\x0a\xff", "is not a tf.train.Example"),
    ],
)
def test_errors_name_file_offset_and_feature(tmp_path: Path, record: bytes, text: str) -> None:
    good = wire_example(entry(b"x", int64s(1)))
    path = str(tmp_path / "f")
    with tf.io.TFRecordWriter(path) as writer:
        for each in [good] * 40 + [record] + [good] * 20:
            writer.write(each)
    spec = {"x": tf.io.FixedLenFeature([], tf.int64)}
    ways: tuple[dict[str, Any], ...] = ({}, {"shuffle": True, "seed": 1})
    for options in ways:
        dataset = tfs.TFRecordDataset(path, batch_size=20, schema=spec, **options)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            list(dataset)
        at = 40 * (len(good) + 16)
        assert f"{path}: the record at offset {at}" in caught.value.message
        assert text in caught.value.message


def test_what_the_op_does_not_parse_is_parsed_by_tensorflow(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    with tf.io.TFRecordWriter(path) as writer:
        for record in rows()[:100]:
            writer.write(record)
    both = {"x": tf.io.VarLenFeature(tf.int64), "y": RAGGED(tf.int64, "lengths")}
    assert columns_of({**both, "z": RAGGED(tf.int64, "x")}) is None
    assert columns_of({"x": tf.io.FixedLenSequenceFeature([], tf.int64)}) is None
    with pytest.raises(TypeError, match=r"'x' is a FixedLenFeature of tf\.int32"):
        tfs.TFRecordDataset(path, schema={"x": tf.io.FixedLenFeature([], tf.int32)}, batch_size=20)


@pytest.mark.parametrize("count", [0, 3])
def test_features_come_in_the_order_of_parse_example(tmp_path: Path, count: int) -> None:
    spec = {
        "r": tf.io.RaggedFeature(tf.int64),
        "b": tf.io.FixedLenFeature([], tf.float32, 0.5),
        "z": tf.io.VarLenFeature(tf.float32),
        "a": tf.io.FixedLenFeature([], tf.int64, 1),
    }
    with tfs.ShardedWriter(str(tmp_path / "d"), num_shards=1) as writer:
        writer.write_batch([b""] * count)
    dataset = tfs.TFRecordDataset(str(tmp_path / "d"), batch_size=2, schema=spec)
    strings = tf.data.Dataset.from_tensors(tf.constant([], tf.string))
    wanted = strings.map(lambda batch: tf.io.parse_example(batch, spec))
    assert list(dataset.element_spec) == list(wanted.element_spec)


def test_a_padded_column_of_as_many_dimensions_as_the_op_knows() -> None:
    feature = tf.io.FixedLenSequenceFeature([1] * 16, tf.int64, allow_missing=True)
    assert columns_of({"x": feature}) is not None
    wider = tf.io.FixedLenSequenceFeature([1] * 17, tf.int64, allow_missing=True)
    assert columns_of({"x": wider}) is None
