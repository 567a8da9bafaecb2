"""The meaning of a feature's values: classes and images, and pixels to and from encoded images."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "ClassLabel",
    "Image",
    "Kind",
    "check_scans",
    "class_label",
    "decoded_image",
    "encode_image",
    "encoding_of",
    "kind_from_json",
    "kind_to_json",
]

_SHOWN = 10

_SIGNATURES = {
    "jpeg": (b"\xff\xd8\xff", 0, b""),
    "png": (b"\x89PNG\r\n\x1a\n", 0, b""),
    "gif": (b"GIF8", 0, b""),
    "bmp": (b"BM", 0, b""),
    "webp": (b"RIFF", 8, b"WEBP"),
}
"""The first bytes of a file, and other bytes at an offset."""


@dataclass(frozen=True, slots=True, repr=False)
class ClassLabel:
    """A number from 0 on, which counts the names of classes."""

    names: tuple[str, ...]

    def __repr__(self) -> str:
        """The first names, if there are many."""
        shown = ", ".join(map(repr, self.names[:_SHOWN]))
        more = f", … ({len(self.names)} names)" if len(self.names) > _SHOWN else ""
        return f"ClassLabel({shown}{more})"


def class_label(names: object) -> ClassLabel:
    """Names that a user or a file gives. TypeError or ValueError for what is none."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"names must be a list of str, got {names!r}")
    found = tuple(names)
    odd = [name for name in found if not isinstance(name, str)]
    if odd:
        raise TypeError(f"names must be str, got {odd[0]!r}")
    twice = len(found) - len(set(found))
    if not found or twice:
        raise ValueError(f"names must be given, and differ; {twice} of them are there twice")
    return ClassLabel(found)


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded image. The encoding is None where images may have any known one."""

    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None and self.encoding not in _SIGNATURES:
            known = ", ".join(map(repr, _SIGNATURES))
            raise ValueError(f"encoding must be None or one of {known}, got {self.encoding!r}")

    def takes(self, data: bytes) -> bool:
        """Whether the data begin as a file of the encoding does."""
        return self.encoding in (encoding_of(data), None) and encoding_of(data) is not None


def encoding_of(data: bytes) -> str | None:
    """The encoding whose signature an image has; None for an unknown one."""
    for encoding, (first, offset, other) in _SIGNATURES.items():
        if data.startswith(first) and data.startswith(other, offset):
            return encoding
    return None


_MOST_SCANS = 500
"""A JPEG of many scans takes as long as so many images. libjpeg-turbo's own limit, where it is
asked for one."""


def check_scans(data: bytes) -> None:
    """ValueError for a JPEG of too many scans. To ask before it is decoded."""
    if data.count(b"\xff\xda") > _MOST_SCANS:
        raise ValueError(f"is a JPEG of more than {_MOST_SCANS} scans")


Kind = ClassLabel | Image


def kind_to_json(kind: Kind) -> dict[str, Any]:
    """A kind as JSON can hold it."""
    if isinstance(kind, ClassLabel):
        return {"class_label": {"names": list(kind.names)}}
    return {"image": {"encoding": kind.encoding}}


def kind_from_json(value: Mapping[str, Any] | None) -> Kind | None:
    """The kind. None for one that this version does not know: the values are as the dtype says."""
    if value is None:
        return None
    if "class_label" in value:
        return class_label(value["class_label"]["names"])
    return Image(value["image"]["encoding"]) if "image" in value else None


# Encoded images to pixels and back, by Pillow.


_MODES = ("L", "LA", "RGB", "RGBA")
_WITHOUT_ALPHA = ("jpeg", "bmp")
"""A BMP of 32 bits is read as RGB: its plain header does not say what the fourth byte is."""
_MOST_SIDE = {"jpeg": 65_500, "webp": 16_383, "gif": 65_535}
"""The widest and highest images of an encoding; libjpeg's limit is below that of the format."""


