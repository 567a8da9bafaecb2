"""What several benchmarks read: rows of scalars, and photos."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

HEIGHT, WIDTH = 375, 500
INTS, FLOATS = [f"i{k}" for k in range(5)], [f"f{k}" for k in range(5)]


def scalars(count: int) -> dict[str, Any]:
    """Columns of 10 scalars."""
    values = np.random.default_rng(1)
    found: dict[str, Any] = {name: values.integers(0, 1000, count) for name in INTS}
    return found | {name: values.random(count).astype(np.float32) for name in FLOATS}


def photo(seed: int) -> bytes:
    """A JPEG of quality 90, of noise with the spectrum of photos: it decodes as slowly."""
    from PIL import Image

    random = np.random.default_rng(seed)
    down, across = np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None]
    radius = np.hypot(down, across)
    radius[0, 0] = 1
    planes = []
    for _ in range(3):
        shape = (HEIGHT, across.shape[1])
        noise = random.normal(size=shape) + 1j * random.normal(size=shape)
        planes.append(np.fft.irfft2(noise / radius**1.1, s=(HEIGHT, WIDTH)))
    values = np.stack(planes, -1)
    values /= values.std()
    pixels = np.clip(128 + 50 * values[..., :1] + 12 * values, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "jpeg", quality=90)
    return file.getvalue()
