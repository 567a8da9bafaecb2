"""`tfio_store.hf.iterable_dataset`: shards, workers, ranks, states and features of Hugging Face."""

from __future__ import annotations

import io
import itertools
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import flipped, framed
from tests.support.pages import blocks_of

datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
torch_data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
pa = pytest.importorskip("pyarrow")

from datasets.distributed import split_dataset_by_node  # noqa: E402

from tfio_store.hf import iterable_dataset  # noqa: E402

ROWS = 1003
SHARDS = 6


def write(url: str, **options: Any) -> None:
    """1003 rows, in blocks of a few each."""
    x = np.arange(ROWS)
    names = [None if i % 7 == 0 else f"é{i}" for i in range(ROWS)]
    rows = np.random.default_rng(0).integers(0, 255, (ROWS, 10_000), np.uint8)
    blobs = [row.tobytes() for row in rows]
    table = pa.table({"x": x, "name": names, "blob": blobs})
    tfs.write_table(table, url, max_shard_bytes=3 << 20, **options)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"{tmp_path_factory.mktemp('hf')}/train"
    write(url)
    return url


def xs(rows: Any) -> list[int]:
    return [int(x) for row in rows for x in np.atleast_1d(row["x"])]


def test_rows_in_order(url: str) -> None:
    dataset = iterable_dataset(url, num_partitions=SHARDS)
    assert isinstance(dataset, datasets.IterableDataset)
    assert dataset.num_shards == SHARDS
    expected = tfs.read_table(url).to_arrow().to_pylist()
    assert list(dataset) == expected
    assert list(dataset) == expected  # again


def test_columns_and_a_schema(url: str) -> None:
    dataset = iterable_dataset(url, columns=["name", "x"])
    assert list(dataset.features) == ["name", "x"]
    assert next(iter(dataset)) == {"name": None, "x": 0}
    assert next(iter(iterable_dataset(url, {"x": "int64"}))) == {"x": 0}
    with pytest.raises(KeyError, match="no feature 'z'"):
        iterable_dataset(url, columns=["z"])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader_have_each_row_once(url: str, method: str) -> None:
    dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format("torch")
    assert xs(itertools.islice(dataset, 3)) == [0, 1, 2]  # before the workers start
    loader = torch_data.DataLoader(
        dataset, batch_size=32, num_workers=2, multiprocessing_context=method
    )
    assert sorted(xs(loader)) == list(range(ROWS))


def test_batches_of_tensors_are_cut_of_tables(url: str) -> None:
    dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS)
    batches = dataset.with_format("torch").batch(64)
    found = list(torch_data.DataLoader(batches, batch_size=None, num_workers=2))
    assert sorted(xs(found)) == list(range(ROWS))
    assert max(len(batch["x"]) for batch in found) == 64
    assert sum(len(batch["x"]) < 64 for batch in found) <= 2  # the last one of each worker


def test_a_slice(url: str) -> None:
    parts = [tfs.slice(url, "80%:"), tfs.slice(url, ":80%")]
    rest, most = (xs(iterable_dataset(part, columns=["x"], num_partitions=3)) for part in parts)
    assert most + rest == list(range(ROWS))
    assert len(most) == ROWS * 8 // 10


