"""Encoded images to pixels, compared with what Pillow gives."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs

simplejpeg = pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")
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


@settings(max_examples=300, deadline=None)
@given(
    mode=st.sampled_from(["RGB", "L", "CMYK"]),
    size=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    changes=st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 900),
)
def test_the_size_by_our_header_is_libjpegs(
    mode: str, size: tuple[int, int], changes: list[tuple[int, int]], cut: int
) -> None:
    """In what is whole, and in what is damaged so that libjpeg reads a header all the same."""
    jpeg_size = pytest.importorskip("tfio_store.example._resize").jpeg_size
    data = bytearray(encoded("jpeg", mode, size))
    for at, value in changes:
        data[at % len(data)] = value
    data = data[: len(data) - cut if changes else len(data)]
    found = jpeg_size(data)
    try:
        height, width, colors, _ = simplejpeg.decode_jpeg_header(bytes(data))
    except ValueError:
        return
    if not changes:
        components = {"Gray": 1, "CMYK": 4, "YCCK": 4}.get(colors, 3)
        assert found == (height, width, components)
    elif found is not None and found[2] in (1, 3):
        assert found[:2] == (height, width)
        assert colors not in ("CMYK", "YCCK")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_buffer_is_filled(count: int, threads: int) -> None:
    out = np.empty((count, 8, 9, 3), np.uint8)
    batch = [encoded("jpeg")] * count
    assert image.decode(batch, size=(8, 9), out=out, threads=threads, crop="center") is out
    with pytest.raises(ValueError, match="must have the shape"):
        image.decode([*batch, b""], size=(8, 9), out=out)


def test_a_buffer_that_cannot_be_filled() -> None:
    batch, wide = [encoded("jpeg")] * 2, np.zeros((2, 8, 18, 3), np.uint8)
    fixed = np.zeros((2, 8, 9, 3), np.uint8)
    fixed.flags.writeable = False
    for out in (wide[:, :, ::2], np.zeros((2, 8, 9, 3), np.uint8, order="F"), fixed):
        with pytest.raises(ValueError, match=r"contiguous.* and writeable"):
            image.decode(batch, size=(8, 9), out=out)
    others: list[Any] = [fixed.astype(np.int8), fixed.astype(np.float32), fixed.tolist(), b""]
    for other in others:
        with pytest.raises(TypeError, match="out= takes an array of uint8"):
            image.decode(batch, size=(8, 9), out=other)


def test_one_image_is_no_batch() -> None:
    with pytest.raises(TypeError, match="batch takes a list of images, not one"):
        image.decode(encoded("jpeg"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_cut_image_is_an_error_or_zeros(kind: str) -> None:
    good = encoded(kind)
    for stop in (0, 1, 13, 30, len(good) // 2):
        with pytest.raises(tfs.CorruptRecordError, match="image 1 of the batch"):
            image.decode([good, good[:stop]], size=(8, 8))
        with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged image skipped"):
            found = image.decode([good, good[:stop]], size=(8, 8), on_corrupt="skip")
        assert found[0].any()
        assert not found[1].any()


def test_too_many_pixels_are_refused() -> None:
    good = bytearray(encoded("png"))
    good[16:24] = (30_000).to_bytes(4, "big") * 2
    for data in (bytes(good), encoded("jpeg"), encoded("webp")):
        with pytest.raises(tfs.CorruptRecordError):
            image.decode([data], max_pixels=100)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_a_size_is_what_pillow_makes_of_the_whole(mode: Any, monkeypatch: Any) -> None:
    """Also where the compiled resizing is not built, and where nothing is resized."""
    photo = encoded("jpeg", size=(160, 120))
    for size in ((120, 160), (60, 80), (61, 80), (59, 99), (14, 20), (300, 200), (1, 1)):
        for crop in (None, "center"):
            found = image.decode([photo], size=size, mode=mode, crop=crop)[0]
            with monkeypatch.context() as patch:
                patch.setattr(image, "_resize", None)
                plain = image.decode([photo], size=size, mode=mode, crop=crop)[0]
            assert np.abs(found.astype(int) - plain).max() <= 1
            if crop is None:
                whole = by_pillow(photo, mode, size).astype(int)
                assert np.abs(found.astype(int) - whole).mean() < 3
    whole = image.decode([photo], mode=mode)[0]
    assert np.array_equal(image.decode([photo], size=(120, 160), mode=mode)[0], whole)


def test_very_long_images() -> None:
    """A pixel stands for more than the compiled resizing takes."""
    for size in ((3000, 2), (2, 3000)):
        found = image.decode([encoded("jpeg", size=size)], size=(2, 2))
        assert found.shape == (1, 2, 2, 3)


def jpeg_of_scans(count: int) -> bytes:
    """Some hundred bytes for each scan, for which the whole picture is walked."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "jpeg", progressive=True)
    data = file.getvalue()
    scan = data.rindex(b"\xff\xda")
    return data[:scan] + data[scan:-2] * count + data[-2:]


def test_a_jpeg_of_many_scans_is_refused() -> None:
    with pytest.raises(tfs.CorruptRecordError, match="more than 500 scans"):
        image.decode([jpeg_of_scans(600)], size=(8, 8))
    assert image.decode([jpeg_of_scans(1)], size=(8, 8))[0, 4, 4].tolist() == [254, 0, 0]


