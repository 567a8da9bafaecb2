"""Pixels to another size, compiled. Where it is not built, Pillow does the same, more slowly."""

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

_Pixels = npt.NDArray[np.uint8]

def resize(
    pixels: _Pixels, out: _Pixels, box: tuple[float, float, float, float] | None = None
) -> bool:
    """Fill ``out`` [h, w, c] with ``pixels`` [height, width, c], or with the part of them in
    ``box`` (left, top, right, bottom). Both are in C order, and have 1, 3 or 4 channels.

    False, and nothing is done, where a pixel stands for more than a thousand in a row. ValueError
    for empty arrays, other channels, and a box that is not inside.
    """

def count_scans(data: BytesLike) -> int:
    """How often the marker of a scan (FF DA) stands in a JPEG."""

def jpeg_size(data: BytesLike) -> tuple[int, int, int] | None:
    """Height, width and number of components of a JPEG by its first frame's header, without letting
    go of the GIL. None where that is not found at once: libjpeg is to be asked."""
