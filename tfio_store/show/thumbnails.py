"""Small pictures of encoded images, by Pillow where it is installed, and of raw pixels always."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.show.columns import is_pixels
from tfio_store.tables.media_types import image_size, is_image, media_type, visible

# Raw pixels: byte strings of a known height and width, without a header that says so.


_HEIGHT = ("height", "h", "rows", "image/height", "img_h")
_WIDTH = ("width", "w", "cols", "image/width", "img_w")
_DEPTH = ("depth", "channels", "channel", "c", "image/channels", "image/depth")


def pixel_shape(
    nbytes: int, feature: Feature | None, beside: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The shape of a byte string of pixels: by the schema, or by single integers that stand
    ``beside`` it, by their names in lower case. None if nothing says that it holds any."""
    if feature is not None and is_pixels(feature):
        return tuple(dim for dim in feature.shape if dim is not None)
    height, width, depth = (_first(beside, names) for names in (_HEIGHT, _WIDTH, _DEPTH))
    if not height or not width or height < 0 or width < 0:
        return None
    for channels in (depth,) if depth else (1, 3, 4):
        if 1 <= channels <= 4 and height * width * channels == nbytes:
            return height, width, channels
    return None


def _first(found: Mapping[str, int], names: Iterable[str]) -> int | None:
    return next((found[name] for name in names if name in found), None)


# Small pictures of images: by Pillow where it is installed, and of raw pixels always.
#
# Bytes are hostile: the size is known and held against a limit before anything is decoded, and
# whatever Pillow raises is an answer.


_SIDE = 192
"""Pixels of a thumbnail's longer side, at most."""

_MOST_PIXELS = 64_000_000
_TOO_MANY_PIXELS = "it has too many pixels"
_MOST_SCANS = 64
"""Scans of a JPEG: each takes as long as it has pixels, and a few bytes. Progressive ones have
ten."""

_AS_IT_IS = 12 << 10
"""Files of so few bytes, which are not larger than a thumbnail, are shown as they are."""

_WITHOUT_PILLOW = 48 << 10
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
_MODES = ("L", "LA", "RGB", "RGBA")
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


@dataclass(frozen=True, slots=True)
class Look:
    """The look of an image. ``data`` is a file to show, of ``media_type``; empty if there is none
    to show. ``width``, ``height`` and ``mode`` are those of the image itself, 0 and "" if they are
    unknown. ``broken`` says why it can't be decoded."""

    data: bytes = b""
    media_type: str = ""
    width: int = 0
    height: int = 0
    mode: str = ""
    blank: bool = False
    """Whether all pixels are of one colour."""
    shortened: bool = False
    broken: str = ""
    passed_over: str = ""
    """Why it was not looked at."""


def _too_much(data: bytes, width: int, height: int) -> str:
    """Why an image of this size is not decoded. Empty if nothing speaks against it."""
    if width * height > _MOST_PIXELS:
        return _TOO_MANY_PIXELS
    if data.startswith(b"\xff\xd8\xff") and data.count(b"\xff\xda") > _MOST_SCANS:
        return "it has too many scans"
    return ""


def look_at(data: bytes) -> Look:
    """Decode an image, and make a small picture of it."""
    found = media_type(data[:4096])
    if not is_image(found) or found is None:
        return Look(broken="it is no JPEG, PNG, GIF, BMP or WebP")
    try:
        import PIL.Image as pillow  # noqa: N813
    except ImportError:
        return _unseen(data, found)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a decompression bomb is one
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", message="Palette images|.*EXIF|.*iCCP|.*Truncated")
            with pillow.open(io.BytesIO(data), formats=_FORMATS) as image:
                return _decoded(image, data, found)
    except MemoryError:
        return Look(passed_over="it takes too much memory")
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        return Look(passed_over=_TOO_MANY_PIXELS)
    except Exception as error:  # damage makes Pillow raise errors of many kinds
        width, height = image_size(data) or (0, 0)
        return Look(width=width, height=height, broken=_reason(error))


