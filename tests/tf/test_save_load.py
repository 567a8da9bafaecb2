"""`save` and `load`: every kind of element there and back, exactly."""

from __future__ import annotations

import collections
import json
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.saved import restored  # noqa: E402
from tfio_store.dataset.manifest import DatasetManifest  # noqa: E402
from tfio_store.tf import leaves  # noqa: E402

pytestmark = pytest.mark.tensorflow
FIVE = tf.data.Dataset.range(5)
Pair = collections.namedtuple("Pair", "x y")


def there_and_back(dataset, folder, **options):
    tfs.save(dataset, f"{folder}/ds", **options)
    return tfs.load(f"{folder}/ds")


def assert_same(ours, theirs):
    assert ours.element_spec == theirs.element_spec
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert_equal(one, other)


def assert_equal(one: Any, other: Any) -> None:
    tf.nest.assert_same_structure(one, other, expand_composites=True)
    flat = (tf.nest.flatten(element, expand_composites=True) for element in (one, other))
    for left, right in zip(*flat, strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        left, right = np.asarray(left.numpy()), np.asarray(right.numpy())
        if left.dtype == object:
            assert left.tolist() == right.tolist()
        else:
            assert left.tobytes() == right.tobytes()


def elements(spec, values):
    return tf.data.Dataset.from_generator(lambda: iter(values), output_signature=spec)


DTYPES = [
    "bool",
    "bfloat16",
    "half",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int8",
    "int16",
    "int32",
    "int64",
]
DTYPES += ["uint8", "uint16", "uint32", "uint64"]


def extremes(dtype):
    """Values of a dtype that conversions would lose."""
    numpy = tf.as_dtype(dtype).as_numpy_dtype
    if dtype == "bool":
        return np.array([True, False, True])
    if "int" in dtype:
        return np.array([np.iinfo(numpy).min, np.iinfo(numpy).max, 7], numpy)
    return np.array([np.nan, -0.0, 1 / 3], np.float64).astype(numpy)


def test_every_dtype(tmp_path):
    columns: dict[str, Any] = {}
    for dtype in DTYPES:
        values = tf.constant(extremes(dtype))
        columns |= {
            f"scalar {dtype}": values,
            f"vector {dtype}": tf.stack([values] * 3),
            f"empty {dtype}": tf.zeros([3, 0, 2], dtype),
        }
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    assert_same(there_and_back(dataset, tmp_path), dataset)


def test_open_shapes(tmp_path):
    def ones(dtype, *shape):
        return tf.fill(shape, "é\0") if dtype == "string" else tf.cast(tf.ones(shape), dtype)

    spec: dict[str, Any] = {}
    rows: list[dict[str, Any]] = [{}, {}, {}]
    for dtype in [*DTYPES, "string"]:
        spec |= {
            f"rows {dtype}": tf.TensorSpec([None, 2], dtype),
            f"columns {dtype}": tf.TensorSpec([2, None], dtype),
            f"both {dtype}": tf.TensorSpec([None, None], dtype),
            f"any {dtype}": tf.TensorSpec(None, dtype),
            f"thin {dtype}": tf.TensorSpec([None, 0], dtype),
        }
        for n, row in zip((3, 0, 1), rows, strict=True):
            row |= {
                f"rows {dtype}": ones(dtype, n, 2),
                f"columns {dtype}": ones(dtype, 2, n),
                f"both {dtype}": ones(dtype, n, 0) if n == 1 else ones(dtype, 0, n),
                f"any {dtype}": ones(dtype, *[2] * n),
                f"thin {dtype}": ones(dtype, n, 0),
            }
    dataset = elements(spec, rows)
    assert_same(there_and_back(dataset, tmp_path), dataset)


RAGGED = tf.ragged.constant([[[1, 2], [3]], [], [[4]]], dtype=tf.int32)
UNIFORM = tf.RaggedTensor.from_uniform_row_length(tf.range(12.0), 2)
SPARSE = tf.SparseTensor([[0, 1], [2, 0]], [1.5, 2.5], [3, 4])
OTHERS = {
    "numbers": FIVE,
    "strings": FIVE.map(tf.strings.as_string),
    "tuple": FIVE.map(lambda i: (i, tf.strings.as_string(i))),
    "tuple of one": FIVE.map(lambda i: (i,)),
    "dict": FIVE.map(lambda i: {"b": i, "a": {"c": (i, i), "3": i}}),
    "ordered dict": FIVE.map(lambda i: collections.OrderedDict(b=i, a=-i)),
    "named tuple": FIVE.map(lambda i: Pair(i, {1: i, 3: (i,)})),
    "none at all": FIVE.take(0),
    "ragged": tf.data.Dataset.from_tensors(RAGGED),
    "ragged slices": tf.data.Dataset.from_tensor_slices(RAGGED),
    "ragged beside": tf.data.Dataset.from_tensors({"r": RAGGED, "x": 1.0}).repeat(3),
    "ragged strings": tf.data.Dataset.from_tensors(tf.ragged.constant([["a"], []])),
    "ragged int32": tf.data.Dataset.from_tensors(
        tf.RaggedTensor.from_row_splits(tf.ones([3, 2], tf.bfloat16), tf.constant([0, 3, 3]))
    ),
    "uniform below": tf.data.Dataset.from_tensors(
        tf.RaggedTensor.from_row_splits(UNIFORM, [0, 4, 6])
    ),
    "uniform above": tf.data.Dataset.from_tensors(
        tf.RaggedTensor.from_uniform_row_length(
            tf.RaggedTensor.from_row_splits(tf.range(12.0), [0, 2, 2, 9, 12]), 2
        )
    ),
    "sparse": tf.data.Dataset.from_tensors(SPARSE),
    "sparse slices": tf.data.Dataset.from_tensor_slices(SPARSE),
    "sparse strings": tf.data.Dataset.from_tensors(tf.sparse.from_dense(["a", ""])),
    "mixed": FIVE.map(lambda i: (i, tf.ragged.range(i), tf.sparse.from_dense(tf.fill([i], 1)))),
    "quantized": tf.data.Dataset.from_tensors(tf.bitcast(tf.constant([1, 255], tf.uint8), "qint8")),
    "half bytes": tf.data.Dataset.from_tensors(tf.cast(tf.constant([1, -8], tf.int8), "int4")),
    "slashes": FIVE.map(lambda i: {"a/b": i, "a": {"c": i}, "": i}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_kind_of_element(name, tmp_path):
    assert_same(
        there_and_back(OTHERS[name], tmp_path, num_shards=1, compression="GZIP"), OTHERS[name]
    )


@pytest.mark.parametrize("name", OTHERS)
def test_specs_as_json(name):
    spec = OTHERS[name].element_spec
    assert leaves.from_json(json.loads(json.dumps(leaves.to_json(spec)))) == spec


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        {},
        {"tensor": []},
        {"tensor": ["no", []]},
        {"pickle": "x"},
        {"tuple": [3]},
        [],
        {"dict": [[[1], {"tuple": []}]]},
        {"named_tuple": "a b", "fields": ["x"], "items": []},
    ],
)
def test_json_that_is_no_spec(value):
    with pytest.raises(ValueError, match="not an element spec"):
        leaves.from_json(value)


@pytest.mark.parametrize(
    ("dataset", "error", "says"),
    [
        (FIVE.repeat(), ValueError, "never ends"),
        (FIVE.window(2), TypeError, "DatasetSpec can't be saved"),
        (FIVE.map(lambda i: {"a/b": i, "a": {"b": i}}), TypeError, "same name: a/b"),
        (FIVE.map(lambda i: {"a": tf.raw_ops.OptionalNone()}), TypeError, "variant can't be saved"),
        ([1, 2], TypeError, "takes a tf.data.Dataset"),
    ],
    ids=str,
)
def test_what_can_not_be_saved(dataset, error, says, tmp_path):
    with pytest.raises(error, match=says):
        tfs.save(dataset, f"{tmp_path}/ds")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_dataset_leaves_nothing(tmp_path):
    dataset = FIVE.map(
        lambda i: tf.debugging.check_numerics(1 / tf.cast(3 - i, tf.float32), "division by zero")
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        tfs.save(dataset, f"{tmp_path}/ds")
    assert list(tmp_path.iterdir()) == []


ROWS = tf.data.Dataset.range(1000).map(
    lambda i: {"i": i, "x": tf.fill([2, 3], tf.cast(i, tf.float32)), "s": tf.strings.as_string(i)}
)


def numbers(dataset):
    return [int(i) for i in dataset.map(lambda row: row["i"])]


def test_on_every_storage(place):
    where = {"storage_options": place.storage_options}
    manifest = tfs.save(ROWS, place.url("a/train"), num_shards=3, compression="ZSTD", **where)
    assert manifest.records == 1000
    assert len(manifest.shards) == 3
    loaded = tfs.load(place.url("a/train"), num_parallel_reads=3, **where)
    assert_same(loaded, ROWS)
    assert loaded.cardinality() == 1000 or loaded.cardinality() == tf.data.UNKNOWN_CARDINALITY


def test_options_of_the_reader(tmp_path):
    url = f"{tmp_path}/ds"
    tfs.save(ROWS, url, max_shard_bytes=20_000)
    assert len(list(tmp_path.glob("ds-*"))) > 3
    assert numbers(tfs.load(url)) == list(range(1000))
    assert tfs.load(url).cardinality() == 1000
    shuffled = [numbers(tfs.load(url, shuffle=True, seed=seed)) for seed in (1, 1, 2)]
    assert shuffled[0] == shuffled[1] != shuffled[2]
    assert sorted(shuffled[0]) == list(range(1000))
    parts = [tfs.load(url, shard=(3, k)) for k in range(3)]
    assert sorted(i for part in parts for i in numbers(part)) == list(range(1000))
    assert [int(part.cardinality()) for part in parts] == [len(numbers(part)) for part in parts]
    with pytest.raises(TypeError, match="shuffel"):
        tfs.load(url, shuffel=True)


def test_batches(tmp_path):
    tfs.save(ROWS, f"{tmp_path}/fixed")
    batched = tfs.load(f"{tmp_path}/fixed", batch_size=64)
    assert_same(batched, ROWS.batch(64))
    assert batched.cardinality() == 16
    assert_same(
        tfs.load(f"{tmp_path}/fixed", batch_size=64, drop_remainder=True), ROWS.batch(64, True)
    )
    mixed = ROWS.map(lambda row: row | {"none": tf.zeros([0])})
    tfs.save(mixed, f"{tmp_path}/mixed")
    assert_same(tfs.load(f"{tmp_path}/mixed", batch_size=64), mixed.batch(64))


def test_a_checkpoint_resumes_where_it_was(tmp_path):
    tfs.save(ROWS, f"{tmp_path}/ds")
    one, other, whole = (tfs.load(f"{tmp_path}/ds", shuffle=True, seed=3) for _ in range(3))
    given, rest = restored(one, 300, tmp_path, other)
    assert [int(row["i"]) for row in [*given, *rest]] == numbers(whole)


def test_appending_takes_the_same_elements_only(tmp_path):
    url = f"{tmp_path}/ds"
    tfs.save(FIVE, url)
    with pytest.raises(FileExistsError):
        tfs.save(FIVE, url)
    tfs.save(FIVE, url, if_exists="append")
    assert [int(i) for i in tfs.load(url)] == [0, 1, 2, 3, 4] * 2
    with pytest.raises(ValueError, match="another spec"):
        tfs.save(ROWS, url, if_exists="append")
    tfs.save(ROWS, url, if_exists="overwrite")
    assert numbers(tfs.load(url)) == list(range(1000))


def test_the_records_are_examples_that_anyone_reads(tmp_path):
    url = f"{tmp_path}/ds"
    exact = ROWS.map(lambda row: row | {"d": tf.cast(row["i"], tf.float64) / 3})
    tfs.save(exact, url)
    schema = tfs.infer_schema(url)
    assert schema == tfs.Schema(
        {
            "i": "int64",
            "x": ("float32", (2, 3)),
            "s": "bytes",
            "d": tfs.Feature("float64", raw=True),
        }
    )
    columns = tfs.decode_examples(list(tfs.RecordReader(url)), schema)
    assert columns["i"].tolist() == list(range(1000))
    assert columns["d"].tolist() == [i / 3 for i in range(1000)]
    stock = tf.data.TFRecordDataset(sorted(map(str, tmp_path.glob("ds-*"))))
    row = tf.io.parse_single_example(next(iter(stock.skip(7))), schema.feature_spec())
    assert row["x"].numpy().tolist() == [[7.0] * 3] * 2
    assert tf.io.decode_raw(row["d"], tf.float64).numpy() == 7 / 3


def test_what_save_did_not_write(tmp_path):
    with pytest.raises(FileNotFoundError, match="no dataset with a manifest"):
        tfs.load(f"{tmp_path}/nothing")
    with tfs.ShardedWriter(f"{tmp_path}/plain", num_shards=1) as writer:
        writer.write(b"")
    with pytest.raises(ValueError, match="was not written by save"):
        tfs.load(f"{tmp_path}/plain")
    damaged = DatasetManifest((), None, metadata={"element_spec": {"tensor": ["no", []]}})
    (tmp_path / "_bad.manifest.json").write_bytes(damaged.to_bytes())
    with pytest.raises(tfs.ManifestError, match="bad: its manifest's element_spec is damaged"):
        tfs.load(f"{tmp_path}/bad")


def test_what_tensorflow_saved_is_recognised(tmp_path):
    tf.data.Dataset.range(5).save(f"{tmp_path}/saved")
    told = r"written by TensorFlow's Dataset.save; .*tfs.save\(tf.data.Dataset.load\(path\)"
    for path in (f"{tmp_path}/saved", tmp_path / "saved"):
        with pytest.raises(FileNotFoundError, match=told):
            tfs.load(path)
        with pytest.raises(IsADirectoryError, match=told):
            tfs.RecordReader(path)
    tfs.save(tf.data.Dataset.load(f"{tmp_path}/saved"), f"{tmp_path}/mine")
    assert [int(x) for x in tfs.load(f"{tmp_path}/mine")] == list(range(5))


def test_a_path_names_it(tmp_path):
    url = tmp_path / "numbers"
    for times in ("error", "append"):
        tfs.save(tf.data.Dataset.range(3), url, if_exists=times)
    assert [int(element) for element in tfs.load(url)] == [0, 1, 2, 0, 1, 2]
