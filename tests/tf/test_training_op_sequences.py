"""SequenceExamples in the training op: beside ``tf.io.parse_sequence_example``, and protobuf."""

from __future__ import annotations

import gzip
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

tf = pytest.importorskip("tensorflow")
from google.protobuf import message  # noqa: E402

import tfio_store as tfs  # noqa: E402
from tests.support.examples import entry, field, floats, int64s, strings, varint  # noqa: E402
from tests.support.framed import framed  # noqa: E402
from tests.tf.saved import restored  # noqa: E402
from tests.tf.test_training_op_parsing import BATCH, FEATURES, plain, values_of  # noqa: E402
from tfio_store.tf.dataset import ops, streams  # noqa: E402
from tfio_store.tf.dataset.blocks import fused_columns  # noqa: E402
from tfio_store.tf.dataset.features import SequenceSpec  # noqa: E402

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(ops.bridge() != "native", reason="needs the native ops"),
]

TYPES = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}


def feature_list(key: bytes, *steps: bytes) -> bytes:
    return entry(key, b"".join(field(1, step) for step in steps))


def sequence(context: list[bytes], lists: list[bytes]) -> bytes:
    return field(1, b"".join(context)) + field(2, b"".join(lists))


# --- schemas, and records for them ------------------------------------------------------

DTYPES = st.sampled_from(sorted(TYPES))
CONTEXT_SHAPES = st.sampled_from([(), (2,), (None,), (None, 2)])
LIST_SHAPES = st.sampled_from([(None,), (None, 2), (None, 1, 2), (None, None)])


@st.composite
def schemas(draw: Any) -> tfs.Schema:
    found = {}
    for key in draw(st.lists(st.sampled_from("ab"), unique=True)):
        dtype, shape = draw(DTYPES), draw(CONTEXT_SHAPES)
        default = None
        if None not in shape and draw(st.booleans()):
            default = b"none" if dtype == "bytes" else 7
        found[key] = tfs.Feature(dtype, shape, default)
    for key in draw(st.lists(st.sampled_from("xyz"), min_size=1, unique=True)):
        found[key] = tfs.Feature(draw(DTYPES), draw(LIST_SHAPES), sequence=True)
    return tfs.Schema(found)


@st.composite
def fitting(draw: Any, schema: tfs.Schema) -> bytes:
    """A SequenceExample that the schema takes: some features are absent, some too many."""
    context, lists = [], []
    for name, feature in schema.items():
        dtype, key = TYPES[feature.dtype], name.encode()
        many = st.sampled_from([0, 2, 4])
        if feature.sequence:
            widths = st.integers(0, 4) if feature.nested else st.just(feature.width)
            steps = draw(st.lists(widths, max_size=4))
            if steps or draw(st.booleans()):
                lists.append(feature_list(key, *[draw(values_of(dtype, width)) for width in steps]))
        elif not ((feature.ragged or feature.default is not None) and draw(st.booleans())):
            count = draw(many) if feature.ragged else feature.width
            context.append(entry(key, draw(values_of(dtype, count))))
    if draw(st.booleans()):
        context.append(entry(b"other", draw(FEATURES)))
        lists.insert(0, feature_list(b"other", draw(FEATURES)))
    return sequence(context, lists)


@st.composite
def arbitrary(draw: Any) -> bytes:
    keys = st.sampled_from([b"a", b"b", b"x", b"y", b"z"])
    context = draw(st.dictionaries(keys, FEATURES, max_size=3))
    lists = draw(st.dictionaries(keys, st.lists(FEATURES, max_size=3), max_size=3))
    return sequence(
        [entry(key, value) for key, value in context.items()],
        [feature_list(key, *steps) for key, steps in lists.items()],
    )


def parsed(batch: list[bytes], schema: tfs.Schema) -> Any:
    """By TensorFlow; None for records that it refuses."""
    try:
        found = SequenceSpec.of(schema).parse(tf.constant(batch, tf.string), batched=True)
    except tf.errors.InvalidArgumentError:
        return None
    return {name: plain(value) for name, value in found.items()}


def ours(path: Path, batch: list[bytes], schema: tfs.Schema) -> Any:
    with tfs.TFRecordWriter(str(path)) as writer:
        for record in batch:
            writer.write(record)
    dataset = tfs.TFRecordDataset(str(path), batch_size=len(batch), schema=schema)
    try:
        (found,) = dataset
    except tf.errors.InvalidArgumentError:
        return None
    return {name: plain(value) for name, value in found.items()}


