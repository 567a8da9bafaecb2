"""WebDatasets and folders of images become datasets that Keras trains on and PyTorch loads."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.cli.conftest import Run
from tests.cli.test_convert_samples import tar_of

IMAGES, SIDE, BATCH = 12, 8, 4


def color(n: int) -> tuple[int, int, int]:
    return n * 20, 255 * (n % 2), 7


def label(n: int) -> int:
    return n % 2


def png(n: int) -> bytes:
    image, made = pytest.importorskip("PIL.Image"), io.BytesIO()
    image.new("RGB", (SIDE, SIDE), color(n)).save(made, "png")
    return made.getvalue()


@dataclass
class Converted:
    """A dataset, and what it calls the pixels and the class."""

    url: str
    image: str
    label: str

    @property
    def schema(self) -> tfs.Schema:
        return tfs.Schema({self.image: tfs.Feature.image(), self.label: "int64"})


@pytest.fixture(params=["webdataset", "images"])
def converted(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Converted:
    target = str(tmp_path / "train")
    if request.param == "webdataset":
        members: dict[str, bytes] = {}
        for n in range(IMAGES):
            members |= {f"{n:03d}.png": png(n), f"{n:03d}.cls": b"%d" % label(n)}
        (tmp_path / "a.tar").write_bytes(tar_of(members))
        assert run("convert", tmp_path / "a.tar", target).code == 0
        return Converted(target, "png", "cls")
    for n in range(IMAGES):
        folder = tmp_path / "images" / ("cat", "dog")[label(n)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n:03d}.png").write_bytes(png(n))
    assert run("convert", tmp_path / "images", target, "--from", "images").code == 0
    return Converted(target, "image", "label")


def seen(images: Any, labels: Any) -> list[tuple[tuple[int, ...], int]]:
    """The color of each image and its class, in the order of colors."""
    found = []
    for pixels, number in zip(np.asarray(images), np.asarray(labels), strict=True):
        (one,) = {tuple(map(int, pixel)) for pixel in pixels.reshape(-1, 3)}
        found.append((one, int(number)))
    return sorted(found)


EXPECTED = sorted((color(n), label(n)) for n in range(IMAGES))


@pytest.mark.tensorflow
def test_keras_trains_on_it(converted: Converted) -> None:
    import tensorflow as tf

    def pixels(batch: Any) -> tuple[Any, Any]:
        def decoded(data: Any) -> Any:
            return tf.ensure_shape(tf.io.decode_png(data, 3), (SIDE, SIDE, 3))

        images = tf.map_fn(decoded, batch[converted.image], fn_output_signature=tf.uint8)
        return images, batch[converted.label]

    spec = converted.schema.feature_spec()
    dataset = tfs.TFRecordDataset(converted.url, schema=spec, batch_size=BATCH).map(pixels)
    batches = list(dataset.as_numpy_iterator())
    images, labels = (np.concatenate(part) for part in zip(*batches, strict=True))
    assert seen(images, labels) == EXPECTED
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((SIDE, SIDE, 3)),
            layers.Rescaling(1 / 255),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = model.get_weights()[0].copy()
    told = model.fit(dataset.repeat(), epochs=1, steps_per_epoch=1, verbose=0)
    assert np.isfinite(told.history["loss"]).all()
    assert np.abs(model.get_weights()[0] - before).max() > 0


def test_a_loader_of_pytorch_reads_it(converted: Converted) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def tensors(records: list[bytes]) -> tuple[Any, Any]:
        found = tfs.decode_examples(records, converted.schema, decode_images=True)
        images = torch.from_numpy(np.stack(list(found[converted.image])))
        return images, torch.from_numpy(np.array(found[converted.label]))

    source = tfs.RecordSource(converted.url)
    loader = torch.utils.data.DataLoader(source, batch_size=BATCH, shuffle=True, collate_fn=tensors)
    batches = list(loader)
    assert [len(labels) for _, labels in batches] == [BATCH] * (IMAGES // BATCH)
    images, labels = (torch.cat(part) for part in zip(*batches, strict=True))
    assert seen(images.numpy(), labels.numpy()) == EXPECTED
