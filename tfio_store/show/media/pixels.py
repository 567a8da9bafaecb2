"""Raw pixels: byte strings of a known height and width, without a header that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfio_store.example.feature import Feature
from tfio_store.show.counting.tally import is_pixels

__all__ = ["pixel_shape"]

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