def test_a_jpeg_of_many_scans_is_refused_before_it_is_decoded_in_place() -> None:
    place = np.empty((64, 64, 3), np.uint8)
    with pytest.raises(ValueError, match="more than 500 scans"):
        image.decode_into([jpeg_of_scans(600)], [place], fast=True, threads=1)
    assert image.decode_into([jpeg_of_scans(1)], [place], fast=True, threads=1)


def test_a_jpeg_of_many_scans_is_refused_in_columns_of_images() -> None:
    schema = {"photo": tfs.Feature.image()}
    for count in (1, 600):
        record = tfs.encode_example({"photo": jpeg_of_scans(count)})
        if count == 1:
            (found,) = tfs.decode_examples([record], schema, decode_images=True)["photo"]
            assert found.shape == (64, 64, 3)
        else:
            with pytest.raises(tfs.SchemaError, match="more than 500 scans"):
                tfs.decode_examples([record], schema, decode_images=True)


def test_of_16_bits_the_upper_8_are_taken() -> None:
    file = io.BytesIO()
    values = np.array([[0, 255, 256], [4660, 65280, 65535]], np.uint16)
    Image.fromarray(values).save(file, "png")
    (found,) = image.decode([file.getvalue()], mode="L")
    assert found[:, :, 0].tolist() == [[0, 0, 1], [18, 255, 255]]


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_the_first_picture_of_an_animation_is_taken(kind: str) -> None:
    file = io.BytesIO()
    red, blue = (Image.new("RGB", (8, 8), color) for color in ("red", "blue"))
    red.save(file, kind, save_all=True, append_images=[blue], lossless=True)
    (found,) = image.decode([file.getvalue()])
    assert found[4, 4].tolist() == [255, 0, 0]


def test_orientation_is_not_heeded() -> None:
    file, turned = io.BytesIO(), Image.Exif()
    turned[0x0112] = 6  # a quarter to the right
    Image.new("RGB", (30, 20)).save(file, "jpeg", exif=turned)
    assert image.decode([file.getvalue()])[0].shape == (20, 30, 3)


def test_images_of_their_own_sizes() -> None:
    sizes = [(10, 20), (30, 5), (1, 1)]
    found = image.decode([encoded("jpeg", size=size) for size in sizes])
    assert [array.shape for array in found] == [(high, wide, 3) for wide, high in sizes]


def test_a_crop_is_the_middle() -> None:
    file = io.BytesIO()
    stripes = np.zeros((20, 60, 3), np.uint8)
    stripes[:, 20:40] = 255
    Image.fromarray(stripes).save(file, "png")
    assert image.decode([file.getvalue()], size=(20, 20), crop="center")[0].all()
    assert not image.decode([file.getvalue()], size=(20, 20))[0].all()


@pytest.mark.parametrize("threads", [1, 4])
def test_each_image_is_in_its_place(threads: int) -> None:
    grey = [io.BytesIO() for _ in range(40)]
    for value, file in enumerate(grey):
        Image.new("L", (9, 9), value).save(file, "png")
    batch = [file.getvalue() for file in grey]
    found = image.decode(batch, size=(3, 3), mode="L", threads=threads)
    assert found[:, 1, 1, 0].tolist() == list(range(40))


@settings(max_examples=200)
@given(st.sampled_from(["jpeg", "png", "webp", "gif"]), st.data())
def test_flipped_bits_are_an_error_or_pixels(kind: str, data: Any) -> None:
    damaged = bytearray(encoded(kind, size=(20, 16)))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
        damaged[bit >> 3] ^= 1 << (bit & 7)
    try:
        found = image.decode([bytes(damaged)], size=(8, 8), max_pixels=1 << 20)
    except tfs.CorruptRecordError:
        return
    assert found.shape == (1, 8, 8, 3)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"size": (0, 5)}, ValueError, "size= takes"),
        ({"size": 224}, ValueError, "size= takes"),
        ({"crop": "center"}, ValueError, "needs size="),
        ({"mode": "BGR"}, ValueError, "mode= takes"),
        ({"threads": 0}, ValueError, "threads= takes"),
        ({"on_corrupt": "drop"}, ValueError, "on_corrupt= takes"),
        ({"max_pixels": 0}, ValueError, "max_pixels= takes"),
        ({"size": (2, 2), "out": np.zeros((1, 2, 2, 3))}, TypeError, "array of uint8"),
        ({"out": np.zeros((1, 2, 2, 3), np.uint8)}, ValueError, "needs size="),
    ],
)
def test_wrong_arguments(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        image.decode([encoded("png")], **options)


@pytest.mark.parametrize("encoding", ["png", "gif", "bmp", "jpeg"])
def test_only_max_pixels_bounds_an_image(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's own limit warns, and refuses twice as many; it is the whole process's. Of WebP
    its plugin asks it too."""
    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, encoding)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert image.decode([file.getvalue()], max_pixels=1200)[0].shape == (30, 40, 3)
        assert image.decode([file.getvalue()], size=(3, 4), max_pixels=1200).shape == (1, 3, 4, 3)
    with pytest.raises(tfs.CorruptRecordError, match="over max_pixels=1199"):
        image.decode([file.getvalue()], max_pixels=1199)
