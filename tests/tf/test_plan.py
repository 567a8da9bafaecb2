"""What people write behind the dataset gives TensorFlow's elements, fused or not."""

from __future__ import annotations

import warnings
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
    example,
    flat,
    read_one,
    records_of,
    rounds,
    rows_of,
    same,
    shuffled,
    single,
    sparse,
    summed,
    whole,
)

pytestmark = pytest.mark.tensorflow

CHAINS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "batch": (lambda d: d.batch(32), "fused"),
    "batch, dropped": (lambda d: d.batch(32, drop_remainder=True), "fused"),
    "parsed": (lambda d: d.map(single).batch(32), "fused"),
    "parsed in parallel": (lambda d: d.map(single, 4).batch(32, True), "fused"),
    "two maps": (lambda d: d.map(single).map(behind).batch(32), "fused"),
    "sparse": (lambda d: d.map(sparse).batch(32), "fused"),
    "by batch": (lambda d: d.batch(32).map(whole), "fused"),
    "by batch, more": (lambda d: d.batch(32).map(summed, 2), "fused"),
    "options": (lambda d: d.with_options(tf.data.Options()).map(single).batch(32), "fused"),
    "repeated": (lambda d: d.repeat(2).map(single).batch(32), "by the batch"),
    "mapped, then repeated": (lambda d: d.map(single).repeat(2).batch(32), "by the batch"),
    "a part": (lambda d: d.skip(5).take(99).map(single).batch(32), "by the batch"),
    "kept": (lambda d: d.cache().map(single).batch(32), "by the batch"),
    "same order for good": (
        lambda d: d.shuffle(50, 3, False).map(single).batch(32), "fused"),
    "not element-wise": (lambda d: d.map(rounds).batch(32), ""),
    "not batched": (lambda d: d.map(single), ""),
    "small": (lambda d: d.map(single).batch(2), ""),
    "unbatched": (lambda d: d.batch(32).unbatch().batch(7), ""),
}  # fmt: skip


@pytest.mark.parametrize("codec", first(1, ["", "GZIP"]))
def test_chains_give_the_same(files: dict[str, list[str]], codec: str) -> None:
    for name, (chain, verdict) in CHAINS.items():
        ours = chain(tfs.TFRecordDataset(files[codec]))
        same(ours, chain(tf.data.TFRecordDataset(files[codec], codec)))
        if not codec and verdict:
            assert verdict in ours.explain().splitlines()[-1], name
            assert "not fused" not in ours.explain() or verdict != "fused", ours.explain()


@pytest.mark.parametrize("codec", first(1, ["", "GZIP"]))
def test_accelerated_chains_give_the_same(files: dict[str, list[str]], codec: str) -> None:
    for chain, _ in CHAINS.values():
        theirs = chain(tf.data.TFRecordDataset(files[codec], codec))
        with tfs.accelerate():
            dataset = tf.data.TFRecordDataset(files[codec], codec)
            assert isinstance(dataset, tf.data.TFRecordDataset)
            ours = chain(dataset)
        assert type(tf.data.TFRecordDataset(files[codec], codec)) is tf.data.TFRecordDataset
        same(ours, theirs)


def test_accelerated_code_gets_its_errors_from_tensorflow(tmp_path: Path) -> None:
    with tfs.accelerate(), tfs.accelerate():
        with pytest.raises(TypeError, match="filenames"):
            tf.data.TFRecordDataset(7)
        dataset = tf.data.TFRecordDataset(str(tmp_path / "*")).batch(2)
        with pytest.raises(tf.errors.NotFoundError):
            list(dataset)


def test_a_function_is_traced_once(files: dict[str, list[str]]) -> None:
    calls = []

    def counted(record: Any) -> Any:
        calls.append(1)
        return single(record)

    list(tfs.TFRecordDataset(files[""]).map(counted).batch(32))
    list(tfs.TFRecordDataset(files[""]).map(counted))
    assert len(calls) == 2


def test_an_error_comes_with_the_batch_that_holds_it(tmp_path: Path) -> None:
    name = str(tmp_path / "x")
    with tf.io.TFRecordWriter(name) as writer:
        for i in range(100):
            writer.write(b"\xff" if i == 70 else example(i))
    dataset = iter(tfs.TFRecordDataset(name).map(single).batch(32))
    assert [len(next(dataset)[1]) for _ in range(2)] == [32, 32]
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(dataset)


def test_a_dataset_that_is_made_outside_is_used_in_a_function(files: dict[str, list[str]]) -> None:
    dataset = tfs.TFRecordDataset(files[""]).map(single).batch(32)

    @tf.function
    def count() -> Any:
        return dataset.reduce(np.int64(0), lambda n, _: n + 1)

    assert int(count()) == 22
    assert len(list(dataset)) == 22


