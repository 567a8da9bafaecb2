"""JPEGs of 500 x 375 that are noise with the spectrum of photos: they decode as slowly."""

from __future__ import annotations

import io

import numpy as np

HEIGHT, WIDTH = 375, 500


def photo(seed: int) -> bytes:
    """A JPEG of quality 90."""
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
