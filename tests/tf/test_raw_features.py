"""Raw features in tf.data: the dtype and shape that `decode_examples` gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

N = 70
RNG = np.random.default_rng(5)
SPLITS = np.sort(np.append([0, 3 * N], RNG.integers(0, 3 * N + 1, N - 1)))
COLUMNS: dict[str, Any] = {
    "double": RNG.random(N),
    "matrix": RNG.random((N, 2, 3)),
    "big": np.arange(N, dtype=np.uint64) + np.uint64(2**63),
    "complex": RNG.random(N) + 1j,
    "when": np.arange(N).astype("M8[ms]"),
    "pixels": RNG.integers(0, 256, (N, 4, 5), dtype=np.uint8),
    "ragged": tfs.Ragged(RNG.random((3 * N, 2)), SPLITS),
    "plain": np.arange(N),
    "text": [f"é{i}" for i in range(N)],
}


@pytest.fixture(params=[None, "GZIP"])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    found = f"{tmp_path}/train"
    tfs.write_table(COLUMNS, found, compression=request.param, num_shards=2, exact=True)
    return found


def rows(dataset: Any) -> dict[int, dict[str, Any]]:
    """Rows by their number, which is in "plain"; of batches too."""
    found: dict[int, dict[str, Any]] = {}
    for element in dataset:
        numbers = np.atleast_1d(element["plain"].numpy())
        for i, number in enumerate(numbers):
            alone = element["plain"].shape.rank == 0
            found[int(number)] = {
                name: (value if alone else value[i]).numpy() for name, value in element.items()
            }
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 16},
        {"batch_size": 16, "drop_remainder": True},
        {"batch_size": 16, "shuffle": True, "seed": 1},
        {"shuffle": 2},
        {"batch_size": 3, "num_parallel_reads": 2},
    ],
)
def test_values_are_those_of_decode_examples(url: str, options: dict[str, Any]) -> None:
    schema = tfs.infer_schema(url)
    dataset = tfs.TFRecordDataset(url, schema=schema, **options)
    found = rows(dataset)
    assert len(found) == (N // 16 * 16 if options.get("drop_remainder") else N)
    for i, row in found.items():
        for name, column in COLUMNS.items():
            wanted = column[i]
            if name == "when":
                wanted = wanted.astype(np.int64)
            if name == "text":
                wanted = wanted.encode()
            assert np.array_equal(row[name], wanted), (i, name)
            if schema[name].raw and name != "when":
                assert row[name].dtype == np.asarray(wanted).dtype, name


def test_shapes_are_known(url: str) -> None:
    spec = tfs.TFRecordDataset(url, schema=tfs.infer_schema(url), batch_size=8).element_spec
    assert spec["double"] == tf.TensorSpec([None], tf.float64)
    assert spec["matrix"] == tf.TensorSpec([None, 2, 3], tf.float64)
    assert spec["pixels"] == tf.TensorSpec([None, 4, 5], tf.int64), "an Int64List"
    assert spec["big"].dtype == tf.uint64
    assert spec["ragged"] == tf.RaggedTensorSpec([None, None, 2], tf.float64, 1)
    single = tfs.TFRecordDataset(url, schema=tfs.infer_schema(url)).element_spec
    assert single["double"] == tf.TensorSpec([], tf.float64)
    assert single["ragged"] == tf.TensorSpec([None, 2], tf.float64)


def test_shares_are_decoded_too(url: str) -> None:
    dataset = tfs.TFRecordDataset(url, schema=tfs.infer_schema(url), batch_size=8)
    found = [row for i in range(2) for row in rows(dataset.shard(2, i)).values()]
    assert len(found) == N
    assert {row["double"].dtype for row in found} == {np.dtype(np.float64)}


def test_a_feature_spec_stays_what_it_is(url: str) -> None:
    spec = tfs.infer_schema(url).feature_spec()
    assert tfs.TFRecordDataset(url, schema=spec).element_spec["double"].dtype == tf.string


def test_defaults_and_missing_values(tmp_path: Path) -> None:
    schema = tfs.Schema(
        {
            "d": tfs.Feature("float64", (2,), default=0.5, raw=True),
            "r": tfs.Feature("float64", (None,), raw=True),
        }
    )
    with tfs.TFRecordWriter(tmp_path / "x") as writer:
        writer.write({"d": np.array([1.0, 2.0]).tobytes(), "r": np.array([3.0]).tobytes()})
        writer.write({"other": 1})
    for size in (2, 7):
        (batch,) = tfs.TFRecordDataset(str(tmp_path / "x"), schema=schema, batch_size=size)
        assert batch["d"].numpy().tolist() == [[1.0, 2.0], [0.5, 0.5]]
        assert batch["r"].to_list() == [[3.0], []]


def test_memory_of_another_size_is_an_error(tmp_path: Path) -> None:
    schema = tfs.Schema(
        {"x": tfs.Feature("float64", raw=True), "r": tfs.Feature("float64", (None,), raw=True)}
    )
    eight = b"\0" * 8
    for bad in ({"x": b"\0" * 7, "r": eight}, {"x": b"\0" * 16, "r": eight}):
        with tfs.TFRecordWriter(tmp_path / "x") as writer:
            writer.write(bad)
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(tfs.TFRecordDataset(str(tmp_path / "x"), schema=schema, batch_size=1))
    with tfs.TFRecordWriter(tmp_path / "x") as writer:
        writer.write({"x": eight, "r": b"\0" * 4})
        writer.write({"x": eight, "r": b"\0" * 12})
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 8 bytes"):
        list(tfs.TFRecordDataset(str(tmp_path / "x"), schema=schema, batch_size=2))