def _reason(error: Exception) -> str:
    text = visible(f"{error}".split("\n", 1)[0])[:120]
    if "cannot identify image file" in text:
        return "its header is damaged or cut"
    return text or type(error).__name__


def _unseen(data: bytes, found: str) -> Look:
    """Without Pillow: small files are shown as they are."""
    size = image_size(data)
    if size is None:
        return Look(broken="its header is damaged or cut")
    width, height = size
    why = _too_much(data, width, height)
    if not why and len(data) > _WITHOUT_PILLOW:
        why = "Pillow is not installed"
    if why:
        return Look(width=width, height=height, passed_over=why)
    return Look(data, found, width, height)


def _decoded(image: Any, data: bytes, found: str) -> Look:
    width, height = (int(edge) for edge in image.size)
    mode = str(image.mode)
    why = _too_much(data, width, height)
    if why:
        return Look(width=width, height=height, mode=mode, passed_over=why)
    if found == "image/jpeg":
        image.draft(None, (_SIDE, _SIDE))  # libjpeg decodes an eighth as fast as it scales
    image.load()
    small = _plain(image)
    small.thumbnail((_SIDE, _SIDE))
    blank = all(least == most for least, most in _extrema(small))
    if len(data) <= _AS_IT_IS and max(width, height) <= _SIDE:
        return Look(data, found, width, height, mode, blank)
    shown, media = _encoded(small, found)
    return Look(shown, media, width, height, mode, blank, shortened=True)


def _plain(image: Any) -> Any:
    """The image in 8 bits of grey or RGB, with alpha if it has some."""
    if image.mode in _MODES:
        return image
    if image.mode.startswith(("I", "F")):
        pixels = np.asarray(image).astype(np.float64)
        least, most = float(pixels.min()), float(pixels.max())
        scaled = (pixels - least) * (255 / (most - least)) if most > least else pixels * 0
        return _from_array(scaled.astype(np.uint8))
    alpha = image.mode in ("P", "PA") and image.has_transparency_data
    return image.convert("RGBA" if alpha else "RGB")


def _from_array(pixels: npt.NDArray[np.uint8]) -> Any:
    import PIL.Image

    return PIL.Image.fromarray(pixels)


def _extrema(image: Any) -> list[tuple[int, int]]:
    found = image.getextrema()
    return [found] if isinstance(found[0], (int, float)) else list(found)


def _encoded(image: Any, found: str) -> tuple[bytes, str]:
    file = io.BytesIO()
    if image.mode in ("L", "RGB") and found in ("image/jpeg", "image/webp"):
        image.save(file, "JPEG", quality=80)
        return file.getvalue(), "image/jpeg"
    image.save(file, "PNG", optimize=True)
    if file.tell() > 2 * _AS_IT_IS and image.mode in ("L", "RGB"):
        file = io.BytesIO()
        image.save(file, "JPEG", quality=85)
        return file.getvalue(), "image/jpeg"
    return file.getvalue(), "image/png"


def look_at_pixels(data: bytes, shape: tuple[int, ...]) -> Look:
    """Raw bytes [h, w] or [h, w, 1 to 4] as a PNG. Of large ones every n-th pixel."""
    pixels = np.frombuffer(data, np.uint8)
    if pixels.size != int(np.prod(shape)) or not pixels.size:
        return Look(broken=f"it has {len(data):,} bytes, where {shape} pixels were said")
    table = pixels.reshape(*shape[:2], -1)
    step = max(1, -(-max(shape[:2]) // _SIDE))
    small = np.ascontiguousarray(table[::step, ::step])
    modes = dict(enumerate(_MODES, 1))
    blank = bool((table == table[0, 0]).all())
    height, width = shape[:2]
    mode = modes[table.shape[2]]
    return Look(png_of(small), "image/png", width, height, mode, blank, shortened=step > 1)


def png_of(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG file of pixels [h, w, 1 to 4], without Pillow."""
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(name: bytes, data: bytes) -> bytes:
    crc = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)