COMMON = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@COMMON
@given(data=st.data(), schema=schemas())
def test_sequences_that_fit(tmp_path: Path, data: Any, schema: tfs.Schema) -> None:
    some = data.draw(st.lists(fitting(schema), min_size=1, max_size=4))
    batch = (some * BATCH)[:BATCH]
    wanted = parsed(batch, schema)
    assert wanted is not None
    assert ours(tmp_path / "f", batch, schema) == wanted


@COMMON
@given(some=st.lists(arbitrary(), min_size=1, max_size=4), schema=schemas())
def test_any_sequences(tmp_path: Path, some: list[bytes], schema: tfs.Schema) -> None:
    batch = (some * BATCH)[:BATCH]
    wanted = parsed(batch, schema)
    if wanted is not None or not any(map(has_a_feature_without_a_kind, some)):
        assert ours(tmp_path / "f", batch, schema) == wanted


def has_a_feature_without_a_kind(record: bytes) -> bool:
    """Which TensorFlow refuses in a SequenceExample, and takes as missing in an Example, as we do
    in both."""
    try:
        found = tf.train.SequenceExample.FromString(record)
    except message.DecodeError:
        return False
    context = found.context.feature.values()
    return any(feature.WhichOneof("kind") is None for feature in context)


# --- by protobuf ------------------------------------------------------------------------

COUNT = 2100
"""Records. Batches of 1,500 are more than a tile, and their steps more than a run."""

SCHEMA = tfs.Schema(
    {
        "words": tfs.Feature("bytes", (None, None), sequence=True),
        "id": "int64",
        "tokens": tfs.Feature("int64", (None,), sequence=True),
        "pairs": ("int64", (None, 2)),
        "few": ("float32", (None, None)),
        "price": tfs.Feature("float64", raw=True),
        "boxes": tfs.Feature("float32", (None, 2, 2), sequence=True),
        "rows": tfs.Feature("int64", (None, None), sequence=True),
        "maybe": tfs.Feature("str", (None,), nullable=True, sequence=True),
        "weight": tfs.Feature("float32", (2,), default=0.5),
    }
)


def row(i: int) -> dict[str, Any]:
    return {
        "words": [[b"w" * (j * 9)] * (i % 3) for j in range(i % 5)],
        "id": i,
        "tokens": list(range(i % 7)),
        "pairs": [[i, j] for j in range(i % 3)],
        "few": [[i / 2.0] * j for j in range(i % 4)],
        "price": i / 4,
        "boxes": [[[i, j], [0.5, -j]] for j in range(i % 4)],
        "rows": [[i] * j for j in range(i % 5)],
        "maybe": [b"%d" % i] * (i % 2),
        "weight": [i, 1.0] if i % 2 else [0.5, 0.5],
    }


def of(name: str, values: Any) -> Any:
    """A Feature."""
    wire = SCHEMA[name].wire if name in SCHEMA else "int64"
    if wire == "bytes":
        texts = [values] if isinstance(values, bytes) else values
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    if wire == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=np.ravel(values)))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(values).astype(int)))


def made(i: int) -> bytes:
    """By protobuf."""
    found, example = row(i), tf.train.SequenceExample()
    if i % 2 == 0:
        del found["weight"]
    found["few/row_lengths"] = [len(each) for each in found["few"]]
    found["few"] = [value for each in found["few"] for value in each]
    found["price"] = np.array(found["price"], "<f8").tobytes()
    for name, value in found.items():
        if name not in SCHEMA or not SCHEMA[name].sequence:
            example.context.feature[name].CopyFrom(of(name, value))
        elif value:
            steps = [of(name, step) for step in value]
            example.feature_lists.feature_list[name].feature.extend(steps)
    return bytes(example.SerializeToString())


ROWS = [row(i) for i in range(COUNT)]


def by_tensorflow(files: list[str], size: int, drop: bool) -> Any:
    found = tf.data.TFRecordDataset(files).batch(size, drop)
    spec = SequenceSpec.of(SCHEMA)
    return found.map(lambda some: spec.parse(some, batched=True))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sequences")
    records = [made(i) for i in range(COUNT)]
    for name, codec in (("raw", None), ("blocks", "GZIP")):
        with tfs.ShardedWriter(
            f"{folder}/{name}", num_shards=2, compression=codec, block_bytes=20_000
        ) as writer:
            writer.write_batch(records)
    (folder / "foreign.gz").write_bytes(gzip.compress(framed(records), 1))
    return {"raw": f"{folder}/raw", "blocks": f"{folder}/blocks", "foreign": f"{folder}/foreign.gz"}


@pytest.fixture
def only_the_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's parser is not asked, and small files too are read by the op."""

    def refused(*given: Any, **options: Any) -> None:
        raise AssertionError("TensorFlow was asked to parse")

    monkeypatch.setattr(SequenceSpec, "parse", refused)
    monkeypatch.setattr(streams, "SMALL", 0)


