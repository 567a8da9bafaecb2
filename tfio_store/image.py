"""Encoded images to arrays of pixels, many at once, on several threads. Needs
``tfio_store[images]``.

libjpeg-turbo decodes JPEG, and Pillow what else there is. Both let go of Python's lock meanwhile.
The caller's thread decodes, and those of the process that have time.
"""

from __future__ import annotations

import collections
import io
import math
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

try:
    import simplejpeg
    from PIL import (
        BmpImagePlugin,
        GifImagePlugin,
        Image,
        JpegImagePlugin,
        PngImagePlugin,
        WebPImagePlugin,
    )
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        f"tfio_store.image needs {_error.name}: pip install 'tfio_store[images]'", name=_error.name
    ) from _error

from tfio_store.errors import DataLossWarning, Reason
from tfio_store.example.feature import encoding_of
from tfio_store.example.kinds import SCAN, check_scans
from tfio_store.example.schema import Schema
from tfio_store.records.damage import damaged
from tfio_store.records.texts import unknown
from tfio_store.storage.cores import cores, workers

__all__ = ["decode", "pixels"]

Pixels: TypeAlias = "npt.NDArray[np.uint8]"
Mode = Literal["RGB", "L", "RGBA"]

_CHANNELS = {"RGB": 3, "L": 1, "RGBA": 4}
_COLORSPACES = {"RGB": "RGB", "L": "GRAY", "RGBA": "RGBA"}

_MOST_PIXELS = 100_000_000

_HEAD = 16
"""Bytes of an image that tell its encoding."""

_KEPT = 2 << 20
"""Bytes that a thread keeps for the next image. Of larger ones it keeps none."""


def _compiled() -> tuple[Any, Any, Any]:
    """The compiled resizing, what counts the scans of a JPEG, and what finds its size. None where
    Pillow, Python and libjpeg do it."""
    if os.environ.get("TFIO_STORE_CORE") == "pure":
        return None, None, None
    try:
        from tfio_store.example._resize import count_scans, jpeg_size, resize
    except ImportError:
        return None, None, None
    return resize, count_scans, jpeg_size


_resize, _count_scans, _jpeg_size = _compiled()

_GREY_OR_COLOR = (1, 3)
"""Components of a JPEG that libjpeg makes pixels of. Of four it does not."""


def decode(
    batch: Sequence[bytes],
    *,
    size: tuple[int, int] | None = None,
    crop: str | None = None,
    mode: Mode = "RGB",
    out: Pixels | None = None,
    threads: int | None = None,
    on_corrupt: str = "raise",
    max_pixels: int = _MOST_PIXELS,
    fast: bool = False,
) -> Any:
    """Decode JPEG, PNG, WebP, GIF and BMP into arrays of pixels.

    Resizing is bilinear over all the pixels that one pixel stands for, as Pillow's. A JPEG that is
    twice as large as ``size`` is made smaller while it is decoded, but never below ``size``.

    Of an animation, the first picture is taken. Of 16 bits, the upper 8 are taken. Alpha is left
    out, unless ``mode="RGBA"``. The orientation in EXIF is ignored. A JPEG counts as
    damaged as soon as libjpeg-turbo warns of it.

    Args:
        batch (list[bytes]): Encoded images.
        size (tuple[int, int] | None): Height and width to resize to. Default None: their own.
        crop (str | None): "center" takes the largest middle part that has the shape of ``size``.
            Default None: the whole image, stretched.
        mode (str): "RGB" (default), "L" (grey) or "RGBA".
        out (uint8 array [n, h, w, c] | None): Where the pixels go, in C order. It needs ``size``.
            Default None: a new array.
        threads (int | None): How many threads decode. Default None: one a core.
        on_corrupt (str): "raise", or "skip": an image of zeros stands in the place of a damaged
            one, so that other columns stay in line, and one `DataLossWarning` names all.
            Default "raise".
        max_pixels (int): The most pixels of an image by its header. One with more is refused before
            memory is taken for it. Default 100 million.
        fast (bool): Decode JPEG by libjpeg-turbo's fast and less exact transform, as TensorFlow
            does: the pixels are then those of ``tf.io.decode_jpeg``. Default False.

    Returns:
        uint8 array [n, h, w, c]: ``out``, if that is given. Without ``size``: a list of arrays
        [h, w, c], each of its own size.

    Raises:
        ModuleNotFoundError: While importing: simplejpeg or Pillow is not installed.
        CorruptRecordError: An image is damaged, cut, too large, or none. It names its number.
        TypeError: ``out`` is no array of uint8.
        ValueError: An argument is not as described.

    Example:
        >>> import numpy as np
        >>> from tfio_store import image
        >>> photo = tfs.encode_image(np.zeros((40, 60, 3), np.uint8), "jpeg")
        >>> image.decode([photo, photo], size=(20, 30)).shape
        (2, 20, 30, 3)
    """
    how = _How.checked(size=size, crop=crop, mode=mode, max_pixels=max_pixels, fast=fast)
    return _decoded(batch, how, out, threads, on_corrupt, lambda i: (f"image {i} of the batch", ""))


