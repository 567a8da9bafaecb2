"""The codec against TensorFlow: its protobufs both ways, and tf.io.parse_example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.support.examples import FEATURES, FLOATS, INT64S, VALUES, field, same_floats, varint
from tfio_store import (
    CorruptRecordError,
    Feature,
    Schema,
    SchemaError,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_examples,
    encode_sequence_example,
)
from tfio_store.example import codec, pure

tf = pytest.importorskip("tensorflow")
message = pytest.importorskip("google.protobuf.message")
pytestmark = pytest.mark.tensorflow

COMPILED = codec._example  # type: ignore[attr-defined]
DTYPES = {"bytes_list": "bytes", "float_list": "float32", "int64_list": "int64", None: None}


def proto(features):
    """A tf.train.Example of lists."""
    example = tf.train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example


def content(example):
    """What a protobuf holds: name to (dtype, values)."""
    found = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        found[name] = (DTYPES[kind], values)
    return found


def same(left, right):
    if left.keys() != right.keys():
        return False
    for name, (dtype, values) in left.items():
        dtype_, values_ = right[name]
        if dtype != dtype_ or (values != values_ and not same_floats(values, values_)):
            return False
    return True


def decoded_content(record, decode=decode_examples):
    """What our decoder finds in a record, with the schema that it says itself."""
    described = codec.infer_features(record)
    schema = Schema({name: (dtype or "int64", (None,)) for name, (dtype, _) in described.items()})
    columns = decode([record], schema)
    return {name: (dtype, columns[name][0].tolist()) for name, (dtype, _) in described.items()}


@given(FEATURES)
def test_ours_parses_as_theirs(features):
    ours = encode_example(features)
    assert ours == pure.encode_example(features)
    assert same(content(tf.train.Example.FromString(ours)), content(proto(features)))


@given(st.dictionaries(st.sampled_from("abcdefgh"), VALUES, min_size=1))  # upb sorts prefixes last
def test_ours_is_their_deterministic_form(features):
    assert encode_example(features) == proto(features).SerializeToString(deterministic=True)


@given(FEATURES)
def test_theirs_parses_as_ours(features):
    record = proto(features).SerializeToString()
    assert same(decoded_content(record), content(proto(features)))


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(INT64S | FLOATS | st.binary(max_size=9))),
    st.dictionaries(
        st.sampled_from("xyz"), st.lists(st.lists(INT64S, min_size=1, max_size=3), max_size=4)
    ),
)
def test_sequence_examples_both_ways(context, lists):
    context = {
        name: [v for v in values if type(v) is type(values[0])] for name, values in context.items()
    }
    context = {name: values for name, values in context.items() if values}
    theirs = tf.train.SequenceExample(context=proto(context).features)
    for name, steps in lists.items():
        theirs.feature_lists.feature_list[name].SetInParent()
        for step in steps:
            theirs.feature_lists.feature_list[name].feature.add().int64_list.value.extend(step)
    ours = encode_sequence_example(context, lists)
    assert tf.train.SequenceExample.FromString(ours).feature_lists == theirs.feature_lists
    for record in (ours, theirs.SerializeToString()):
        _, decoded = decode_sequence_examples(
            [record], {}, dict.fromkeys(lists, ("int64", (None,)))
        )
        assert {name: decoded[name].tolist()[0] for name in lists} == lists


# ---- wire bytes that no serializer writes ---------------------------------------------------

FIXED = st.builds(
    lambda n, body: varint(n << 3 | 5) + body, st.integers(1, 4), st.binary(min_size=4, max_size=4)
)
VARINTS = st.builds(field, st.integers(1, 4), st.integers(0, 2**64 - 1))
PACKED = st.builds(
    lambda values: field(1, b"".join(map(varint, values))),
    st.lists(st.integers(0, 2**64 - 1), max_size=4),
)
LIST = st.lists(
    FIXED | VARINTS | PACKED | st.builds(field, st.integers(1, 2), st.binary(max_size=8)),
    max_size=4,
)
FEATURE = st.lists(st.builds(field, st.integers(1, 4), LIST.map(b"".join)) | VARINTS, max_size=4)
KEY = st.sampled_from([b"", b"a", b"b"]).map(lambda key: field(1, key))
# No unknown fields in an entry: upb, unlike other protobufs, takes all of it for unknown then.
ENTRY = st.permutations([0, 1]).flatmap(
    lambda order: st.tuples(KEY, FEATURE.map(lambda f: field(2, b"".join(f)))).map(
        lambda parts: b"".join(parts[i] for i in order)
    )
)
MAP = st.lists(ENTRY.map(lambda entry: field(1, entry)) | VARINTS, max_size=4).map(b"".join)
RECORD = st.lists(MAP.map(lambda features: field(1, features)) | VARINTS, max_size=3).map(b"".join)


@settings(max_examples=500)
@given(RECORD)
def test_odd_but_valid_bytes_read_as_protobuf_reads_them(record):
    try:
        theirs = content(tf.train.Example.FromString(record))
    except message.DecodeError:  # packed floats of a size that is no multiple of 4
        return
    assert same(decoded_content(record), theirs)


def everything(module, record):
    """All that a codec finds in a record, or the refusal."""
    try:
        found = []
        for key, kind, count in module.describe(record):
            spans = module.Spans.locate(record, np.zeros(1, int), np.array([len(record)]), [key])
            read = {0: None, 1: spans.objects, 2: spans.floats, 3: spans.int64s}[kind]
            values = read(0, splits=np.array([0, count])) if read else ()
            found.append((key, kind, bytes(values) if kind == 2 else list(values)))
        return found
    except (CorruptRecordError, SchemaError):
        return "refused"


def test_integers_whose_last_one_is_cut_are_refused_by_both_codecs():
    cut = tf.train.Example(features={"feature": {"x": {"int64_list": {"value": [1, 300]}}}})
    data = cut.SerializeToString()
    record = data[:-1] + bytes([data[-1] | 0x80])
    assert everything(COMPILED, record) == everything(pure, record) == "refused"


@settings(max_examples=500)
@given(RECORD, st.data())
def test_damaged_bytes_read_alike_in_both_codecs(record, data):
    if record:
        at = data.draw(st.integers(0, len(record) - 1))
        record = record[:at] + bytes([data.draw(st.integers(0, 255))]) + record[at + 1 :]
    assert everything(COMPILED, record) == everything(pure, record)


# ---- tf.io.parse_example --------------------------------------------------------------------

ROWS = st.lists(
    st.fixed_dictionaries(
        {"i": INT64S, "v": st.tuples(FLOATS, FLOATS).map(list)},
        optional={
            "d": st.floats(width=32),
            "ints": st.lists(INT64S, min_size=1, max_size=5),
            "words": st.lists(st.binary(max_size=5), min_size=1, max_size=3),
            "pairs": st.lists(INT64S, max_size=3).map(lambda v: v * 2),
            "text": st.binary(max_size=4),
        },
    ),
    min_size=1,
    max_size=6,
)
SCHEMA = Schema(
    {
        "i": "int64",
        "v": ("float32", (2,)),
        "d": Feature("float32", default=1.5),
        "text": Feature("bytes", default=b"?"),
        "ints": ("int64", (None,)),
        "words": ("bytes", (None,)),
        "pairs": ("int64", (None, 2)),
    }
)


@given(ROWS)
def test_parse_example_agrees(rows):
    records = [encode_example(row) for row in rows]
    theirs = tf.io.parse_example(records, SCHEMA.feature_spec())
    ours = decode_examples(records, SCHEMA)
    for name in ("i", "text"):
        assert ours[name].tolist() == theirs[name].numpy().tolist()
    for name in ("v", "d"):
        assert same_floats(ours[name], theirs[name].numpy())
    for name in ("ints", "words", "pairs"):
        assert ours[name].tolist() == theirs[name].to_list()


@pytest.mark.parametrize(
    ("feature", "shape"), [({}, ()), ({"x": [1.5]}, ()), ({"x": [1, 2]}, ()), ({"x": 1}, (2,))]
)
def test_what_parse_example_refuses_is_refused(feature, shape):
    record = encode_example(feature)
    schema = Schema({"x": ("int64", shape)})
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.parse_example([record], schema.feature_spec())
    with pytest.raises(ValueError, match="record 0: feature 'x'"):
        decode_examples([record], schema)


def test_the_old_kinds_of_spec_become_schemas():
    spec = {
        "a": tf.io.FixedLenFeature([2, 3], tf.float32, default_value=np.ones((2, 3))),
        "b": tf.io.VarLenFeature(tf.string),
        "c": tf.io.FixedLenSequenceFeature([4], tf.int64, allow_missing=True),
        "d": tf.io.RaggedFeature(tf.int64),
        "e": tf.io.RaggedFeature(tf.float32, partitions=[tf.io.RaggedFeature.UniformRowLength(2)]),
        "f": tf.io.FixedLenFeature([], tf.string, default_value="x"),
    }
    schema = Schema.from_feature_spec(spec)
    assert schema["a"] == Feature("float32", (2, 3), default=[[1.0] * 3] * 2)
    assert schema["b"] == Feature("bytes", (None,))
    assert schema["c"] == Feature("int64", (None, 4))
    assert schema["e"] == Feature("float32", (None, 2))
    assert schema["f"] == Feature("bytes", (), default=b"x")
    assert Schema.from_feature_spec(schema.feature_spec()) == schema
    with pytest.raises(ValueError, match=r"feature 'x'.*SparseFeature"):
        Schema.from_feature_spec({"x": tf.io.SparseFeature("i", "v", tf.int64, 10)})


def test_nested_ragged_reads_with_a_stock_spec():
    from tfio_store import Ragged

    rows = [[[1, 2], [3]], [], [[], [4]]]
    records = encode_examples({"x": Ragged.from_rows(rows)}).tolist()
    schema = Schema({"x": ("int64", (None, None))})
    assert tf.io.parse_example(records, schema.feature_spec())["x"].to_list() == rows
    assert Schema.from_feature_spec(schema.feature_spec()) == schema


def test_defaults_keep_zeros_at_the_ends_of_strings():
    zeros, text = b"\x00\x01\x00\x00", "a\x00"
    schema = Schema(
        {
            "b": Feature("bytes", default=zeros),
            "s": Feature("str", default=text),
            "two": Feature("bytes", (2,), default=[zeros, b"q\x00"]),
            "same": Feature("bytes", (2,), default=zeros),
        }
    )
    wanted = {"b": zeros, "s": text.encode(), "two": [zeros, b"q\x00"], "same": [zeros] * 2}
    parsed = tf.io.parse_example([encode_example({})], schema.feature_spec())
    assert {name: value[0].numpy().tolist() for name, value in parsed.items() if value.ndim > 1} | {
        name: value[0].numpy() for name, value in parsed.items() if value.ndim == 1
    } == wanted
    again = Schema.from_feature_spec(schema.feature_spec())
    assert {name: again[name].default for name in again} == wanted