def labels(dataset: Any) -> list[int]:
    return [x for batch in dataset for x in batch.numpy().tolist()]


# --- what is done with a fused dataset ------------------------------------------------------------


def fused(files: list[str]) -> dict[str, Any]:
    listed = tfs.list_files(files).interleave(read_one, 3)
    return {
        "parsed": tfs.TFRecordDataset(files).map(single).batch(32),
        "shuffled": shuffled(files, 100, seed=7),
        "interleaved": listed.shuffle(100, seed=7).map(single).batch(32),
    }


@pytest.mark.parametrize("kind", ["parsed", "shuffled", "interleaved"])
@pytest.mark.parametrize("symbolic", first(1, [True, False]))
def test_a_fused_dataset_goes_on_behind_a_checkpoint(
    files: dict[str, list[str]], tmp_path: Path, kind: str, symbolic: bool
) -> None:
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic
    dataset = fused(files[""])[kind].repeat(2).with_options(options)
    for position in (1, 3, 23):
        iterator = iter(dataset)
        for _ in range(position):
            next(iterator)
        path = tf.train.Checkpoint(it=iterator).write(str(tmp_path / f"at{position}"))
        wanted = [flat(element) for element in iterator]
        assert len(wanted) == 44 - position
        fresh = iter(dataset)
        tf.train.Checkpoint(it=fresh).read(path)
        got = [flat(element) for element in fresh]
        for one, other in zip(got, wanted, strict=True):
            for mine, its in zip(one, other, strict=True):
                np.testing.assert_array_equal(mine, its)


def test_a_fused_dataset_in_a_saved_model(files: dict[str, list[str]], tmp_path: Path) -> None:
    class Counts(tf.Module):  # type: ignore[name-defined]
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def count(self, names: Any) -> Any:
            dataset = tfs.TFRecordDataset(names).map(single).batch(32)
            return dataset.reduce(np.int64(0), lambda n, found: n + tf.shape(found[1], tf.int64)[0])

    module = Counts()
    assert int(module.count(tf.constant(files[""]))) == COUNT
    tf.saved_model.save(module, str(tmp_path / "model"))
    assert int(tf.saved_model.load(str(tmp_path / "model")).count(tf.constant(files[""]))) == COUNT


@pytest.mark.parametrize("kind", first(1, ["interleaved", "shuffled", "parsed"]))
def test_a_fused_dataset_by_a_data_service(files: dict[str, list[str]], kind: str) -> None:
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    assert worker is not None
    dataset = fused(files[""])[kind]
    sent = dataset.apply(service.distribute(service.ShardingPolicy.DYNAMIC, dispatcher.target))
    assert rows_of(sent) == rows_of(dataset)


@pytest.mark.parametrize("kind", first(1, ["interleaved", "shuffled", "parsed"]))
def test_a_fused_dataset_for_replicas(files: dict[str, list[str]], kind: str) -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    dataset = fused(files[""])[kind]
    shared = strategy.experimental_distribute_dataset(dataset)
    assert rows_of(list(shared)) == rows_of(dataset)


@pytest.mark.parametrize("kept", [-7, 4])
@pytest.mark.parametrize("make", [
    lambda names: tfs.TFRecordDataset(tfs.list_files(names, shuffle=False)),
    lambda names: tfs.list_files(names, shuffle=False).interleave(tfs.TFRecordDataset),
    lambda names: tf.data.Dataset.from_tensor_slices(names).flat_map(tfs.TFRecordDataset),
    lambda names: tfs.TFRecordDataset(names, "", num_parallel_reads=2),
])  # fmt: skip
def test_a_cut_shard_of_a_dataset_is_no_end(tmp_path: Path, make: Any, kept: int) -> None:
    """TensorFlow's own reader takes some cuts for the end of the file."""
    records = [b"x" * 50] * 300
    with tfs.ShardedWriter(tmp_path / "train", num_shards=2, compression=None) as writer:
        writer.write_batch(records)
    names = sorted(map(str, tmp_path.glob("train-*.tfrecord")))
    assert len(records_of(make(names))) == 300
    size = 50 + 16
    shard = Path(names[1])
    shard.write_bytes(shard.read_bytes()[: kept if kept < 0 else (149 * size + kept)])
    with pytest.raises(tf.errors.DataLossError, match="train-00001"):
        records_of(make(names))