def pixels(
    columns: Mapping[str, Any],
    images: Mapping[str, Any],
    *,
    threads: int | None = None,
    on_corrupt: str = "raise",
    path: str = "",
) -> dict[str, Any]:
    """Decode the columns of encoded images in a batch of decoded records.

    Args:
        columns (dict): A batch, as `decode_examples` returns it.
        images (dict): Which columns, and to which size: ``{"photo": (224, 224)}``; or a dict of
            `decode`'s options: ``{"photo": {"size": (224, 224), "crop": "center"}}``.
        threads (int | None): See `decode`. Default None.
        on_corrupt (str): See `decode`. Default "raise".
        path (str): The dataset that errors name. Default "": none.

    Returns:
        dict: The batch, with an array uint8 [n, h, w, c] in place of each column of ``images``.

    Raises:
        CorruptRecordError: See `decode`. It names the column too.
        KeyError: ``images`` names no column.
        ValueError: A column holds no encoded images, or an option is not as described.

    Example:
        >>> import numpy as np
        >>> from tfio_store import image
        >>> photo = tfs.encode_image(np.zeros((40, 60, 3), np.uint8), "jpeg")
        >>> records = tfs.encode_examples({"photo": [photo, photo], "label": [1, 2]})
        >>> batch = tfs.decode_examples(records, {"photo": "bytes", "label": "int64"})
        >>> batch = image.pixels(batch, {"photo": (20, 30)})
        >>> batch["photo"].shape, batch["label"]
        ((2, 20, 30, 3), array([1, 2]))
    """
    return decode_columns(
        columns, check_images(images), threads=threads, on_corrupt=on_corrupt, path=path
    )


