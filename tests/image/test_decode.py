"""Encoded images to pixels, compared with what Pillow gives."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

from tfio_store import image  # noqa: E402


def encoded(kind: str, mode: str = "RGB", size: tuple[int, int] = (50, 40)) -> bytes:
    noise = np.random.default_rng(0).integers(0, 255, (5, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize(size).convert(mode).save(file, kind)
    return file.getvalue()


def by_pillow(data: bytes, mode: str, size: tuple[int, int] | None = None) -> Any:
    picture = Image.open(io.BytesIO(data)).convert(mode)
    if size:
        picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
    return np.asarray(picture).reshape(*picture.size[::-1], -1)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize("stored", ["RGB", "L", "RGBA", "P"])
def test_png_is_what_pillow_gives(stored: str, mode: Any) -> None:
    data = encoded("png", stored)
    (found,) = image.decode([data], mode=mode)
    assert np.array_equal(found, by_pillow(data, mode))
    found = image.decode([data], mode=mode, size=(16, 20))[0]
    assert np.array_equal(found, by_pillow(data, mode, (16, 20)))


@pytest.mark.parametrize("stored", ["RGB", "L", "CMYK"])
def test_jpeg_is_near_what_pillow_gives(stored: str) -> None:
    data = encoded("jpeg", stored)
    for size in (None, (16, 20), (80, 90)):
        found = image.decode([data], size=size)[0]
        apart = np.abs(found.astype(int) - by_pillow(data, "RGB", size).astype(int))
        assert apart.mean() < 6


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_buffer_is_filled(count: int, threads: int) -> None:
    out = np.empty((count, 8, 9, 3), np.uint8)
    batch = [encoded("jpeg")] * count
    assert image.decode(batch, size=(8, 9), out=out, threads=threads, crop="center") is out
    with pytest.raises(ValueError, match="must have the shape"):
        image.decode([*batch, b""], size=(8, 9), out=out)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_cut_image_is_an_error_or_zeros(kind: str) -> None:
    good = encoded(kind)
    for stop in (0, 1, 13, 30, len(good) // 2):
        with pytest.raises(tfs.CorruptRecordError, match="image 1 of the batch"):
            image.decode([good, good[:stop]], size=(8, 8))
        with pytest.warns(tfs.DataLossWarning, match="1 damaged image skipped"):
            found = image.decode([good, good[:stop]], size=(8, 8), on_corrupt="skip")
        assert found[0].any()
        assert not found[1].any()


def test_too_many_pixels_are_refused() -> None:
    good = bytearray(encoded("png"))
    good[16:24] = (30_000).to_bytes(4, "big") * 2
    for data in (bytes(good), encoded("jpeg"), encoded("webp")):
        with pytest.raises(tfs.CorruptRecordError):
            image.decode([data], max_pixels=100)