def test_workers_read_s3(s3: Place) -> None:
    write(s3.url("train"), storage_options=s3.storage_options)
    dataset = iterable_dataset(
        s3.url("train"), columns=["x"], num_partitions=4, storage_options=s3.storage_options
    )
    loader = torch_data.DataLoader(dataset.with_format("torch"), batch_size=64, num_workers=2)
    assert sorted(xs(loader)) == list(range(ROWS))


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_have_each_row_once(url: str, world: int, workers: int) -> None:
    """By shards where they divide among the ranks, row by row where they do not."""
    dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format("torch")
    ranks = [split_dataset_by_node(dataset, rank, world) for rank in range(world)]
    found = [xs(torch_data.DataLoader(rank, batch_size=50, num_workers=workers)) for rank in ranks]
    assert all(found)
    assert sorted(itertools.chain(*found)) == list(range(ROWS))
    if SHARDS % world == 0:
        assert {rank.num_shards for rank in ranks} == {SHARDS // world}


FORMATS = [None, "torch", "numpy"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("taken", [0, 1, 99, 170, 500, ROWS - 1, ROWS])
def test_a_state_goes_on_with_the_next_row(url: str, taken: int, kind: str | None) -> None:
    def new() -> Any:
        return iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format(kind)

    dataset = new()
    rows = iter(dataset)
    before = xs(itertools.islice(rows, taken))
    state = pickle.loads(pickle.dumps(dataset.state_dict()))
    other = new()
    other.load_state_dict(state)
    assert before + xs(other) == list(range(ROWS))


def test_a_state_of_batches_of_tables(url: str) -> None:
    dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format("arrow")
    batches = dataset.iter(batch_size=30)
    before = [x for _ in range(11) for x in next(batches)["x"].to_pylist()]
    state = dataset.state_dict()
    other = iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format("arrow")
    other.load_state_dict(state)
    rest = [x for table in other.iter(batch_size=30) for x in table["x"].to_pylist()]
    assert before + rest == list(range(ROWS))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on(url: str, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def new() -> Any:
        dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS).with_format("torch")
        return stateful.StatefulDataLoader(dataset, batch_size=10, num_workers=workers)

    loader = new()
    batches = iter(loader)
    before = xs(itertools.islice(batches, 40))
    state = loader.state_dict()
    other = new()
    other.load_state_dict(state)
    rest = xs(other)
    assert sorted(before + rest) == list(range(ROWS))


def test_shuffling(url: str) -> None:
    dataset = iterable_dataset(url, columns=["x"], num_partitions=SHARDS)
    found = xs(dataset.shuffle(seed=1, buffer_size=200))
    assert sorted(found) == list(range(ROWS))
    assert found == xs(dataset.shuffle(seed=1, buffer_size=200))
    assert found != xs(dataset.shuffle(seed=2, buffer_size=200))
    shuffled = dataset.shuffle(seed=1, buffer_size=200)
    shuffled.set_epoch(1)
    assert sorted(xs(shuffled)) == list(range(ROWS))
    assert xs(shuffled) != found


def test_map_filter_take_and_skip(url: str) -> None:
    dataset = iterable_dataset(url, num_partitions=SHARDS)
    mapped = dataset.map(lambda rows: {"y": [x * 2 for x in rows["x"]]}, batched=True)
    assert [row["y"] for row in mapped] == [2 * x for x in range(ROWS)]
    assert xs(dataset.filter(lambda row: row["x"] % 5 == 0)) == list(range(0, ROWS, 5))
    assert xs(dataset.skip(700).take(20)) == list(range(700, 720))
    assert [row["name"] for row in dataset.take(8)] == [
        None if i % 7 == 0 else f"é{i}" for i in range(8)
    ]


def test_records_without_a_schema_are_bytes(tmp_path: Path) -> None:
    records = [b"%d" % i * 100 for i in range(50)] + [b"", b"\xff"]
    (tmp_path / "a").write_bytes(framed(records[:30]))
    (tmp_path / "b").write_bytes(framed(records[30:]))
    dataset = iterable_dataset([tmp_path / "a", tmp_path / "b"])
    assert dataset.num_shards == 2
    assert dataset.features == datasets.Features({"record": datasets.Value("binary")})
    assert [row["record"] for row in dataset] == records
    with pytest.raises(ValueError, match=r"columns=.* pass schema="):
        iterable_dataset(tmp_path / "a", columns=["x"])


def test_no_records(tmp_path: Path) -> None:
    tfs.write_table({"x": np.arange(0), "y": np.array([], "S1")}, f"{tmp_path}/train")
    dataset = iterable_dataset(f"{tmp_path}/train")
    assert list(dataset) == []
    assert list(dataset.features) == ["x", "y"]
    assert list(torch_data.DataLoader(dataset.with_format("torch"), num_workers=2)) == []
    (tmp_path / "empty").write_bytes(b"")
    assert list(iterable_dataset(tmp_path / "empty")) == []


def test_fewer_shards_than_workers(tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, f"{tmp_path}/train")
    dataset = iterable_dataset(f"{tmp_path}/train", num_partitions=8).with_format("torch")
    assert dataset.num_shards == 1
    assert xs(torch_data.DataLoader(dataset, num_workers=3)) == [1]


COLUMNS: dict[str, tuple[Any, Any, Any]] = {
    # what is written, what it is as a schema says, the feature
    "int8": (np.array([1, -2], np.int8), None, datasets.Value("int8")),
    "uint64": (
        np.array([1, 2**63], np.uint64),
        tfs.Feature("uint64", raw=True),
        datasets.Value("uint64"),
    ),
    "float16": (np.array([1, 2], np.float16), None, datasets.Value("float16")),
    "float64": (np.array([0.1, np.nan]), "float64", datasets.Value("float64")),
    "bool": (np.array([True, False]), None, datasets.Value("bool")),
    "str": (["a", "ü"], None, datasets.Value("string")),
    "bytes": ([b"a", b"\xff"], None, datasets.Value("binary")),
    "when": (np.array([1, 2], "M8[us]"), None, datasets.Value("timestamp[us]")),
    "how long": (np.array([1, 2], "m8[ms]"), None, datasets.Value("duration[ms]")),
    "vector": (np.ones((2, 3)), None, datasets.Sequence(datasets.Value("float32"), length=3)),
    "matrix": (np.ones((2, 3, 4), np.int32), None, datasets.Array2D((3, 4), "int32")),
    "halves": (np.ones((2, 3, 4), np.float16), None, datasets.Array2D((3, 4), "float16")),
    "floats": (np.ones((2, 3, 4), np.float32), None, datasets.Array2D((3, 4), "float32")),
    "doubles": (np.ones((2, 3, 4, 5)), None, datasets.Array3D((3, 4, 5), "float32")),
    "times": (np.ones((2, 3, 4), "M8[us]"), None, datasets.Array2D((3, 4), "timestamp[us]")),
    "video": (np.ones((2, 3, 4, 5), np.uint8), None, datasets.Array3D((3, 4, 5), "uint8")),
    "list": ([[1, 2], []], None, datasets.Sequence(datasets.Value("int64"))),
    "lists": (
        [[[1], []], [[2, 3]]],
        tfs.Feature("int64", (None, None)),
        datasets.Sequence(datasets.Sequence(datasets.Value("int64"))),
    ),
    "steps": (
        [[[1, 2], [3, 4]], []],
        tfs.Feature("int64", (None, 2), sequence=True),
        datasets.Sequence(datasets.Sequence(datasets.Value("int64"), length=2)),
    ),
    "nullable": ([1, None], None, datasets.Value("int64")),
    "class": (["dog", "cat"], tfs.Feature.class_label(["cat", "dog"]), datasets.ClassLabel),
    "classes": (
        [["dog"], ["cat", "dog"]],
        tfs.Feature.class_label(["cat", "dog"], shape=(None,)),
        datasets.Sequence(datasets.ClassLabel(names=["cat", "dog"])),
    ),
    "category": (pa.array(["a", "b"]).dictionary_encode(), None, datasets.Value("string")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_features(tmp_path: Path, name: str) -> None:
    values, feature, expected = COLUMNS[name]
    schema = None if feature is None else {name: feature}
    table = pa.table({name: values}) if name == "category" else {name: values}
    tfs.write_table(table, f"{tmp_path}/t", schema=schema, num_shards=1)
    dataset = iterable_dataset(f"{tmp_path}/t")
    if name == "class":
        assert dataset.features[name].names == ["cat", "dog"]
    else:
        assert dataset.features == datasets.Features({name: expected})
    wanted = tfs.read_table(f"{tmp_path}/t").to_arrow()[name].to_pylist()
    assert Counter(map(repr, (row[name] for row in dataset))) == Counter(map(repr, wanted))
    (batch,) = dataset.with_format("arrow").iter(batch_size=10)
    assert batch.schema == dataset.features.arrow_schema


def test_images_become_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    files = []
    for shade in range(3):
        file = io.BytesIO()
        image.new("RGB", (4, 2), (shade, 0, 0)).save(file, "PNG")
        files.append(file.getvalue())
    schema = {"photo": tfs.Feature.image("png")}
    tfs.write_table({"photo": files}, f"{tmp_path}/t", schema=schema, num_shards=1)
    dataset = iterable_dataset(f"{tmp_path}/t")
    assert dataset.features == datasets.Features({"photo": datasets.Image()})
    assert [np.asarray(row["photo"])[0, 0, 0] for row in dataset] == [0, 1, 2]
    plain = iterable_dataset(f"{tmp_path}/t", {"photo": "bytes"})
    assert [row["photo"] for row in plain] == files


def test_arrays_have_their_shapes(tmp_path: Path) -> None:
    matrix = np.arange(24, dtype=np.int32).reshape(4, 2, 3)
    tfs.write_table({"m": matrix, "v": matrix[:, 0]}, f"{tmp_path}/t", num_shards=1)
    dataset = iterable_dataset(f"{tmp_path}/t")
    loader = torch_data.DataLoader(dataset.with_format("torch"), batch_size=4)
    (batch,) = loader
    np.testing.assert_array_equal(batch["m"], matrix)
    np.testing.assert_array_equal(batch["v"], matrix[:, 0])


def test_damage_that_a_worker_meets_names_the_file(tmp_path: Path) -> None:
    records = [tfs.encode_example({"x": i}) for i in range(10)]
    (tmp_path / "f").write_bytes(flipped(framed(records), -6))
    loader = torch_data.DataLoader(iterable_dataset(tmp_path / "f", {"x": "int64"}), num_workers=1)
    with pytest.raises(Exception, match=re.escape(f"{tmp_path}/f")):
        list(loader)


# The page


def test_the_page(tmp_path: Path) -> None:
    """The blocks of docs/hf.md as they stand."""
    table = {"text": [f"the text {i}" for i in range(2000)], "label": ["good", "bad"] * 1000}
    schema = {"label": tfs.Feature.class_label(["good", "bad"])}
    tfs.write_table(table, f"{tmp_path}/train", schema=schema, num_shards=8)
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks_of("docs/hf.md", "python")):
        block = block.replace("s3://bucket", str(tmp_path))
        exec(compile(block, f"docs/hf.md, block {number}", "exec"), names)
    assert names["dataset"].features["label"].names == ["good", "bad"]
    assert names["seen"] == 2000
    assert names["rows"] == 1000
    assert names["found"] == names["expected"]
    assert tfs.count(f"{tmp_path}/longer") == 1000
