"""Images, audio and text of records are hostile: only what a browser may have comes out."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.show import datasets
from tfio_store.show.facts import facts_of
from tfio_store.show.gallery import _cut_wav
from tfio_store.show.sample import open_source, take_sample
from tfio_store.show.thumbnails import look_at, look_at_pixels, png_of
from tfio_store.storage import Storage
from tfio_store.tables.media_types import excerpt, image_size, media_type, shown_value, visible

MP3 = b"\xff\xfb\x90\x00" + bytes(413)
"""A frame of 128 kbit/s at 44,100 Hz."""


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "image/png"),
        (b"GIF89a" + bytes(20), "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"fLaC\0", "audio/flac"),
        (b"OggS\0", "audio/ogg"),
        (b"ID3\x04", "audio/mpeg"),
        (MP3 + MP3, "audio/mpeg"),
        (MP3, None),
        (b"\xff\xfb\x90\x00" + bytes(2000), None),
        (b"BM is how this text begins, not an image", None),
        (b"RIFF\0\0\0\0AVI ", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
        (b"<html><script>alert(1)</script>", None),
        (b"%PDF-1.7", None),
        (b"", None),
    ],
)
def test_media_types(data: bytes, found: str | None) -> None:
    assert media_type(data) == found


@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    found = media_type(data)
    assert found is None or found.startswith(("image/", "audio/"))
    image_size(data)
    look = look_at(data)
    assert not look.data or media_type(look.data) == look.media_type
    text, _ = excerpt(data, 40)
    assert len(text) <= 40
    assert visible(text) == text


@given(st.text(max_size=300))
def test_texts_stay_texts(text: str) -> None:
    shown, short = excerpt(text.encode("utf-8", "surrogatepass"), 500)
    assert len(shown) <= 500
    for letter in "\u202a\u202b\u202d\u202e\u2066\u2067\u2069\x00\x07\x1b\x7f\u2028":
        assert letter not in shown
    if text.isprintable() and not short and text.isascii():
        assert shown == text


def test_bytes_that_are_no_text_are_hexadecimal() -> None:
    assert shown_value(b"\x89PNG") == "0x89504e47"
    assert shown_value(b"\xff" * 300, 20) == "0x" + "ff" * 8 + "…"
    assert shown_value("é".encode() * 300, 20) == "é" * 20 + "…"


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 4))
def test_pixels_become_a_png(height: int, width: int, channels: int) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)
    with pillow.open(io.BytesIO(png_of(pixels))) as image:
        assert np.asarray(image).reshape(pixels.shape).tolist() == pixels.tolist()
    look = look_at_pixels(pixels.tobytes(), pixels.shape)
    assert (look.width, look.height) == (width, height)


def test_a_small_image_is_shown_as_it_is() -> None:
    data = datasets.jpeg()
    look = look_at(data)
    assert look.data == data
    assert not look.shortened


def test_an_image_bomb_is_not_decoded() -> None:
    pytest.importorskip("PIL.Image")
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = (
        struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    )
    body = zlib.compress(bytes(1 << 20))
    rest = (
        struct.pack(">I", len(body))
        + b"IDAT"
        + body
        + struct.pack(">I", zlib.crc32(b"IDAT" + body))
    )
    look = look_at(b"\x89PNG\r\n\x1a\n" + chunk + rest)
    assert not look.data
    assert look.passed_over or look.broken


@pytest.mark.parametrize("cut", [10, 30, 100, 600])
def test_a_cut_image_is_broken(cut: int) -> None:
    pytest.importorskip("PIL.Image")
    for data in (datasets.jpeg(), datasets.png(200, 200)):
        look = look_at(data[:cut])
        assert look.broken
        assert not look.data


def test_without_pillow_small_images_are_shown_and_large_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    pillow.effect_noise((400, 400), 90).save(file, "PNG")
    path = str(tmp_path / "two")
    small = datasets.png()
    tfs.write_table({"image": [small, file.getvalue()]}, path, num_shards=1)
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    found = facts_of(take_sample(open_source(path, Storage())))
    (item,) = found.items
    assert (item.data, item.width, item.height) == (small, 48, 32)
    assert found.scope.left_out == ("1 image: Pillow is not installed",)


@pytest.mark.parametrize(
    "kind", ["PNG", "GIF", "BMP", "JPEG", "WEBP", "WEBP lossless", "WEBP alpha"]
)
def test_headers_tell_the_sizes_of_images(kind: str) -> None:
    pillow = pytest.importorskip("PIL.Image")
    name, *how = kind.split()
    file = io.BytesIO()
    image = pillow.new(
        "RGBA" if "alpha" in how else "RGB", (301, 202), (1, 2, 3, 9)[: 3 + ("alpha" in how)]
    )
    exif = {"exif": bytes(5000)} if name == "JPEG" else {}
    image.save(file, name, **({"lossless": True} if "lossless" in how else {}), **exif)
    assert image_size(file.getvalue()) == (301, 202)


def test_a_gif_is_as_large_as_its_first_picture() -> None:
    screen = b"GIF89a" + struct.pack("<HHBBB", 3, 2, 0x80, 0, 0) + bytes(6)
    comment = b"\x21\xfe\x02hi\x00"
    data = screen + comment + b"\x2c" + struct.pack("<HHHHB", 0, 0, 60_000, 50_000, 0)
    assert image_size(data) == (60_000, 50_000)
    assert image_size(data[:20]) == (3, 2)


@pytest.mark.parametrize("with_pillow", [True, False])
def test_a_report_never_holds_an_image_of_too_many_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_pillow: bool
) -> None:
    pytest.importorskip("PIL.Image")
    bombs = [datasets.bomb(20_000, 15_000), datasets.scans(100)]
    assert max(map(len, bombs)) < 48 << 10
    path = str(tmp_path / "bombs")
    tfs.write_table({"image": bombs}, path, num_shards=1)
    if not with_pillow:
        monkeypatch.setitem(sys.modules, "PIL", None)
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    found = facts_of(take_sample(open_source(path, Storage())))
    assert not found.items
    why = ("1 image: it has too many pixels", "1 image: it has too many scans")
    assert sorted(found.scope.left_out) == list(why)


def test_a_cut_wav_says_how_long_it_is() -> None:
    import wave

    data = datasets.wav(60)
    assert len(data) > 300_000
    with wave.open(io.BytesIO(_cut_wav(data))) as cut:
        assert len(cut.readframes(10**6)) == 2 * cut.getnframes()


def test_long_audio_is_cut(tmp_path: Path) -> None:
    path = str(tmp_path / "long")
    tfs.write_table({"audio": [datasets.wav(60), datasets.wav()]}, path, num_shards=1)
    items = facts_of(take_sample(open_source(path, Storage()))).items
    assert [item.shortened for item in items] == [True, False]
    assert max(len(item.data) for item in items) == 256 << 10