def test_relative_names_are_accelerated(
    files: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(files[""][0]).parent
    monkeypatch.chdir(folder)
    with tfs.accelerate():
        dataset = tf.data.TFRecordDataset([Path(name).name for name in files[""]]).batch(32)
    assert ": fused" in dataset.explain()
    assert len(list(dataset)) == COUNT // 32 + 1


def test_list_files_takes_what_tensorflows_takes(files: dict[str, list[str]]) -> None:
    folder = Path(files[""][0]).parent
    for given in ({}, {"shuffle": None}, {"shuffle": True, "seed": 3}, {"shuffle": False}):
        named: Any = {"file_pattern": f"{folder}/*", "name": "files", **given}
        ours, theirs = tfs.list_files(**named), tf.data.Dataset.list_files(**named)
        assert sorted(map(bytes, ours.as_numpy_iterator())) == sorted(theirs.as_numpy_iterator())
        orders = {tuple(ours.as_numpy_iterator()) for _ in range(20)}
        assert (len(orders) > 1) == (given.get("shuffle") is not False)


LARGE = tf.constant(np.full([10, 20, 3], 7.0, np.float32))  # too large to become a constant


def as_tensorflow(chain: Callable[[Any], Any], names: list[str]) -> Any:
    """The class swapped, and accelerated: the same elements or the same kind of error."""

    def outcome(dataset: Callable[[], Any]) -> Any:
        try:
            return [flat(element) for element in dataset()]
        except tf.errors.OpError as error:
            return type(error)

    wanted = outcome(lambda: chain(tf.data.TFRecordDataset(names)))
    ours = chain(tfs.TFRecordDataset(names))
    with tfs.accelerate():
        theirs = chain(tf.data.TFRecordDataset(names))
    for found in (outcome(lambda: ours), outcome(lambda: theirs)):
        if isinstance(wanted, type):
            assert found is wanted
            continue
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            for mine, its in zip(one, other, strict=True):
                np.testing.assert_array_equal(mine, its)
    return ours


def test_a_function_may_use_a_large_tensor(files: dict[str, list[str]]) -> None:
    def minus(record: Any) -> Any:
        found = tf.io.parse_single_example(record, SPEC)
        return tf.cast(found["label"], tf.float32) - LARGE

    ours = as_tensorflow(lambda d: d.map(minus).batch(32), files[""])
    assert ": fused" in ours.explain()
    as_tensorflow(lambda d: d.map(lambda r: tf.exp(minus(r))).batch(32), files[""])
    as_tensorflow(
        lambda d: d.map(single).map(lambda a, b: a["pixels"] - LARGE).batch(32), files[""]
    )


OWN = {
    "last": lambda values, raw: values[-1],
    "second": lambda values, raw: values[1],
    "reshaped": lambda values, raw: tf.reshape(values, [3]),
    "said to be": lambda values, raw: tf.ensure_shape(values, [3]),
    "byte": lambda values, raw: tf.io.decode_raw(raw, tf.uint8)[0],
    "last byte": lambda values, raw: tf.io.decode_raw(raw, tf.uint8)[-1],
    "first bytes": lambda values, raw: tf.ensure_shape(tf.io.decode_raw(raw, tf.uint8)[:2], [2]),
}


@pytest.mark.parametrize("title", OWN)
def test_what_has_a_length_of_its_own_is_not_padded(tmp_path: Path, title: str) -> None:
    name = str(tmp_path / "x")
    with tf.io.TFRecordWriter(name) as writer:
        for i in range(64):
            row = {"values": list(range(i, i + 2 + i % 3)), "raw": b"%d" % (10 ** (i % 4 + 1) + i)}
            writer.write(tfs.encode_example(row))
    spec = {
        "values": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "raw": tf.io.FixedLenFeature([], tf.string),
    }

    def function(record: Any) -> Any:
        found = tf.io.parse_single_example(record, spec)
        return OWN[title](found["values"], found["raw"])

    as_tensorflow(lambda d: d.map(function).batch(8), [name])
    as_tensorflow(lambda d: d.repeat(2).map(function).batch(8), [name])


def test_a_function_may_make_none(files: dict[str, list[str]]) -> None:
    for made in (lambda a, b: (a, b, None), lambda a, b: {"a": b, "z": None}):
        dataset = tfs.TFRecordDataset(files[""]).map(single).map(made)
        assert (
            dataset.element_spec
            == tf.data.TFRecordDataset(files[""]).map(single).map(made).element_spec
        )
        assert len(list(dataset)) == COUNT


def test_an_error_is_not_lost_with_what_a_later_map_drops(tmp_path: Path) -> None:
    name = str(tmp_path / "x")
    with tf.io.TFRecordWriter(name) as writer:
        for i in range(40):
            writer.write(tfs.encode_example({"x": i, "text": b"none" if i == 20 else b"%d" % i}))
    spec = {"x": tf.io.FixedLenFeature([], tf.int64), "text": tf.io.FixedLenFeature([], tf.string)}

    def parsed(record: Any) -> Any:
        found = tf.io.parse_single_example(record, spec)
        return found["x"], tf.strings.to_number(found["text"])

    as_tensorflow(lambda d: d.map(parsed).map(lambda a, b: a).batch(8), [name])
    as_tensorflow(lambda d: d.map(parsed).map(lambda a, b: a + 1).take(16).batch(8), [name])


def test_small_differences_of_functions(files: dict[str, list[str]]) -> None:
    def named(record: Any) -> Any:
        return tf.io.parse_single_example(record, {"label": SPEC["label"]}, example_names="x")

    def unequal(record: Any) -> Any:
        vector = tf.io.parse_single_example(record, SPEC)["vector"]
        return tf.raw_ops.Equal(x=vector, y=[1.0, 2.0, 3.0], incompatible_shape_error=False)

    for function in (named, unequal):
        as_tensorflow(lambda d, f=function: d.map(f).batch(32), files[""])


def test_files_are_shared_out_behind_what_follows_a_fused_step(files: dict[str, list[str]]) -> None:
    policy = tf.data.Options()
    policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE

    def chain(dataset: Any) -> Any:
        return dataset.map(single).batch(32).prefetch(2).with_options(policy)

    ours = chain(tfs.TFRecordDataset(files[""]))
    graph = ours._as_serialized_graph().numpy()
    assert b"PrefetchDataset" in graph
    assert b"RangeDataset" not in graph or b"TFRecordDataset" in graph
    same(ours, chain(tf.data.TFRecordDataset(files[""])))


def test_options_are_those_of_the_call(files: dict[str, list[str]]) -> None:
    options = tf.data.Options()
    options.deterministic = True
    dataset = tfs.TFRecordDataset(files[""]).with_options(options).batch(32)
    options.deterministic = False
    assert dataset.options().deterministic is True


def test_keras_splits_batches(files: dict[str, list[str]]) -> None:
    def chain(dataset: Any) -> Any:
        return dataset.map(lambda r: tf.io.parse_single_example(r, SPEC)["label"]).batch(32)

    for make in (tfs.TFRecordDataset, tf.data.TFRecordDataset):
        left, right = tf.keras.utils.split_dataset(chain(make(files[""])), left_size=0.8)
        assert (len(left), len(right)) == (18, 5)


@pytest.mark.parametrize("text", ["", "null", "[]", " ", '{"cluster": null}', "no JSON"])
def test_a_broken_tf_config_is_passed_by(
    files: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    assert len(list(tfs.TFRecordDataset(files[""]).batch(32))) == 22


def test_a_hint_of_shards_is_left_to_tensorflow(files: dict[str, list[str]]) -> None:
    hint = tf.data.experimental.SHARD_HINT
    names = tfs.list_files(files[""], shuffle=False).shard(hint, hint)
    assert not hasattr(names, "names")
    tfs.TFRecordDataset(files[""]).shard(hint, hint)


@pytest.mark.parametrize("damage", ["flipped", "short", "longer", "no records"])
@pytest.mark.parametrize("codec", ["", "GZIP"])
def test_ignored_errors_end(
    tmp_path: Path, files: dict[str, list[str]], damage: str, codec: str
) -> None:
    """What is sound comes, once."""
    data = bytearray(Path(files[codec][1]).read_bytes())
    data[len(data) // 2] ^= damage == "flipped"
    data = data[:-30] if damage == "short" else data + b"12345" * (damage == "longer")
    data = data if damage != "no records" else bytearray(b"<p>404</p>" * 1000)
    (tmp_path / "bad").write_bytes(data)
    names = [files[codec][0], str(tmp_path / "bad"), files[codec][2]]

    def labels_of(dataset: Any) -> list[int]:
        return [int(np.atleast_1d(x)[0]) for x in dataset.take(10 * COUNT).as_numpy_iterator()]

    def label(record: Any) -> Any:
        return tf.io.parse_single_example(record, SPEC)["label"]

    native = labels_of(tf.data.TFRecordDataset(names, codec).map(label).ignore_errors())
    for chain in (
        lambda d: d.ignore_errors().map(label),
        lambda d: d.map(label).ignore_errors(),
        lambda d: d.map(label).prefetch(2).ignore_errors().batch(1),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = labels_of(chain(tfs.TFRecordDataset(names)))
        assert len(found) == len(set(found))
        assert set(found) >= set(native)
    listed = tf.data.Dataset.from_tensor_slices(names)
    for each in (listed.flat_map, listed.interleave):
        assert set(labels_of(each(tfs.TFRecordDataset).map(label).ignore_errors())) == set(native)
    found, errors = going_on(tfs.TFRecordDataset(names).map(label))
    # ISA-L holds the last byte before a cut back: that of a record, if the cut lies just behind it
    held_back = codec == "GZIP" and damage == "short"
    assert len(set(native) - set(found)) <= held_back
    assert errors == 1


def going_on(labels: Any) -> tuple[list[int], int]:
    """What comes to whom passes errors of damage by, and how many errors there were."""
    iterator, found, errors = iter(labels), [], 0
    for _ in range(10 * COUNT):
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            break
        except tf.errors.DataLossError:
            errors += 1
    return found, errors
