"""Files whose names are known, and names that are tensors, are read in TensorFlow's order."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.long import first

tf = pytest.importorskip("tensorflow")

from tests.tf.plans import (  # noqa: E402
    COUNT,
    SPEC,
    behind,
    read_one,
    records_of,
    rows_of,
    same,
    single,
    whole,
)

pytestmark = pytest.mark.tensorflow


def read_and_take(name: Any) -> Any:
    return tfs.TFRecordDataset(name).take(1000)


def native_one(name: Any) -> Any:
    return tf.data.TFRecordDataset(name, "")


def test_patterns_may_be_tensors(tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1"):
        (tmp_path / name).write_bytes(b"")
    found = [str(tmp_path / name).encode() for name in ("a1", "a2", "b1")]
    a, b = f"{tmp_path}/a*", f"{tmp_path}/b*"
    for pattern in (tf.constant([a, b]), [tf.constant(a), b], [Path(a), tf.constant([b])]):
        listed = tfs.list_files(pattern, shuffle=False)
        assert list(listed.as_numpy_iterator()) == found
    listed = tfs.list_files(tf.constant(a), shuffle=False)
    assert list(listed.as_numpy_iterator()) == found[:2]
    with pytest.raises(TypeError, match=r"must contain `tf.string` elements"):
        tfs.list_files(tf.constant([1]))
    with pytest.raises(TypeError, match="not known before the graph runs"):
        tf.function(lambda pattern: tfs.list_files(pattern).cardinality())(tf.constant(a))


def test_records_of_tensors_are_decoded() -> None:
    records = [tfs.encode_example({"x": i}) for i in range(3)]
    tensors = list(tf.data.Dataset.from_tensor_slices(records))
    for given in (tensors, tuple(tensors), tf.constant(records), np.array(records, object)):
        assert tfs.decode_examples(given, {"x": "int64"})["x"].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="record must be bytes-like, not an array of"):
        tfs.decode_examples([tf.constant(1)], {"x": "int64"})
    with pytest.raises(TypeError, match="not an array of <dtype: 'string'>; give its numpy"):
        tfs.decode_examples(iter(tensors), {"x": "int64"})


@pytest.mark.parametrize("codec", first(1, ["", "GZIP"]))
def test_an_interleave_of_ours_has_tensorflows_order(
    files: dict[str, list[str]], codec: str
) -> None:
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "in turns": lambda d, read: d.interleave(read, cycle_length=2, block_length=3),
        "in parallel": lambda d, read: d.interleave(read, 3, num_parallel_calls=2),
        "in order": lambda d, read: d.flat_map(read),
        "one at a time": lambda d, read: d.interleave(read, cycle_length=1),
        "several names": lambda d, read: d.batch(2).interleave(read, cycle_length=2),
    }
    for way in ways.values():
        names = tf.data.Dataset.from_tensor_slices(files[codec])
        wanted = records_of(way(names, lambda name: tf.data.TFRecordDataset(name, codec)))
        assert records_of(way(names, tfs.TFRecordDataset)) == wanted
        listed = tfs.list_files(files[codec], shuffle=False)
        for read in (tfs.TFRecordDataset, read_one, read_and_take):
            assert records_of(way(listed, read)) == wanted
        with tfs.accelerate():
            found = way(names, lambda name: tf.data.TFRecordDataset(name, codec))
        assert records_of(found) == wanted


def test_files_of_other_codecs_are_found_behind_symbolic_names(tmp_path: Path) -> None:
    names = []
    for codec in ("", "GZIP", "ZLIB", "ZSTD"):
        with tfs.ShardedWriter(
            tmp_path / f"x{codec}", num_shards=1, compression=codec or None
        ) as writer:
            writer.write_batch([b"%s %d" % (codec.encode(), i) for i in range(20)])
        names += [str(path) for path in tmp_path.glob(f"x{codec}-*.tfrecord*")]
    assert len(names) == 4
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for every in (names, [*names, str(empty)], [path_url(name) for name in names]):
        dataset = tf.data.Dataset.from_tensor_slices(every).interleave(tfs.TFRecordDataset, 2)
        assert len(records_of(dataset)) == 80
    together = tf.data.Dataset.from_tensors(names).flat_map(tfs.TFRecordDataset)
    assert len(records_of(together)) == 80
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.data.Dataset.from_tensors(f"{tmp_path}/no").flat_map(tfs.TFRecordDataset))


def readers_ops(dataset: Any) -> list[str]:
    """The ops that the function of an interleave has for a reader of its argument."""
    native = dataset._build() if hasattr(dataset, "_build") else dataset
    graph = native._map_func.function.graph
    return sorted(
        op.type for op in graph.get_operations() if "Dataset" in op.type or "If" in op.type
    )


def test_a_reader_of_a_symbolic_name_takes_few_ops(files: dict[str, list[str]]) -> None:
    """TensorFlow optimizes the function for each iterator: each op, and above all each function,
    costs more than reading a small file."""
    names = tf.data.Dataset.from_tensor_slices(files["GZIP"])
    ours = names.interleave(tfs.TFRecordDataset)
    assert readers_ops(ours) == [
        "PrefetchDataset", "RangeDataset", "ScanDataset", "ScanDataset", "TFRecordDataset",
        "UnbatchDataset",
    ]  # fmt: skip
    with tfs.accelerate():
        theirs = names.map(tf.identity).interleave(lambda n: tf.data.TFRecordDataset(n, "GZIP"))
        turns = names.map(tf.identity).interleave(
            lambda n: tf.data.TFRecordDataset(n, "GZIP", num_parallel_reads=2)
        )
    assert readers_ops(theirs) == ["TFRecordDataset"]
    assert len(readers_ops(turns)) > 1  # all of TensorFlow's own
    assert records_of(theirs) == records_of(turns) == records_of(ours)


@pytest.mark.parametrize("damage", ["missing", "short", "flipped"])
def test_accelerated_readers_of_symbolic_names_fail_as_tensorflows(
    tmp_path: Path, files: dict[str, list[str]], damage: str
) -> None:
    data = bytearray(Path(files[""][0]).read_bytes())
    data[len(data) // 2] ^= damage == "flipped"
    if damage != "missing":
        (tmp_path / "bad").write_bytes(data[:-3] if damage == "short" else data)
    names = tf.data.Dataset.from_tensor_slices([files[""][1], str(tmp_path / "bad"), files[""][2]])

    def outcome() -> tuple[list[bytes], str, list[bytes]]:
        dataset, error = names.map(tf.identity).flat_map(tf.data.TFRecordDataset), ""
        found = []
        try:
            for record in dataset:
                found.append(record.numpy())
        except tf.errors.OpError as caught:
            error = f"{type(caught)} {caught.message}"
        ignoring = [] if damage == "missing" else records_of(dataset.ignore_errors())
        return found, re.sub(r"\{\{.*?\}\}\s*| (?= )", "", error), ignoring

    native = outcome()
    with tfs.accelerate():
        assert outcome() == native
    assert native[1]


def path_url(name: str) -> str:
    return f"file://{name}"


LISTED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "interleaved, shuffled": (lambda d, r: d.interleave(r, 3).shuffle(50).batch(32), "fused"),
    "in parallel": (
        lambda d, r: d.interleave(r, num_parallel_calls=2).shuffle(50).batch(32).map(whole),
        "fused"),
    "parsed one by one": (
        lambda d, r: d.interleave(r, 3).shuffle(50).map(single).batch(32), "fused"),
    "names shuffled, too": (
        lambda d, r: d.shuffle(3).interleave(r, 3).shuffle(50).batch(32), "fused"),
    "flat, in order": (lambda d, r: d.flat_map(r).batch(32), "fused"),
    "a share": (lambda d, r: d.shard(1, 0).prefetch(1).flat_map(r).batch(32), "fused"),
    "in turns": (lambda d, r: d.interleave(r, 3).batch(32), "in turns"),
    "in turns, parsed": (lambda d, r: d.interleave(r, 3).map(single).batch(32), "by the batch"),
    "names shuffled": (lambda d, r: d.shuffle(3).flat_map(r).batch(32), "another order"),
}  # fmt: skip


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("title", LISTED)
def test_an_interleave_of_known_names_goes_on_with_a_plan(
    files: dict[str, list[str]], accelerated: bool, title: str
) -> None:
    chain, verdict = LISTED[title]
    names = tf.data.Dataset.from_tensor_slices(files[""])
    theirs = chain(names, native_one)
    if accelerated and title == "a share":
        pytest.skip("TensorFlow's shares of names have no list of them")
    if accelerated:
        with tfs.accelerate():
            ours = chain(names, native_one)
    else:
        ours = chain(tfs.list_files(files[""], shuffle=False), read_one)
    assert verdict in ours.explain().splitlines()[-1]
    assert ("not fused" in ours.explain()) == (verdict != "fused")
    assert ours.element_spec == theirs.element_spec
    assert rows_of(ours) == rows_of(theirs)


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_accelerated_make_batched_features_dataset_is_fused(
    files: dict[str, list[str]], shuffle: bool
) -> None:
    def make() -> Any:
        return tf.data.experimental.make_batched_features_dataset(
            files[""], 32, SPEC, num_epochs=1, shuffle=shuffle, shuffle_buffer_size=50
        )

    theirs = make()
    with tfs.accelerate():
        ours = make()
    story = ours.explain().splitlines()
    assert story[-1] == "prefetch: by TensorFlow"
    assert ": fused" in story[-2]
    assert ours.element_spec == theirs.element_spec
    assert rows_of(ours) == rows_of(theirs)
    if not shuffle:
        assert list(map(str, ours)) == list(map(str, theirs))


def test_a_parallel_interleave_that_does_more_is_tensorflows(files: dict[str, list[str]]) -> None:
    traced = []

    def part(name: Any) -> Any:
        traced.append(name)
        return tf.data.TFRecordDataset(name).take(5)

    with tfs.accelerate():
        names = tf.data.Dataset.from_tensor_slices(files[""])
        dataset = names.apply(tf.data.experimental.parallel_interleave(part, cycle_length=2))
    assert len(traced) == 1
    assert len(list(dataset)) == 15
    assert "not fused" in dataset.shuffle(9).batch(2).explain()


def test_records_of_any_interleave_are_parsed_by_the_batch(files: dict[str, list[str]]) -> None:
    """As TensorFlow Datasets reads a split."""
    which = {"path": files[""], "skip": [0, 3, 5], "take": [9, 99, 50]}

    def part(given: Any) -> Any:
        records = tf.data.TFRecordDataset(given["path"], buffer_size=1 << 20)
        return records.skip(tf.cast(given["skip"], tf.int64)).take(tf.cast(given["take"], tf.int64))

    def make() -> Any:
        parts = tf.data.Dataset.from_tensor_slices(which)
        dataset = parts.interleave(part, cycle_length=2, block_length=4, num_parallel_calls=2)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(158))
        dataset = dataset.with_options(tf.data.Options()).map(single, tf.data.AUTOTUNE)
        return dataset.prefetch(2)

    theirs, plain = make(), tf.data.Dataset.from_tensor_slices(which)
    with tfs.accelerate():
        ours = make()
        assert not isinstance(plain.interleave(lambda _: plain), tfs.TFRecordDataset)
    assert int(ours.cardinality()) == int(theirs.cardinality()) == 158
    for end in (
        lambda d: d.batch(32),
        lambda d: d.padded_batch(32, tf.compat.v1.data.get_output_shapes(d)),
        lambda d: d.take(70).padded_batch(32, drop_remainder=True),
    ):
        assert "parsed by the batch" in end(ours).explain()
        same(end(ours), end(theirs))
    wider = {"pixels": [10, 20, 3], "scaled": [6], "first": []}, [10]
    for end in (
        lambda d: d.padded_batch(32, wider),
        lambda d: d.padded_batch(32, padding_values=None, name="padded").map(behind),
        lambda d: d,
    ):
        same(end(ours), end(theirs))
    for refused in (lambda d: d.padded_batch(32, [3, 4]), lambda d: d.padded_batch(32, ([], []))):
        with pytest.raises((TypeError, ValueError)) as mine:
            refused(ours)
        with pytest.raises((TypeError, ValueError)) as its:
            refused(theirs)
        assert str(mine.value) == str(its.value)


@pytest.mark.parametrize("step", ["prefetch", "repeat", "take", "skip", "cache", "map", "filter"])
def test_steps_of_tensorflows_behind_the_plan_explain_it(
    files: dict[str, list[str]], step: str
) -> None:
    def same(found: Any) -> Any:
        return found

    def each(found: Any) -> Any:
        return tf.size(found["label"]) > 0

    given = {"cache": (), "map": (same,), "filter": (each,)}.get(step, (2,))
    fused = tfs.TFRecordDataset(files[""]).batch(32).map(lambda x: tf.io.parse_example(x, SPEC))
    dataset = getattr(fused, step)(*given).prefetch(1)
    options = tf.data.Options()
    options.deterministic = True
    dataset = dataset.with_options(options)
    _, _, parsed, *others = dataset.explain().splitlines()
    assert "fused: one call" in parsed
    assert others == [f"{told}: by TensorFlow" for told in (step, "prefetch", "with_options")]
    assert dataset.options().deterministic
    native = getattr(tf.data.Dataset, step)(fused, *given)
    assert dataset.element_spec == native.element_spec
    assert dataset.cardinality() == native.cardinality()
    assert list(map(str, dataset)) == list(map(str, native))


def test_a_list_of_files_in_the_constructor_is_known(files: dict[str, list[str]]) -> None:
    dataset = tfs.TFRecordDataset(tfs.list_files(files[""])).batch(32)
    assert "another order" in dataset.explain()
    mixed = tfs.TFRecordDataset(tfs.list_files(files[""])).shuffle(50).batch(32)
    assert "not fused" not in mixed.explain()
    assert rows_of(mixed) == rows_of(dataset)


def test_what_a_function_does_beside_reading_is_done(files: dict[str, list[str]]) -> None:
    def part(name: Any) -> Any:
        return tfs.TFRecordDataset(name).take(5)

    def said(name: Any) -> Any:
        tf.print("reads", name, output_stream="file:///dev/null")
        return tfs.TFRecordDataset(name)

    def another(name: Any) -> Any:
        return tfs.TFRecordDataset(tf.strings.regex_replace(name, "0.tfrecord", "1.tfrecord"))

    def skips(name: Any) -> Any:
        return tfs.TFRecordDataset(name, on_corrupt="skip")

    counts = {}
    for function in (part, said, another, skips):
        dataset = tfs.list_files(files[""]).interleave(function).shuffle(99).batch(32)
        assert not hasattr(dataset, "explain") or "not fused" in dataset.explain()
        counts[function.__name__] = sum(len(batch) for batch in dataset)
    assert counts == {"part": 15, "said": COUNT, "another": COUNT, "skips": COUNT}


def test_parallel_reads_of_streams_have_tensorflows_order(files: dict[str, list[str]]) -> None:
    wanted = tf.data.TFRecordDataset(files["GZIP"], "GZIP", num_parallel_reads=2)
    ours = tfs.TFRecordDataset(files["GZIP"], num_parallel_reads=2)
    assert records_of(ours) == records_of(wanted)
    assert records_of(ours.batch(9).unbatch()) == records_of(wanted)
    same(ours.map(single).batch(32), wanted.map(single).batch(32))
