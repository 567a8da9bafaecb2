"""The blocks of docs/workflows.md, run as they stand against an S3 server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers.place import Place

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow
TEXT = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## (\d+)\. .*?^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
SCREEN = 50


def images_and_labels(found: dict[str, Any]) -> None:
    images = np.concatenate([batch["image"] for batch in found["restored"]])
    labels = np.concatenate([batch["label"] for batch in found["restored"]])
    np.testing.assert_array_equal(images, found["images"])
    np.testing.assert_array_equal(labels, found["labels"])


def sequences(found: dict[str, Any]) -> None:
    assert found["padded"]["tokens"].numpy().tolist() == [[5, 3, 8], [0, 0, 0], [7, 0, 0]]
    assert found["padded"]["label"].numpy().tolist() == [1, 0, 1]
    assert found["texts"] == ["drei Wörter hier", "", "слово"]


def preprocessing(found: dict[str, Any]) -> None:
    assert found["shapes"] == [(8, 32, 32, 3), (8, 32, 32, 3), (4, 32, 32, 3)]
    rows = {
        int(label): image
        for batch in found["dataset"]
        for label, image in zip(batch["label"], batch["image"], strict=True)
    }
    for label, picture in enumerate(found["pictures"]):
        wanted = found["features"](picture, label)["image"]
        np.testing.assert_array_equal(rows[label], wanted)


def vectors(found: dict[str, Any]) -> None:
    np.testing.assert_array_equal(found["restored"], found["vectors"])


def raw_pixels(found: dict[str, Any]) -> None:
    assert len(found["restored"]) == 50
    for i, (image, label, exposure) in enumerate(found["restored"]):
        np.testing.assert_array_equal(image, found["images"][i])
        assert label == i % 5
        np.testing.assert_array_equal(exposure, np.float32([0.1 * i, 2.8]))  # type: ignore[arg-type]


def pipeline(found: dict[str, Any]) -> None:
    assert [batch.shape for batch, _ in found["batches"]] == [
        (16, 32, 32, 3),
        (16, 32, 32, 3),
        (8, 32, 32, 3),
    ]
    labels = np.concatenate([labels for _, labels in found["batches"]])
    assert np.bincount(labels).tolist() == [14, 13, 13]
    again = np.concatenate([labels for _, labels in found["dataset"]])
    assert labels.tolist() != again.tolist(), "not shuffled anew"


def rows_and_files(found: dict[str, Any]) -> None:
    frame, rows = found["frame"], sorted(found["restored"], key=lambda row: row["file"])
    assert [row["file"].decode() for row in rows] == frame["file"].tolist()
    assert [row["age"] for row in rows] == frame["age"].tolist()
    assert [row["height"] for row in rows] == frame["height"].astype("f4").tolist()
    assert [row["image"].tolist() for row in rows] == [
        np.full((8, 8, 3), 40 * i).tolist() for i in range(6)
    ]


def batched_features(found: dict[str, Any]) -> None:
    users = np.concatenate([features["user"] for features, _ in found["batches"]])
    paid = np.concatenate([labels for _, labels in found["batches"]])
    assert sorted(users.tolist()) == list(range(90))
    np.testing.assert_array_equal(paid, np.float32(users / 10))
    clicks = tf.sparse.to_dense(found["batches"][0][0]["clicks"], default_value=-1).numpy()
    for user, row in zip(users, clicks, strict=False):
        assert [click for click in row if click >= 0] == [user] * (user % 4)


def training(found: dict[str, Any]) -> None:
    assert found["history"].history["binary_accuracy"][-1] > 0.9
    assert found["losses"][-1] < 0.3


def other_workers(found: dict[str, Any]) -> None:
    assert found["steps"] == {2400}
    assert len(found["seen"]) == len(set(found["seen"])) == 10_000


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "1": images_and_labels,
    "2": sequences,
    "3": preprocessing,
    "4": vectors,
    "5": raw_pixels,
    "6": pipeline,
    "7": rows_and_files,
    "8": batched_features,
    "9": training,
    "10": other_workers,
}


def test_there_are_ten() -> None:
    assert BLOCKS.keys() == CHECKS.keys()


@pytest.mark.parametrize("number", CHECKS)
def test_it_fits_on_a_screen(number: str) -> None:
    assert BLOCKS[number].count("\n") <= SCREEN


@pytest.mark.parametrize("number", CHECKS)
def test_it_works_as_written(number: str, bucket: Place) -> None:
    found: dict[str, Any] = {}
    block = re.sub(r"\bbucket(?=/)", bucket.root.removeprefix("s3://"), BLOCKS[number])
    exec(compile(block, f"docs/workflows.md, {number}", "exec"), found)
    CHECKS[number](found)
