"""Features of encoded images: their bytes, and their pixels."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store import Feature, Schema, SchemaError


def png(width: int, height: int) -> bytes:
    """A grey image, by the specification of PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    rows = b"".join(b"\0" + bytes(range(width)) for _ in range(min(height, 9)))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


PNG = png(3, 2)
PHOTO = Schema({"x": Feature.image("png")})


class TestWritingImages:
    def test_encoded_bytes(self) -> None:
        pa = pytest.importorskip("pyarrow", exc_type=ImportError)
        for column in ([PNG], np.array([PNG], object), pa.array([PNG])):
            batch = tfs.encode_examples({"x": column}, schema=PHOTO)
            assert tfs.decode_examples(batch, PHOTO)["x"].tolist() == [PNG]

    @pytest.mark.parametrize(
        ("column", "match"),
        [
            ([PNG, b"\xff\xd8\xff\xe0"], "row 1 begins with .*no image of the encoding png"),
            ([b""], "row 0 begins with b''"),
            (["text"], "row 0 begins with 'text'"),
            (np.zeros((1, 2, 3, 3), np.uint8), "row 0 is an array of uint8.*encode_image"),
            ([np.zeros((2, 3, 3), np.uint8)], "encode_image"),
        ],
    )
    def test_what_is_no_image(self, column: Any, match: str) -> None:
        with pytest.raises(ValueError, match=match):
            tfs.encode_examples({"x": column}, schema=PHOTO)

    @pytest.mark.parametrize("kind", [bytearray, memoryview, np.bytes_])
    def test_bytes_of_other_types(self, tmp_path: Path, kind: Any) -> None:
        rows = Schema({"x": Feature.image("png", shape=(None,))})
        for schema, value in ((PHOTO, kind(PNG)), (rows, [kind(PNG)])):
            url = str(tmp_path / f"of_{len(schema['x'].shape)}")
            with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
                writer.write({"x": value})
                writer.write_batch(tfs.encode_examples({"x": [value]}, schema=schema))
            assert tfs.read_table(url)["x"].tolist() == [PNG if schema is PHOTO else [PNG]] * 2

    def test_of_any_encoding(self) -> None:
        schema = Schema({"x": Feature.image()})
        tfs.encode_examples({"x": [PNG, b"\xff\xd8\xff\xe0", b"BM", b"GIF89a"]}, schema=schema)
        with pytest.raises(ValueError, match=r"row 1 .*an encoding that is known"):
            tfs.encode_examples({"x": [PNG, b"RIFF1234AVI "]}, schema=schema)

    def test_nulls_and_dicts(self, tmp_path: Path) -> None:
        schema = Schema({"x": Feature.image("png", nullable=True)})
        batch = tfs.encode_examples({"x": [PNG, None]}, schema=schema)
        assert tfs.decode_examples(batch, schema)["x"].tolist() == [PNG, None]
        with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, schema=schema) as writer:
            writer.write({"x": PNG})
            writer.write({})
            with pytest.raises(SchemaError, match="feature 'x' begins with b'GIF8'"):
                writer.write({"x": b"GIF8"})
            with pytest.raises(SchemaError, match="encode_image"):
                writer.write({"x": np.zeros((2, 3, 3), np.uint8)})
        assert tfs.read_table(str(tmp_path / "t"))["x"].tolist() == [PNG, None]


