"""`TFRecordDataset` beside TensorFlow's own, on the same files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.support.framed import flipped  # noqa: E402
from tests.tf.oracle import Outcome, error_of, outcome  # noqa: E402

pytestmark = pytest.mark.tensorflow
VECTORS = Path(__file__).parent.parent / "vectors"
ENDINGS = {"": "", "GZIP": ".gz", "ZLIB": ".zz"}


def both(*args: Any, then: Any = lambda dataset: dataset, **kwargs: Any) -> Outcome:
    """What both yield, which must be the same."""
    ours = outcome(lambda: then(tfs.TFRecordDataset(*args, **kwargs)))
    native = outcome(lambda: then(tf.data.TFRecordDataset(*args, **kwargs)))
    assert ours.elements == native.elements
    assert ours.error == native.error
    return ours


def write(path: Path, records: list[bytes], compression: str = "") -> str:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def numbered(count: int, tag: str = "r", size: int = 10) -> list[bytes]:
    return [f"{tag}{i}".encode().ljust(size, b".") for i in range(count)]


@pytest.fixture
def uneven(tmp_path: Path) -> list[str]:
    counts = {"a": 7, "b": 0, "c": 23, "d": 1, "e": 12}
    return [write(tmp_path / tag, numbered(n, tag)) for tag, n in counts.items()]


# --- the same as native ---------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ENDINGS)
@pytest.mark.parametrize("name", ["none", "one", "many", "empties", "sizes"])
def test_vectors(name: str, compression: str) -> None:
    path = VECTORS / f"{name}.tfrecord{ENDINGS[compression]}"
    assert both(str(path), compression).error is None


@pytest.mark.parametrize("compression", ENDINGS)
def test_compression_is_found_out(compression: str) -> None:
    path = str(VECTORS / f"many.tfrecord{ENDINGS[compression]}")
    found = outcome(lambda: tfs.TFRecordDataset(path))
    assert found == outcome(lambda: tf.data.TFRecordDataset(path, compression))


def test_a_tensor_may_name_the_compression() -> None:
    both(str(VECTORS / "many.tfrecord.gz"), tf.constant("GZIP"))


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda names: names, id="list"),
        pytest.param(lambda names: tuple(names), id="tuple"),
        pytest.param(lambda names: [Path(name) for name in names], id="paths"),
        pytest.param(lambda names: [names[:2], names[2:4]], id="nested"),
        pytest.param(lambda names: [], id="empty list"),
        pytest.param(lambda names: names[2], id="one string"),
        pytest.param(lambda names: Path(names[2]), id="one path"),
        pytest.param(lambda names: np.array(names), id="numpy"),
        pytest.param(lambda names: tf.constant(names), id="tensor"),
        pytest.param(lambda names: tf.constant([names[:2], names[2:4]]), id="matrix"),
        pytest.param(lambda names: tf.constant(names[0]), id="scalar"),
        pytest.param(lambda names: tf.data.Dataset.from_tensor_slices(names), id="dataset"),
    ],
)
@pytest.mark.parametrize("parallel", [None, 1, 2, 3, 10])
def test_filenames_and_parallel_reads(uneven: list[str], wrap: Any, parallel: int | None) -> None:
    both(wrap(uneven), num_parallel_reads=parallel)


def test_autotuned_parallel_reads_give_the_same_records(uneven: list[str]) -> None:
    found = outcome(lambda: tfs.TFRecordDataset(uneven, num_parallel_reads=tf.data.AUTOTUNE))
    native = outcome(lambda: tf.data.TFRecordDataset(uneven, num_parallel_reads=tf.data.AUTOTUNE))
    assert sorted(found.elements) == sorted(native.elements)


@pytest.mark.parametrize("filenames", [5, [5], 1.5, tf.constant(3)], ids=str)
def test_filenames_that_are_no_text(filenames: Any) -> None:
    for make in (tfs.TFRecordDataset, tf.data.TFRecordDataset):
        with pytest.raises(TypeError, match="filenames"):
            make(filenames)


def test_a_dataset_of_the_wrong_kind() -> None:
    for make in (tfs.TFRecordDataset, tf.data.TFRecordDataset):
        with pytest.raises(TypeError, match="filenames"):
            make(tf.data.Dataset.range(3))
        with pytest.raises(TypeError, match="filenames"):
            make(tf.data.Dataset.from_tensors(["a", "b"]))


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda ds: ds.repeat(3), id="repeat"),
        pytest.param(lambda ds: ds.take(9), id="take"),
        pytest.param(lambda ds: ds.skip(9), id="skip"),
        pytest.param(lambda ds: ds.prefetch(2), id="prefetch"),
        pytest.param(lambda ds: ds.batch(5), id="batch"),
        pytest.param(lambda ds: ds.batch(5, drop_remainder=True).unbatch(), id="unbatch"),
        pytest.param(lambda ds: ds.cache(), id="cache"),
        pytest.param(lambda ds: ds.map(lambda r: r + b"!", 2), id="map"),
        pytest.param(lambda ds: ds.shuffle(10, seed=3), id="shuffle"),
        pytest.param(lambda ds: ds.enumerate().map(lambda i, r: r), id="enumerate"),
        pytest.param(lambda ds: ds.window(3).flat_map(lambda w: w), id="window"),
        pytest.param(lambda ds: ds.take(5).concatenate(ds.skip(20)), id="concatenate"),
    ],
)
def test_what_comes_behind(uneven: list[str], then: Any) -> None:
    assert both(uneven, then=then).elements


def test_is_a_dataset(uneven: list[str]) -> None:
    dataset = tfs.TFRecordDataset(uneven)
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.element_spec == tf.data.TFRecordDataset(uneven).element_spec
    assert outcome(lambda: dataset) == outcome(lambda: dataset)


def test_interleave_of_tensors(uneven: list[str]) -> None:
    def records(make: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices(uneven).interleave(make, cycle_length=3)

    found = outcome(lambda: records(tfs.TFRecordDataset))
    assert found == outcome(lambda: records(tf.data.TFRecordDataset))


def test_inside_a_function(uneven: list[str]) -> None:
    @tf.function
    def total(names: Any) -> Any:
        return tfs.TFRecordDataset(names).reduce(0, lambda n, _: n + 1)

    assert total(tf.constant(uneven)).numpy() == 43


@pytest.mark.parametrize("compression", ENDINGS)
def test_make_batched_features_dataset(tmp_path: Path, compression: str) -> None:
    def example(i: int) -> bytes:
        feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))
        features = tf.train.Features(feature={"x": feature})
        return tf.train.Example(features=features).SerializeToString()

    path = write(tmp_path / "e", [example(i) for i in range(20)], compression)

    def values(reader: Any) -> list[int]:
        dataset = tf.data.experimental.make_batched_features_dataset(
            path,
            4,
            {"x": tf.io.FixedLenFeature([], tf.int64)},
            reader=reader,
            reader_args=[compression],
            num_epochs=1,
            shuffle=False,
        )
        return [int(x) for batch in dataset for x in batch["x"].numpy()]

    assert values(tfs.TFRecordDataset) == values(tf.data.TFRecordDataset) == list(range(20))


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["missing"], ["a", "missing"], ["missing", "a"]], ids=str)
@pytest.mark.parametrize("parallel", [None, 2])
def test_a_missing_file(tmp_path: Path, names: list[str], parallel: int | None) -> None:
    write(tmp_path / "a", numbered(3))
    paths = [str(tmp_path / name) for name in names]
    assert both(paths, num_parallel_reads=parallel).error is tf.errors.NotFoundError
    assert "missing" in error_of(lambda: tfs.TFRecordDataset(paths))


def test_a_folder(tmp_path: Path) -> None:
    assert both(str(tmp_path)).error is tf.errors.FailedPreconditionError


@pytest.mark.parametrize("at", range(0, 78, 3))
def test_a_flipped_byte(tmp_path: Path, at: int) -> None:
    path = tmp_path / "f"
    write(path, numbered(3))
    path.write_bytes(flipped(path.read_bytes(), at))
    assert both(str(path), "").error is tf.errors.DataLossError
    text = error_of(lambda: tfs.TFRecordDataset(str(path), ""))
    assert str(path) in text
    assert f"offset {at // 26 * 26})" in text


@pytest.mark.parametrize("length", range(0, 79, 3))
def test_a_cut_file(tmp_path: Path, length: int) -> None:
    path = tmp_path / "f"
    write(path, numbered(3))
    path.write_bytes(path.read_bytes()[:length])
    found = outcome(lambda: tfs.TFRecordDataset(str(path), ""))
    native = outcome(lambda: tf.data.TFRecordDataset(str(path), ""))
    assert found.elements == native.elements
    # native takes a header that is cut for the end of the file
    expected = tf.errors.DataLossError if length % 26 else None
    assert found.error is expected
    assert native.error is (expected if length % 26 >= 12 else None)


def test_a_cut_gzip_file(tmp_path: Path) -> None:
    whole = gzip.compress((VECTORS / "many.tfrecord").read_bytes())
    (tmp_path / "f.gz").write_bytes(whole[: len(whole) // 2])
    path = str(tmp_path / "f.gz")
    assert outcome(lambda: tfs.TFRecordDataset(path, "GZIP")).error is tf.errors.DataLossError
    assert path in error_of(lambda: tfs.TFRecordDataset(path, "GZIP"))


def test_an_unknown_compression() -> None:
    with pytest.raises(ValueError, match="compression_type"):
        tfs.TFRecordDataset(str(VECTORS / "many.tfrecord"), "LZ4")
    with pytest.raises(ValueError, match="compression_type"):
        tfs.TFRecordDataset(str(VECTORS / "many.tfrecord"), tf.constant("LZ4"))

    @tf.function
    def count(codec: Any) -> Any:
        dataset = tfs.TFRecordDataset(str(VECTORS / "many.tfrecord"), codec)
        return dataset.reduce(0, lambda n, _: n + 1)

    with pytest.raises(tf.errors.InvalidArgumentError, match="LZ4"):
        count(tf.constant("LZ4"))


# --- more than native -----------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True, 2])
@pytest.mark.parametrize("batch_size", [None, 1, 4, 100])
def test_blocks_give_every_record(
    tmp_path: Path, shuffle: bool | int, batch_size: int | None
) -> None:
    records = [f"{i}".encode() + b"x" * 300_000 for i in range(23)]
    path = write(tmp_path / "f", records)
    dataset = tfs.TFRecordDataset(path, batch_size=batch_size, shuffle=shuffle, seed=1)
    found = [e.numpy() for e in dataset]
    if batch_size is not None:
        assert [len(batch) for batch in found[:-1]] == [batch_size] * (len(found) - 1)
        found = [record for batch in found for record in batch]
    assert sorted(found) == sorted(records)
    assert (found == records) == (shuffle is False)
    if shuffle or batch_size:
        assert dataset.cardinality() == len(list(dataset))


@pytest.mark.parametrize("batch_size", [None, 2])
def test_shard_takes_blocks_or_batches(tmp_path: Path, batch_size: int | None) -> None:
    records = [f"{i}".encode() + b"x" * 300_000 for i in range(23)]
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=2) as writer:
        writer.write_batch(records)
    dataset = tfs.TFRecordDataset(str(tmp_path / "set"), batch_size=batch_size)
    parts = [outcome(lambda i=i: dataset.shard(3, i)).elements for i in range(3)]
    assert all(parts)
    assert sorted(e for part in parts for e in part) == sorted(outcome(lambda: dataset).elements)
    if batch_size is not None:
        assert parts == [outcome(lambda: dataset).elements[i::3] for i in range(3)]
    assert dataset.shard(3, 1).shard(2, 0).element_spec == dataset.element_spec


@pytest.mark.parametrize("length", range(1, 79, 5))
@pytest.mark.parametrize("parallel", [None, 2])
def test_blocks_raise_behind_the_good_records(
    tmp_path: Path, length: int, parallel: int | None
) -> None:
    """The file is shorter than its manifest tells."""
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=1) as writer:
        writer.write_batch(numbered(3))
    (path,) = tmp_path.glob("set-*")
    path.write_bytes(path.read_bytes()[:length])
    native = outcome(lambda: tf.data.TFRecordDataset(str(path)))
    found = outcome(lambda: tfs.TFRecordDataset(str(tmp_path / "set"), num_parallel_reads=parallel))
    assert found.elements == native.elements
    assert found.error is tf.errors.DataLossError


def test_seeds(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [f"{i}".encode() + b"x" * 300_000 for i in range(23)])

    def epochs(**options: Any) -> list[list[bytes]]:
        dataset = tfs.TFRecordDataset(path, shuffle=2, **options)
        return [[record.numpy()[:3] for record in dataset] for _ in range(2)]

    first, second = epochs(seed=5)
    assert first != second
    assert epochs(seed=5) == [first, second]
    assert epochs(seed=6)[0] != first
    again, same = epochs(seed=5, reshuffle_each_iteration=False)
    assert again == same


def test_schema(tmp_path: Path) -> None:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    path = write(tmp_path / "f", [example.SerializeToString()] * 10)
    spec = {"x": tf.io.FixedLenFeature([], tf.int64)}
    single = list(tfs.TFRecordDataset(path, schema=spec))
    assert [int(e["x"]) for e in single] == [7] * 10
    batches = [
        b["x"].numpy().tolist() for b in tfs.TFRecordDataset(path, schema=spec, batch_size=4)
    ]
    assert batches == [[7] * 4, [7] * 4, [7] * 2]