def listed(value: Any) -> list[Any]:
    """As `RaggedTensor.to_list`, which runs ops for each row of rows."""
    if not isinstance(value, tf.RaggedTensor):
        return value.numpy().tolist()
    values, splits = listed(value.values), value.row_splits.numpy().tolist()
    return [values[a:b] for a, b in pairwise(splits)]


def rows(batches: Any, schema: tfs.Schema = SCHEMA) -> list[dict[str, Any]]:
    """The rows of batches."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        assert list(batch) == list(schema)
        columns = {name: listed(value) for name, value in batch.items()}
        size = len(columns["id"])
        found += [{name: columns[name][i] for name in columns} for i in range(size)]
    return found


def difference(found: list[Any], wanted: list[Any]) -> Any:
    """What differs first: to show all differences of long lists would take minutes."""
    pairs = enumerate(zip_longest(found, wanted))
    return next(((i, a, b) for i, (a, b) in pairs if a != b), None)


def by_id(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: each["id"])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("raw", {"batch_size": 1500}),
        ("blocks", {"batch_size": 64}),
        ("foreign", {"batch_size": 1500}),
        ("raw", {"batch_size": 1500, "shuffle": True, "seed": 1}),
        ("blocks", {"batch_size": 64, "shuffle": 4, "deterministic": False}),
    ],
)
def test_every_row_once(
    sources: dict[str, str], only_the_op: None, kind: str, options: dict[str, Any]
) -> None:
    dataset = tfs.TFRecordDataset(sources[kind], schema=SCHEMA, **options)
    found = rows(dataset)
    assert difference(by_id(found), ROWS) is None
    whole = tfs.TFRecordDataset(sources[kind], schema=SCHEMA, drop_remainder=True, **options)
    size = options["batch_size"]
    assert len(rows(whole)) == COUNT // size * size


def test_shards(sources: dict[str, str], only_the_op: None) -> None:
    options: dict[str, Any] = {"batch_size": 50, "schema": SCHEMA, "shuffle": 4, "seed": 3}
    found = []
    for index in range(3):
        share = rows(tfs.TFRecordDataset(sources["raw"], shard=(3, index), **options))
        assert share
        same = tfs.TFRecordDataset(sources["raw"], **options).shard(3, index)
        assert difference(share, rows(same)) is None
        found += share
    assert difference(by_id(found), ROWS) is None


@pytest.mark.parametrize("drop", [False, True])
def test_elements_are_those_of_tensorflow(sources: dict[str, str], drop: bool) -> None:
    files = [str(path) for path in sorted(Path(sources["raw"]).parent.glob("raw-*"))]
    wanted = by_tensorflow(files, 700, drop)
    options: dict[str, Any] = {"batch_size": 700, "drop_remainder": drop, "schema": SCHEMA}
    found = tfs.TFRecordDataset(files, **options)
    for each, other in zip(found, wanted, strict=True):
        del each["price"]  # raw memory, which our dataset decodes
        del other["price"]
        assert list(each) == list(other)
        assert {n: plain(v) for n, v in each.items()} == {n: plain(v) for n, v in other.items()}
    specs = [dict(dataset.element_spec) for dataset in (found, wanted)]
    for spec in specs:
        del spec["price"]
    assert specs[0] == specs[1]


@pytest.mark.parametrize("symbolic", [False, True])
def test_an_iterator_is_restored(sources: dict[str, str], tmp_path: Path, symbolic: bool) -> None:
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic

    def made() -> Any:
        how: dict[str, Any] = {"schema": SCHEMA, "batch_size": 100, "shuffle": 4, "seed": 1}
        return tfs.TFRecordDataset(sources["blocks"], **how).with_options(options)

    wanted = [batch["id"].numpy().tolist() for batch in made()]
    given, rest = restored(made(), 5, tmp_path)
    assert [batch["id"].numpy().tolist() for batch in [*given, *rest]] == wanted


# --- what does not fit ------------------------------------------------------------------

ONE = tfs.Schema({"c": "int64", "x": tfs.Feature("int64", (None, 2), sequence=True)})
ANY = tfs.Schema({"x": tfs.Feature("int64", (None, None), sequence=True)})
TEXTS = tfs.Schema({"x": tfs.Feature("bytes", (None,), sequence=True)})
WIDE = tfs.Schema({"x": tfs.Feature("float32", (None, 1 << 30), sequence=True)})
CONTEXT = [entry(b"c", int64s(1))]
CUT = entry(b"x", b"\x0a\x05\x1a")


@pytest.mark.parametrize(
    ("schema", "record", "text"),
    [
        (ONE, sequence([], []), "feature 'c' (int64) is required and is missing"),
        (
            ONE,
            sequence(CONTEXT, [feature_list(b"x", int64s(1, 2), int64s(3))]),
            "feature 'x', step 1, holds 1 values, not 2",
        ),
        (
            ONE,
            sequence(CONTEXT, [feature_list(b"x", int64s(1, 2), int64s(3, 4, 5))]),
            "feature 'x', step 1, holds 3 values, not 2",
        ),
        (
            ONE,
            sequence(CONTEXT, [feature_list(b"x", *[b""] * 1_000)]),
            "feature 'x', step 0, holds 0 values, not 2",
        ),
        (
            ONE,
            sequence(CONTEXT, [feature_list(b"x", floats(1, 2))]),
            "feature 'x', step 0, holds float values, not int64 ones",
        ),
        (
            ANY,
            sequence([], [feature_list(b"x", *[int64s(7)] * 3000, strings(b"?"))]),
            "feature 'x', step 3000, holds bytes values, not int64 ones",
        ),
        (
            ANY,
            sequence([], [feature_list(b"x", field(3, b"\x0a\x01\xff"))]),
            "feature 'x', step 0, can't be read: a varint",
        ),
        (
            TEXTS,
            sequence([], [feature_list(b"x", strings(b"a"), strings(b"b", b"c"))]),
            "feature 'x', step 1, holds 2 values, not 1",
        ),
        (
            WIDE,
            sequence([], [feature_list(b"x", *[floats(1)] * 9)]),
            f"feature 'x', step 0, holds 1 values, not {1 << 30}",
        ),
        (ANY, sequence([], [CUT]), "feature 'x' can't be read: a length reaches past the end"),
        (ANY, field(2, b"\x0a\xff"), "is not a tf.train.SequenceExample"),
        (ANY, field(1, b"\x0a\xff"), "is not a tf.train.SequenceExample"),
        (ANY, field(2, b"\x0a" + varint(2**62)), "is not a tf.train.SequenceExample: a length"),
    ],
)
def test_errors_name_file_offset_and_step(
    tmp_path: Path, schema: tfs.Schema, record: bytes, text: str
) -> None:
    good = sequence(CONTEXT, [])
    path = str(tmp_path / "f")
    (tmp_path / "f").write_bytes(framed([good] * 40 + [record] + [good] * 20))
    with pytest.raises(tf.errors.InvalidArgumentError):
        SequenceSpec.of(schema).parse(tf.constant([record]), batched=True)
    ways: list[dict[str, Any]] = [{}, {"shuffle": True, "seed": 1}]
    for options in ways:
        dataset = tfs.TFRecordDataset(path, batch_size=20, schema=schema, **options)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            list(dataset)
        at = 40 * (len(good) + 16)
        assert f"{path}: the record at offset {at}" in caught.value.message
        assert text in caught.value.message


@pytest.mark.parametrize("options", [{}, {"shuffle": 2, "seed": 5}])
def test_a_damaged_record(sources: dict[str, str], tmp_path: Path, options: Any) -> None:
    records = [made(i) for i in range(300)]
    data = bytearray(framed(records))
    data[sum(len(each) + 16 for each in records[:100]) + 20] ^= 1
    (tmp_path / "f").write_bytes(data)
    path = str(tmp_path / "f")
    skipping = tfs.TFRecordDataset(path, schema=SCHEMA, batch_size=20, on_corrupt="skip", **options)
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged region skipped"):
        assert difference(by_id(rows(skipping)), ROWS[:100] + ROWS[101:300]) is None
    with pytest.raises(tf.errors.DataLossError, match="checksum of a record's data"):
        rows(tfs.TFRecordDataset(path, schema=SCHEMA, batch_size=20, **options))


def test_names_that_context_and_lists_share(tmp_path: Path) -> None:
    """Row lengths of the context, beside a feature list that happens to be called so."""
    schema = tfs.Schema(
        {
            "n": ("int64", (None, None)),
            "n/row_lengths": tfs.Feature("int64", (None,), sequence=True),
        }
    )
    assert fused_columns(SequenceSpec.of(schema)) is not None
    context = [entry(b"n", int64s(1, 2, 3)), entry(b"n/row_lengths", int64s(1, 2))]
    record = sequence(context, [feature_list(b"n/row_lengths", int64s(8), int64s(9))])
    batch = [record] * BATCH
    wanted = parsed(batch, schema)
    assert wanted is not None
    assert ours(tmp_path / "f", batch, schema) == wanted