def encode_image(pixels: Any, encoding: str = "png", *, quality: int = 95) -> bytes:
    """Encode the pixels of an image, for a column of `Feature.image`. Needs Pillow.

    Args:
        pixels (uint8 array [h, w, c]): 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels.
        encoding (str): "png" (default), "webp", "bmp", "gif" or "jpeg". JPEG, WebP and GIF change
            the pixels. JPEG and BMP take no alpha.
        quality (int): Of "jpeg" and "webp", from 1 to 100. Default 95.

    Returns:
        bytes: The encoded image.

    Raises:
        ImportError: Pillow is not installed.
        TypeError: ``pixels`` are no array of uint8, or ``quality`` is no int.
        ValueError: Their shape or ``quality`` is another one, or the encoding is unknown or can't
            hold the channels or the size.

    Example:
        >>> import numpy as np
        >>> tfs.encode_image(np.zeros((2, 3, 3), np.uint8), "png")[:4]
        b'\\x89PNG'
    """
    Image(encoding)
    array = np.asarray(pixels)
    if array.dtype != np.uint8:
        raise TypeError(f"pixels must be an array of uint8, got {array.dtype}")
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4 or not array.size:
        raise ValueError(f"pixels must have the shape [h, w, 1 to 4], got {array.shape}")
    mode = _MODES[array.shape[2] - 1]
    _check_held(encoding, mode, array.shape, quality)
    flat = array[:, :, 0] if mode == "L" else array
    picture, file = _pillow().fromarray(np.ascontiguousarray(flat)), io.BytesIO()
    options = {"quality": int(quality)} if encoding in ("jpeg", "webp") else {}
    try:
        picture.save(file, encoding, **options)
    except OSError as error:
        raise ValueError(f"{encoding} can't hold {mode}: {error}") from None
    return file.getvalue()


def _check_held(encoding: str, mode: str, shape: tuple[int, ...], quality: Any) -> None:
    """TypeError or ValueError for what the encoding can't hold, and for a quality that is none."""
    if isinstance(quality, bool) or not isinstance(quality, (int, np.integer)):
        raise TypeError(f"quality must be an int, got {quality!r}")
    if not 1 <= quality <= 100:
        raise ValueError(f"quality must be from 1 to 100, got {quality}")
    if mode.endswith("A") and encoding in _WITHOUT_ALPHA:
        raise ValueError(f"{encoding} can't hold {mode}: it has no alpha; png and webp have")
    most = _MOST_SIDE.get(encoding)
    if most is not None and max(shape[:2]) > most:
        raise ValueError(
            f"{encoding} can't hold {shape[1]} x {shape[0]} pixels: it takes at most {most} pixels "
            "a side; png takes more"
        )


def decoded_image(data: bytes) -> npt.NDArray[Any]:
    """Pixels [h, w, c] of uint8; of uint16 where a grey image has 16 bits. ValueError for damaged
    data, and for a size over Pillow's MAX_IMAGE_PIXELS: it is known before anything is allocated.
    """
    encoding = encoding_of(data)
    if encoding is None:
        raise ValueError(f"begins with {data[:8]!r}, and is no image of an encoding that is known")
    if encoding == "jpeg":
        check_scans(data)
    pillow = _pillow()
    try:
        with pillow.open(io.BytesIO(data), formats=[encoding.upper()]) as picture:
            _check_size(picture.size, pillow.MAX_IMAGE_PIXELS)
            array = np.asarray(_of_known_mode(picture))
    except MemoryError:
        raise
    except pillow.UnidentifiedImageError:
        reason = "its header is damaged or cut, or Pillow was built without the encoding"
        raise ValueError(f"is no whole {encoding} image: {reason}") from None
    except Exception as error:  # damage makes Pillow raise errors of many kinds
        raise ValueError(f"is no whole {encoding} image: {error}") from error
    return array.reshape(*array.shape[:2], -1)


def _check_size(size: tuple[int, int], most: int | None) -> None:
    """Pillow itself only warns up to twice as many pixels."""
    if most is not None and size[0] * size[1] > most:
        raise ValueError(
            f"{size[0]} x {size[1]} pixels are over PIL.Image.MAX_IMAGE_PIXELS, {most}; raise it "
            "if the source is to be trusted"
        )


def _of_known_mode(picture: Any) -> Any:
    """The image in grey or RGB, with alpha if it has some. A palette becomes its colours."""
    if picture.mode in _MODES:
        return picture
    if picture.mode == "1":
        return picture.convert("L")
    if picture.mode.startswith("I"):
        return np.asarray(picture).astype(np.uint16)
    alpha = picture.mode in ("P", "PA") and picture.has_transparency_data
    return picture.convert("RGBA" if alpha else "RGB")


def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError as error:
        raise ImportError("Pillow is needed: pip install 'tfio_store[image]'") from error
    return PIL.Image