class TestPixels:
    @pytest.fixture(autouse=True)
    def _pillow(self) -> None:
        pytest.importorskip("PIL")

    @staticmethod
    def decoded(*images: bytes, **options: Any) -> Any:
        schema = Schema({"x": Feature.image()})
        records = tfs.encode_examples({"x": list(images)})
        return tfs.decode_examples(records, schema, decode_images=True, **options)["x"]

    @pytest.mark.parametrize("strings", ["object", "batch"])
    def test_pixels(self, strings: str) -> None:
        found = self.decoded(PNG, png(4, 1), strings=strings)
        assert [image.shape for image in found] == [(2, 3, 1), (1, 4, 1)]
        assert found[0][:, :, 0].tolist() == [[0, 1, 2]] * 2
        assert found[0].dtype == np.uint8

    @pytest.mark.parametrize("channels", [1, 2, 3, 4])
    def test_there_and_back(self, channels: int) -> None:
        image = np.arange(5 * 4 * channels, dtype=np.uint8).reshape(5, 4, channels)
        (found,) = self.decoded(tfs.encode_image(image, "png"))
        np.testing.assert_array_equal(found, image)

    @pytest.mark.parametrize("encoding", ["jpeg", "bmp", "gif", "webp"])
    def test_each_encoding(self, encoding: str) -> None:
        image = np.full((5, 4, 3), 128, np.uint8)
        data = tfs.encode_image(image, encoding)
        assert Feature.image(encoding).kind.takes(data)  # type: ignore[union-attr]
        (found,) = self.decoded(data)
        np.testing.assert_allclose(found.astype(int), image, atol=3)

    @pytest.mark.parametrize("mode", ["1", "P", "I;16", "CMYK"])
    def test_other_modes(self, mode: str) -> None:
        import PIL.Image

        file = io.BytesIO()
        if mode == "I;16":
            PIL.Image.fromarray(np.full((2, 3), 40_000, np.uint16)).save(file, "png")
        else:
            plain = PIL.Image.new("RGB", (3, 2), (255, 255, 255)).convert(mode)
            plain.save(file, "jpeg" if mode == "CMYK" else "png")
        (found,) = self.decoded(file.getvalue())
        channels, value, dtype = {
            "1": (1, 255, np.uint8),
            "P": (3, 255, np.uint8),
            "I;16": (1, 40_000, np.uint16),
            "CMYK": (3, 255, np.uint8),
        }[mode]
        assert found.shape == (2, 3, channels)
        assert found.dtype == dtype
        assert (found == value).all()

    @pytest.mark.tensorflow
    def test_as_tensorflow_decodes(self) -> None:
        import tensorflow as tf

        pixels = np.random.default_rng(0).integers(0, 255, (9, 7, 3), np.uint8)
        for encoding in ("png", "bmp"):
            data = tfs.encode_image(pixels, encoding)
            wanted = tf.io.decode_image(data).numpy()
            np.testing.assert_array_equal(self.decoded(data)[0], wanted)

    def test_nulls_and_rows(self) -> None:
        for shape, row in (((), PNG), ((None,), [PNG, PNG])):
            schema = Schema({"x": Feature.image("png", shape=shape, nullable=True)})
            records = [tfs.encode_example({"x": row}), tfs.encode_example({})]
            for strings in ("object", "batch"):
                found = tfs.decode_examples(
                    records,
                    schema,
                    strings=strings,
                    decode_images=True,
                )["x"]
                first, second = found.tolist()
                assert second is None
                assert np.shape(first) == ((2, 2, 3, 1) if shape else (2, 3, 1))

    def test_tables(self, tmp_path: Path) -> None:
        url = str(tmp_path / "train")
        tfs.write_table([{"x": [PNG]}, {"x": [png(5, 5)]}], url, schema=PHOTO)
        found = tfs.read_table(url, decode_images=True)
        assert [image.shape for image in found["x"]] == [(2, 3, 1), (5, 5, 1)]
        with pytest.raises(TypeError, match=r"feature 'x'.*decode_images"):
            found.to_arrow()

    @pytest.mark.parametrize(
        "damaged", [PNG[:-30], PNG[:20], PNG[:40] + b"\0" * 20, b"GIF89a", b""]
    )
    def test_damage_names_record_and_feature(self, damaged: bytes) -> None:
        with pytest.raises(SchemaError, match=r"record 1: feature 'x' (is no whole|begins with)"):
            self.decoded(PNG, damaged)

    def test_damage_is_told_without_addresses(self) -> None:
        for damaged in (b"GIF89a", PNG[:40] + b"\0" * 20):
            with pytest.raises(SchemaError, match=r"is no whole (gif|png) image: ") as caught:
                self.decoded(damaged)
            assert "0x" not in str(caught.value)

    @pytest.mark.filterwarnings("ignore:Image size")
    @pytest.mark.parametrize("factor", [1.5, 3])
    def test_hostile_sizes(self, factor: float) -> None:
        """Pillow warns up to twice its limit, and fails beyond."""
        import PIL.Image

        side = int((factor * (PIL.Image.MAX_IMAGE_PIXELS or 0)) ** 0.5)
        with pytest.raises(SchemaError, match=r"record 0.*(MAX_IMAGE_PIXELS|exceeds limit)"):
            self.decoded(png(1, 1).replace(png(1, 1)[8:33], png_header(side)))