def decode_columns(
    columns: Mapping[str, Any],
    images: Mapping[str, _How],
    *,
    threads: int | None = None,
    on_corrupt: str = "raise",
    path: str = "",
    numbers: Sequence[int] | None = None,
    warn: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """As `pixels`, with ``images`` as `check_images` gives it. A column may be a list, too.
    ``numbers``: of the records in the source, for errors. ``warn`` is told of images that were
    skipped. Default: a `DataLossWarning` is."""
    made = dict(columns)
    for name, how in images.items():
        if name not in made:
            raise KeyError(f"images= names {name!r}: {unknown('column', name, made)}")
        column = made[name]
        if isinstance(column, np.ndarray) and column.dtype == object and column.ndim == 1:
            column = column.tolist()
        if not isinstance(column, list):
            raise ValueError(f"images=: column {name!r} must hold one byte string in each row")

        def place(i: int, name: str = name) -> tuple[str, str]:
            record = f"record {i} of the batch" if numbers is None else f"record {int(numbers[i])}"
            return f"feature {name!r}, {record}", path

        made[name] = _decoded(column, how, None, threads, on_corrupt, place, warn)
    return made


_PICTURES: dict[str, Callable[[Any], Any]] = {
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "png": PngImagePlugin.PngImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
}


def _opened(data: bytes, encoding: str) -> Any:
    """A picture of Pillow. `Image.open` has a limit of pixels of its own, which is the whole
    process's; here max_pixels= is the one,
    but for WebP, whose plugin asks Pillow's too."""
    return _PICTURES[encoding](io.BytesIO(data))


def size_of(data: bytes) -> tuple[int, int] | None:
    """Height and width of an image by its header. None where that is damaged, or says none."""
    encoding = encoding_of(data)
    try:
        if encoding == "jpeg":
            height, width = simplejpeg.decode_jpeg_header(data)[:2]
            return height, width
        if encoding is None:
            return None
        if encoding == "webp":
            return _webp_size(data)
        with _opened(data, encoding) as picture:
            return picture.height, picture.width
    except Exception:  # who decodes it says what is wrong
        return None


def has_size(data: bytes, height: int, width: int) -> bool:
    """Whether an image has this size by its header, which one would take memory for."""
    if height * width > _MOST_PIXELS or encoding_of(data) == "webp":
        return False
    return size_of(data) == (height, width)


def decode_into(
    batch: Sequence[bytes], places: Sequence[Pixels], *, fast: bool, threads: int | None
) -> bool:
    """Decode images into arrays [h, w, c] that are there already. False where an image is of
    another size: then nothing is known of what the arrays hold. ValueError for a damaged one."""
    how = {
        channels: _How.checked(size=None, mode=mode, fast=fast)
        for mode, channels in _CHANNELS.items()
    }

    same = []

    def one(i: int) -> None:
        same.append(how[places[i].shape[2]].into(batch[i], places[i]))

    _each(one, len(batch), threads or cores())
    return all(same)


def check_images(images: Any) -> dict[str, _How]:
    """Read ``images=``, by column. ValueError or TypeError for what it does not take."""
    if not isinstance(images, Mapping):
        raise TypeError(f'images= takes a dict such as {{"photo": (224, 224)}}, not {images!r}')
    made = {}
    for name, asked in images.items():
        options = dict(asked) if isinstance(asked, Mapping) else {"size": asked}
        unknown = options.keys() - {"size", "crop", "mode", "max_pixels", "fast"}
        if unknown or options.get("size") is None:
            raise ValueError(
                f"images= of {name!r} takes (height, width), or a dict of size, crop, mode, "
                f"max_pixels and fast in which size is given, not {asked!r}"
            )
        made[name] = _How.checked(**options)
    return made


def images_of(images: Any, schema: Schema | None) -> dict[str, _How]:
    """Read ``images=`` of a loader whose records are decoded by ``schema``. KeyError or
    ValueError for what these do not have."""
    made = {} if images is None else check_images(images)
    for name in made:
        if schema is None:
            raise ValueError("images= names features, and no schema has them: pass schema=")
        if name not in schema:
            raise KeyError(f"images= names {name!r}: {unknown('feature', name, schema)}")
        feature = schema[name]
        if feature.dtype != "bytes" or feature.shape or feature.nullable or feature.sequence:
            raise ValueError(
                f"images= names {name!r}, which must hold one byte string in each record: {feature}"
            )
    return made


@dataclass(frozen=True, slots=True)
class _How:
    """The pixels that are made of each image."""

    size: tuple[int, int] | None
    crop: bool
    mode: str
    max_pixels: int
    fast: bool = False

    @classmethod
    def checked(
        cls,
        *,
        size: Any,
        crop: Any = None,
        mode: Any = "RGB",
        max_pixels: Any = _MOST_PIXELS,
        fast: Any = False,
    ) -> _How:
        if size is not None:
            whole = isinstance(size, (tuple, list)) and len(size) == 2 and all(map(_is_count, size))
            if not whole:
                raise ValueError(f"size= takes (height, width), two ints from 1 on, not {size!r}")
            size = int(size[0]), int(size[1])
        if crop not in (None, "center"):
            raise ValueError(f'crop= takes "center" or None, not {crop!r}')
        if crop and size is None:
            raise ValueError('crop="center" needs size=, whose shape it cuts out')
        if mode not in _CHANNELS:
            raise ValueError(f'mode= takes "RGB", "L" or "RGBA", not {mode!r}')
        if not _is_count(max_pixels):
            raise ValueError(f"max_pixels= takes an int from 1 on, not {max_pixels!r}")
        return cls(size, crop == "center", mode, int(max_pixels), bool(fast))

    @property
    def nbytes(self) -> int:
        """Bytes of an image in a batch. 0 for those of their own sizes."""
        height, width = self.size or (0, 0)
        return height * width * _CHANNELS[self.mode]

    def array(self, data: Any, out: Pixels | None) -> Pixels:
        """The pixels of an image: in ``out``, if there is a size. ValueError for a damaged one."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ValueError(f"is no byte string but {type(data).__name__}")
        if not isinstance(data, bytes) and not _is_plain(data):
            data = bytes(data)
        head = bytes(data[:_HEAD])
        encoding = encoding_of(head)
        if encoding is None:
            raise ValueError(f"begins with {head[:8]!r}, and is no image of a known encoding")
        if encoding == "jpeg":
            _check_scans(data)
        try:
            if encoding == "jpeg":
                return self._of_jpeg(data, out)
            return self._by_pillow(data, encoding, out)
        except (MemoryError, _TooLargeError):
            raise
        except Exception as error:  # damage makes the libraries raise errors of many kinds
            raise ValueError(f"is no whole {encoding} image: {error}") from error

    def into(self, data: bytes, place: Pixels) -> bool:
        """Put the pixels into ``place``, unless their size is another one."""
        if encoding_of(data) == "jpeg":
            _check_scans(data)
            try:
                height, width, colors, _ = simplejpeg.decode_jpeg_header(data)
                if (height, width) != place.shape[:2]:
                    return False
                if colors not in ("CMYK", "YCCK"):
                    space = _COLORSPACES[self.mode]
                    simplejpeg.decode_jpeg(data, colorspace=space, fastdct=self.fast, buffer=place)
                    return True
            except ValueError as error:
                raise ValueError(f"is no whole jpeg image: {error}") from error
        array = self.array(data, None)
        if array.shape != place.shape:
            return False
        place[:] = array
        return True

    def _of_jpeg(self, data: Any, out: Pixels | None) -> Pixels:
        # libjpeg's own header lets go of the GIL, which many threads then want again. It has the
        # last word where it takes memory: for pixels that have no place yet.
        size = None if out is None or _jpeg_size is None else _jpeg_size(data)
        if size is not None and size[2] in _GREY_OR_COLOR:
            height, width, _ = size
        else:
            height, width, colors, _ = simplejpeg.decode_jpeg_header(data)
            if colors in ("CMYK", "YCCK"):
                return self._by_pillow(data, "jpeg", out)
        self._check_size(height, width)
        if out is None:
            found: Pixels = simplejpeg.decode_jpeg(data, _COLORSPACES[self.mode], fastdct=self.fast)
            return found
        height, width = self._shrunk(height, width)
        fits = (height, width) == self.size
        whole = simplejpeg.decode_jpeg(
            data,
            _COLORSPACES[self.mode],
            min_height=height,
            min_width=width,
            buffer=out if fits else _memory.of(height * width * _CHANNELS[self.mode]),
            fastdct=self.fast,
        )
        if whole.shape[:2] != (height, width):
            raise ValueError(f"is {whole.shape[:2]} pixels, where its header says {height, width}")
        if fits:
            return out
        if _resize and _resize(whole, out, self._box(height, width)):
            return out
        flat = whole[:, :, 0] if self.mode == "L" else whole
        return self._resized(Image.fromarray(flat).convert(self.mode), out)

    def _shrunk(self, height: int, width: int) -> tuple[int, int]:
        """The size to decode at. Of the fractions that libjpeg-turbo knows, only these are fast."""
        least_height, least_width = self._least(height, width)
        for part in (8, 4, 2):
            small = -(-height // part), -(-width // part)
            if small[0] >= least_height and small[1] >= least_width:
                return small
        return height, width

    def _by_pillow(self, data: bytes, encoding: str, out: Pixels | None) -> Pixels:
        if encoding == "webp":  # Pillow takes memory for all of it when it opens it
            self._check_size(*_webp_size(data))
        with _opened(data, encoding) as picture:
            self._check_size(picture.height, picture.width)
            plain = picture
            if picture.mode.startswith("I"):
                high = np.asarray(picture).astype(np.uint16) >> 8
                plain = Image.fromarray(high.astype(np.uint8))
            elif picture.mode == "P" and picture.has_transparency_data:
                plain = picture.convert("RGBA")
            return self._resized(plain.convert(self.mode), out)

    def _resized(self, picture: Any, out: Pixels | None) -> Pixels:
        if self.size is not None:
            box = self._box(picture.height, picture.width)
            picture = picture.resize(self.size[::-1], Image.Resampling.BILINEAR, box)
        array = np.asarray(picture)
        array = array.reshape(*array.shape[:2], _CHANNELS[self.mode])
        if out is None:
            return array
        out[...] = array
        return out

    def _box(self, height: int, width: int) -> tuple[float, float, float, float] | None:
        """The part to take (left, top, right, bottom). None: all."""
        assert self.size is not None
        if not self.crop:
            return None
        scale = min(height / self.size[0], width / self.size[1])
        across, down = scale * self.size[1], scale * self.size[0]
        left, top = max(0.0, (width - across) / 2), max(0.0, (height - down) / 2)
        return left, top, min(width, left + across), min(height, top + down)

    def _least(self, height: int, width: int) -> tuple[int, int]:
        """The least size to decode at."""
        assert self.size is not None
        if not self.crop:
            return self.size
        scale = max(self.size[0] / height, self.size[1] / width)
        return math.ceil(height * scale), math.ceil(width * scale)

    def _check_size(self, height: int, width: int) -> None:
        if height * width > self.max_pixels:
            raise _TooLargeError(
                f"has {height} x {width} pixels by its header, over max_pixels={self.max_pixels}; "
                "raise that if the source is to be trusted"
            )


class _Memory(threading.local):
    """Memory that one thread decodes into, again and again: new memory is slow for its first
    use."""

    def __init__(self) -> None:
        self._held: Any = np.empty(0, np.uint8)

    def of(self, nbytes: int) -> Any:
        if nbytes > _KEPT:
            return np.empty(nbytes, np.uint8)
        if self._held.nbytes < nbytes:
            self._held = np.empty(nbytes, np.uint8)
        return self._held[:nbytes]


_memory = _Memory()


def _is_plain(data: Any) -> bool:
    """Whether it is memory that may be read where it lies."""
    return isinstance(data, memoryview) and data.format == "B" and data.contiguous and data.readonly


def _check_scans(data: Any) -> None:
    check_scans(bytes(data).count(SCAN) if _count_scans is None else _count_scans(data))


class _TooLargeError(ValueError):
    """An image has more pixels than are allowed."""


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 1)


def _webp_size(data: bytes) -> tuple[int, int]:
    """Height and width by the header of RFC 9649; zeros where it is cut."""
    kind, head = data[12:16], data[20:30]
    if len(head) < 10:
        return 0, 0
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (4, 7))
    elif kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    return height, width


def _decoded(
    batch: Sequence[Any],
    how: _How,
    out: Pixels | None,
    threads: int | None,
    on_corrupt: str,
    place: Callable[[int], tuple[str, str]],
    warn: Callable[[str], object] | None = None,
) -> Any:
    """``place`` gives for an image's number its name in errors, and the path."""
    if isinstance(batch, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"batch takes a list of images, not one: [{type(batch).__name__}]")
    if on_corrupt not in ("raise", "skip"):
        raise ValueError(f'on_corrupt= takes "raise" or "skip", not {on_corrupt!r}')
    if threads is None:
        threads = cores()
    elif not _is_count(threads):
        raise ValueError(f"threads= takes an int from 1 on, or None, not {threads!r}")
    found: Any = [None] * len(batch)
    if out is not None or how.size is not None:
        found = _room(how, len(batch), out)
    bad: dict[int, ValueError] = {}

    def one(i: int) -> None:
        try:
            if how.size is None:
                found[i] = how.array(batch[i], None)
            else:
                how.array(batch[i], found[i])
        except ValueError as error:
            bad[i] = error
            found[i] = 0 if how.size else np.zeros((0, 0, _CHANNELS[how.mode]), np.uint8)

    _each(one, len(batch), threads)
    if bad:
        first = min(bad)
        where, path = place(first)
        if on_corrupt == "raise":
            reason, path = f"{where}: the image {bad[first]}", path or "<buffer>"
            raise damaged(Reason.CONTENT, reason, path=path, offset=-1) from bad[first]
        count = "1 damaged image" if len(bad) == 1 else f"{len(bad)} damaged images"
        which = f"{path}: {count}" if path else count
        text = f"{which} skipped, zeros stand in their place; the first is {where}: it {bad[first]}"
        if warn is not None:
            warn(text)
        else:
            warnings.warn(text, DataLossWarning, stacklevel=3)
    return found


def _each(one: Callable[[int], None], count: int, threads: int) -> None:
    """Call ``one`` with each number, in this thread and those of the process's that have time:
    ``threads`` of them at most."""
    left = iter(range(count))  # which threads may share

    def some() -> None:
        for i in left:
            one(i)

    helpers = range(min(threads, count) - 1)
    others = [workers(threads).submit(some) for _ in helpers]
    try:
        some()
    finally:
        collections.deque(left, 0)  # after an error here, the others have nothing left
    for other in others:
        if not other.cancel():
            other.result()


def _room(how: _How, count: int, out: Any) -> Pixels:
    """``out``, or a new array."""
    if how.size is None:
        raise ValueError("out= needs size=, because images may have any")
    shape = (count, *how.size, _CHANNELS[how.mode])
    if out is None:
        return np.empty(shape, np.uint8)
    if not isinstance(out, np.ndarray) or out.dtype != np.uint8:
        raise TypeError(f"out= takes an array of uint8, not {getattr(out, 'dtype', type(out))}")
    if out.shape != shape:
        raise ValueError(f"out= must have the shape {shape}, not {out.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out= must be in C order (contiguous) and writeable")
    return out
