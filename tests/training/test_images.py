"""Images that torch's classes decode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.image.test_decode import encoded  # noqa: E402
from tests.support.long import first  # noqa: E402
from tfio_store.torch import TFRecordIterable, TFRecordMap  # noqa: E402

SCHEMA = {"image": "bytes", "x": "int64"}


def dataset_url(path: Path) -> str:
    return str(path / "train")


def written(path: Path, damaged: int = -1) -> str:
    url = dataset_url(path)
    with tfs.ShardedWriter(url, num_shards=1, schema=SCHEMA) as writer:
        for x in range(10):
            writer.write({"image": encoded("jpeg")[: 99 if x == damaged else None], "x": x})
    return url


@pytest.mark.parametrize("kind", [TFRecordIterable, TFRecordMap])
def test_rows_and_transform(kind: Any, tmp_path: Path) -> None:
    dataset = kind(written(tmp_path), images={"image": (8, 9)}, transform=lambda row: row["image"])
    rows = list(dataset)
    assert [tuple(row.shape) for row in rows] == [(8, 9, 3)] * 10
    assert all(row.dtype == torch.uint8 for row in rows)


def test_batches_and_resume(tmp_path: Path) -> None:
    url = written(tmp_path)
    first = TFRecordIterable(url, batch_size=4, images={"image": (8, 9)})
    assert tuple(next(iter(first))["image"].shape) == (4, 8, 9, 3)
    again = TFRecordIterable(url, batch_size=4, images={"image": (8, 9)})
    again.load_state_dict(first.state_dict())
    assert [batch["x"].tolist() for batch in again] == [[4, 5, 6, 7], [8, 9]]


def test_a_damaged_image_is_met_again(tmp_path: Path) -> None:
    url = written(tmp_path, damaged=5)
    dataset = TFRecordIterable(url, batch_size=4, images={"image": (8, 9)})
    batches = iter(dataset)
    next(batches)
    for _ in range(2):
        with pytest.raises(tfs.CorruptRecordError, match="'image', record 1 of the batch"):
            next(batches)
    plain = TFRecordIterable(url, batch_size=4)
    plain.load_state_dict(dataset.state_dict())
    assert np.concatenate([batch["x"] for batch in plain]).tolist() == [4, 5, 6, 7, 8, 9]
    rows = iter(TFRecordIterable(url, images={"image": (8, 9)}))
    for _ in range(2):
        with pytest.raises(tfs.CorruptRecordError):
            next(rows)


@pytest.mark.parametrize("start", first(1, ["fork", "spawn"]))
def test_worker_processes(tmp_path: Path, start: str) -> None:
    dataset = TFRecordIterable(written(tmp_path), batch_size=2, images={"image": (8, 9)})
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=start
    )
    batches = list(loader)
    assert all(batch["image"].shape[1:] == (8, 9, 3) for batch in batches)
    assert sorted(x for batch in batches for x in batch["x"].tolist()) == list(range(10))
    rows = TFRecordMap(dataset_url(tmp_path), images={"image": {"size": (8, 9), "mode": "L"}})
    mapped = torch.utils.data.DataLoader(
        rows, batch_size=5, num_workers=1, multiprocessing_context=start
    )
    assert [tuple(batch["image"].shape) for batch in mapped] == [(5, 8, 9, 1)] * 2


def test_zeros_stand_for_a_damaged_image(tmp_path: Path) -> None:
    url = written(tmp_path, damaged=5)
    dataset = TFRecordIterable(url, batch_size=10, images={"image": (8, 9)}, on_corrupt="skip")
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged image skipped"):
        (batch,) = dataset
    assert [bool(image.any()) for image in batch["image"]] == [x != 5 for x in range(10)]
    assert batch["x"].tolist() == list(range(10))


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"images": {"none": (2, 2)}}, KeyError, "images= names 'none'"),
        ({"images": ["image"]}, TypeError, "images= takes a dict"),
        ({"images": {"image": None}}, ValueError, "in which size is given"),
        ({"images": {"image": (2, 2)}, "schema": "bytes"}, ValueError, "pass schema="),
        ({"transform": 3}, TypeError, "transform= takes a function"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    for dataset in (TFRecordIterable, TFRecordMap):
        with pytest.raises(kind, match=text):
            dataset(written(tmp_path / dataset.__name__), **options)
