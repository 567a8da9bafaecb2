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
from tfio_store.torch import TFRecordIterable, TFRecordMap  # noqa: E402

SCHEMA = {"image": "bytes", "x": "int64"}


def written(path: Path, damaged: int = -1) -> str:
    url = str(path / "train")
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
