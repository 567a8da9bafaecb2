"""Feature lists against TensorFlow: its protobufs, and tf.io.parse_sequence_example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.example.test_example_against_tensorflow import FEATURE, KEY, VARINTS
from tests.support.examples import FLOATS, INT64S, field, same_floats
from tfio_store import (
    CorruptRecordError,
    Feature,
    Schema,
    decode_examples,
    encode_examples,
    infer_schema,
)
from tfio_store.example import codec, pure

tf = pytest.importorskip("tensorflow")
message = pytest.importorskip("google.protobuf.message")
pytestmark = pytest.mark.tensorflow

KINDS = {None: 0, "bytes_list": 1, "float_list": 2, "int64_list": 3}
DTYPES = {1: "bytes", 2: "float32", 3: "int64"}

FEATURE_LIST = st.lists(
    FEATURE.map(lambda parts: field(1, b"".join(parts))) | VARINTS, max_size=3
).map(b"".join)
ENTRY = st.tuples(KEY, FEATURE_LIST).map(lambda parts: parts[0] + field(2, parts[1]))
LISTS = st.lists(ENTRY.map(lambda entry: field(1, entry)) | VARINTS, max_size=4).map(b"".join)
RECORD = st.lists(LISTS.map(lambda body: field(2, body)) | VARINTS, max_size=3).map(b"".join)


def values(step):
    kind = step.WhichOneof("kind")
    return KINDS[kind], list(getattr(step, kind).value) if kind else []


@settings(max_examples=150)
@given(RECORD)
def test_odd_but_valid_bytes_read_as_protobuf_reads_them(record):
    try:
        theirs = tf.train.SequenceExample.FromString(record).feature_lists.feature_list
    except message.DecodeError:  # packed floats of a size that is no multiple of 4
        return
    ours = {
        key.decode(): (kinds.tolist(), counts.tolist())
        for key, kinds, counts in codec._example.describe_lists(record)  # type: ignore[attr-defined]
    }
    assert ours.keys() == set(theirs)
    for name, (kinds, counts) in ours.items():
        steps = [values(step) for step in theirs[name].feature]
        assert list(zip(kinds, counts, strict=True)) == [(kind, len(held)) for kind, held in steps]
        if len(set(kinds) - {0}) == 1:
            kind = max(kinds)
            schema = {name: Feature(DTYPES[kind], (None, None), sequence=True)}
            found = decode_examples([record], schema)[name][0].tolist()
            wanted = [held for _, held in steps]
            assert found == wanted or (kind == 2 and all(map(same_floats, found, wanted)))


def everything(module, record):
    try:
        found = module.describe_lists(record)
    except CorruptRecordError:
        return "refused"
    return [(key, kinds.tolist(), counts.tolist()) for key, kinds, counts in found]


@settings(max_examples=150)
@given(RECORD, st.data())
def test_damaged_bytes_read_alike_in_both_codecs(record, data):
    if record:
        at = data.draw(st.integers(0, len(record) - 1))
        record = record[:at] + bytes([data.draw(st.integers(0, 255))]) + record[at + 1 :]
    compiled = everything(codec._example, record)  # type: ignore[attr-defined]
    plain = everything(pure, record)
    # It counts varints without reading them. Whoever reads them finds that one is cut.
    assert compiled == plain or plain == "refused"


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "one": st.lists(INT64S, max_size=3),
            "pair": st.lists(st.tuples(FLOATS, FLOATS), max_size=3),
            "some": st.lists(st.lists(st.binary(max_size=5), max_size=3), max_size=3),
        }
    ),
    min_size=1,
    max_size=4,
)
SCHEMA = Schema(
    {
        "id": "int64",
        "one": Feature("int64", (None,), sequence=True),
        "pair": Feature("float32", (None, 2), sequence=True),
        "some": Feature("bytes", (None, None), sequence=True),
    }
)


def sequence_example(number, row):
    record = tf.train.SequenceExample()
    record.context.feature["id"].int64_list.value.append(number)
    for name, steps in row.items():
        made = record.feature_lists.feature_list[name]
        made.SetInParent()
        for step in steps:
            feature = made.feature.add()
            if name == "one":
                feature.int64_list.value.append(step)
            elif name == "pair":
                feature.float_list.value.extend(step)
            else:
                feature.bytes_list.value.extend(step)
    return record.SerializeToString()


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_columns_are_those_of_parse_sequence_example(rows):
    records = [sequence_example(number, row) for number, row in enumerate(rows)]
    ours = decode_examples(records, SCHEMA)
    spec = {
        "one": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        "pair": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
        "some": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
    }
    context, lists, _ = tf.io.parse_sequence_example(
        records, {"id": tf.io.FixedLenFeature([], tf.int64)}, spec
    )
    assert ours["id"].tolist() == context["id"].numpy().tolist()
    for name, theirs in lists.items():
        assert np.array_equal(ours[name].row_splits, theirs.row_splits)
        flat = ours[name].values.values if name == "some" else ours[name].values.ravel()
        found, wanted = flat.tolist(), theirs.flat_values.numpy().tolist()
        assert found == wanted or same_floats(found, wanted)
    assert ours["some"].tolist() == lists["some"].to_list()
    inferred = infer_schema(records)
    assert all(inferred[name].sequence for name in inferred.keys() - {"id"})


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_what_is_written_parses_as_tensorflows_own(rows):
    columns = {"id": list(range(len(rows))), **{n: [row[n] for row in rows] for n in rows[0]}}
    columns["pair"] = [[list(pair) for pair in row] for row in columns["pair"]]
    for number, record in enumerate(encode_examples(columns, schema=SCHEMA)):
        ours = tf.train.SequenceExample.FromString(bytes(record))
        theirs = tf.train.SequenceExample.FromString(sequence_example(number, rows[number]))
        assert ours.context == theirs.context
        assert set(ours.feature_lists.feature_list) == set(theirs.feature_lists.feature_list)
        for name, steps in theirs.feature_lists.feature_list.items():
            held = [values(step)[1] for step in ours.feature_lists.feature_list[name].feature]
            wanted = [values(step)[1] for step in steps.feature]
            assert held == wanted or all(map(same_floats, held, wanted))
