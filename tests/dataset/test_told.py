"""What manifests tell of records comes with the dataset: it is read once, and of one generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.dataset.model import Told, common_told
from tfio_store.dataset.source import open_dataset
from tfio_store.storage import Storage
from tfio_store.storage.local import LocalStore

PIXELS = np.arange(6, dtype=np.uint8).reshape(3, 2)


@pytest.fixture
def train(tmp_path: Path) -> str:
    tfs.write_table({"pixels": PIXELS}, str(tmp_path / "train"), num_shards=1)
    return str(tmp_path / "train")


@pytest.fixture
def manifests_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that local stores are asked for, from now on."""
    asked: list[str] = []
    get: Callable[..., Any] = LocalStore.get

    def counted(store: LocalStore, path: str, **limits: Any) -> Any:
        found = get(store, path, **limits)
        if path.endswith(".manifest.json"):
            asked.append(path)
        return found

    monkeypatch.setattr(LocalStore, "get", counted)
    return asked


def test_sources_have_in_common_what_all_of_them_say() -> None:
    one, two = Told({"x": 1}, {"a": 1}, "g1"), Told({"x": 1}, {"a": 2}, "g2")
    assert common_told([]) == Told()
    assert common_told([one]) == one
    assert common_told([one, two]) == Told({"x": 1}, None, None)
    assert common_told([one, Told()]) == Told()


def test_a_list_has_the_schema_that_its_datasets_share(train: str, tmp_path: Path) -> None:
    tfs.write_table({"pixels": PIXELS}, str(tmp_path / "more"), num_shards=1)
    found = tfs.read_table([train, tmp_path / "more"])["pixels"]
    assert (found.dtype, found.shape) == (np.uint8, (6, 2))  # not the bytes that records hold


def test_a_list_of_unlike_datasets_has_none(train: str, tmp_path: Path) -> None:
    tfs.write_table({"pixels": PIXELS.astype(np.int32)}, str(tmp_path / "other"))
    tfs.write_table({"pixels": PIXELS}, str(tmp_path / "same"))
    (tmp_path / "a.tfrecord").touch()
    names = [train, str(tmp_path / "same")]
    assert open_dataset(names, Storage()).schema is not None
    assert open_dataset([*names, str(tmp_path / "other")], Storage()).schema is None
    assert open_dataset([*names, str(tmp_path / "a.tfrecord")], Storage()).schema is None


def test_parts_have_the_schema_of_the_whole(train: str) -> None:
    whole = tfs.infer_schema(train)
    part = tfs.slice(train, "1:")
    (partition,) = tfs.partitions(part)
    for source in (part, partition, tfs.slice(partition, ":1")):
        assert tfs.infer_schema(source) == whole
        assert tfs.read_table(source)["pixels"].dtype == np.uint8
    assert tfs.info(partition).generation == tfs.info(train).generation


@pytest.mark.parametrize(
    "call",
    [
        tfs.read_table,
        tfs.infer_schema,
        tfs.stats,
        tfs.info,
        tfs.partitions,
        lambda source: tfs.iter_tables(source).read_all(),
        lambda source: tfs.copy(source, f"{source}-copy"),
    ],
    ids=["read_table", "infer_schema", "stats", "info", "partitions", "iter_tables", "copy"],
)
def test_a_manifest_is_read_once(
    call: Callable[[str], object], train: str, manifests_read: list[str]
) -> None:
    call(train)
    assert [path for path in manifests_read if "copy" not in path] == [
        str(Path(train).parent / "_train.manifest.json")
    ]


def test_a_dataset_replaced_after_it_was_opened(train: str) -> None:
    tables = tfs.iter_tables(train)
    rows = {"pixels": np.ones((5, 2), np.float64)}
    tfs.write_table(rows, train, num_shards=1, if_exists="overwrite", keep_replaced=3600.0)
    assert tables.read_all()["pixels"].to_pylist() == PIXELS.tolist()