def png_header(side: int) -> bytes:
    data = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return struct.pack(">I", 13) + data + struct.pack(">I", zlib.crc32(data))


class TestEncodeImage:
    def test_misfits(self) -> None:
        with pytest.raises(TypeError, match="uint8, got float64"):
            tfs.encode_image(np.zeros((2, 3, 3)))
        for shape in ((2, 3), (2, 3, 5), (0, 3, 3)):
            with pytest.raises(ValueError, match="shape"):
                tfs.encode_image(np.zeros(shape, np.uint8))
        with pytest.raises(ValueError, match="exe"):
            tfs.encode_image(np.zeros((2, 3, 3), np.uint8), "exe")

    @pytest.mark.parametrize("encoding", ["jpeg", "bmp"])
    @pytest.mark.parametrize(("channels", "mode"), [(2, "LA"), (4, "RGBA")])
    def test_channels_that_an_encoding_lacks(self, encoding: str, channels: int, mode: str) -> None:
        pytest.importorskip("PIL")
        with pytest.raises(ValueError, match=f"^{encoding} can't hold {mode}: .*no alpha"):
            tfs.encode_image(np.zeros((2, 3, channels), np.uint8), encoding)

    @pytest.mark.parametrize(
        ("encoding", "most"), [("jpeg", 65_500), ("webp", 16_383), ("gif", 65_535)]
    )
    def test_sizes_that_an_encoding_lacks(self, encoding: str, most: int) -> None:
        pytest.importorskip("PIL")
        for shape in ((1, most + 1, 3), (most + 1, 1, 3)):
            with pytest.raises(ValueError, match=f"^{encoding} .* at most {most} pixels a side"):
                tfs.encode_image(np.zeros(shape, np.uint8), encoding)
        assert tfs.encode_image(np.zeros((1, most, 3), np.uint8), encoding)

    @pytest.mark.parametrize("encoding", ["jpeg", "png"])
    def test_qualities(self, encoding: str) -> None:
        pytest.importorskip("PIL")
        pixels = np.zeros((2, 3, 3), np.uint8)
        for odd in (900, 0, -1):
            with pytest.raises(ValueError, match=f"^quality must be from 1 to 100, got {odd}"):
                tfs.encode_image(pixels, encoding, quality=odd)
        for other in ("x", None, 1.5, True):
            with pytest.raises(TypeError, match=f"^quality must be an int, got {other!r}"):
                tfs.encode_image(pixels, encoding, quality=other)  # type: ignore[arg-type]
        data = tfs.encode_image(pixels, encoding, quality=np.int64(3))
        assert data == tfs.encode_image(pixels, encoding, quality=3)

    def test_without_pillow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "PIL", None)
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
        with pytest.raises(ImportError, match=r"pip install 'tfio_store\[image\]'"):
            tfs.encode_image(np.zeros((2, 3, 3), np.uint8))
        records = tfs.encode_examples({"x": [PNG]})
        with pytest.raises(ImportError, match=r"pip install 'tfio_store\[image\]'"):
            tfs.decode_examples(records, PHOTO, decode_images=True)
