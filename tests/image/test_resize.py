"""The compiled resizing, compared with Pillow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
resize = pytest.importorskip(
    "tfio_store.example._resize", reason="the extensions are not built"
).resize

sizes = st.integers(1, 70)


def by_pillow(pixels: Any, size: tuple[int, int], box: Any = None) -> Any:
    """Each channel by itself, since Pillow multiplies colors by alpha."""
    flat = [Image.fromarray(np.ascontiguousarray(pixels[:, :, c])) for c in range(pixels.shape[2])]
    made = [one.resize(size[::-1], Image.Resampling.BILINEAR, box) for one in flat]
    return np.stack([np.asarray(one) for one in made], axis=-1)


def apart(found: Any, expected: Any) -> int:
    return int(np.abs(found.astype(int) - expected.astype(int)).max())


@settings(max_examples=300)
@given(sizes, sizes, sizes, sizes, st.sampled_from([1, 3, 4]), st.data())
def test_it_is_pillows(
    height: int, width: int, down: int, across: int, deep: int, data: Any
) -> None:
    pixels = np.random.default_rng(height * width).integers(0, 256, (height, width, deep))
    pixels = pixels.astype(np.uint8)
    box = None
    if data.draw(st.booleans()):
        left = data.draw(st.floats(0, width - 0.5))
        top = data.draw(st.floats(0, height - 0.5))
        right = data.draw(st.floats(left + 0.25, width))
        bottom = data.draw(st.floats(top + 0.25, height))
        box = left, top, right, bottom
    guarded = np.full(down * across * deep + 64, 7, np.uint8)  # nothing is written behind out
    out = guarded[: down * across * deep].reshape(down, across, deep)
    assert resize(pixels, out, box)
    assert (guarded[-64:] == 7).all()
    expected = by_pillow(pixels, (down, across), box)
    assert apart(out, expected) <= 1


@pytest.mark.parametrize("value", [0, 1, 127, 254, 255])
@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (400, 300), (31, 17)])
def test_a_plain_picture_stays_as_it_is(value: int, shape: tuple[int, int]) -> None:
    pixels = np.full((*shape, 3), value, np.uint8)
    for size in ((1, 1), (224, 224), (3, 500)):
        out = np.empty((*size, 3), np.uint8)
        assert resize(pixels, out)
        assert (out == value).all()


def test_the_same_size_is_a_copy() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (33, 47, 4)).astype(np.uint8)
    out = np.empty_like(pixels)
    assert resize(pixels, out)
    assert np.array_equal(out, pixels)


def test_too_many_pixels_for_one_are_left_to_others() -> None:
    out = np.empty((1, 1, 1), np.uint8)
    assert not resize(np.zeros((3000, 1, 1), np.uint8), out)
    assert not resize(np.zeros((1, 3000, 1), np.uint8), out)
    assert resize(np.zeros((500, 500, 1), np.uint8), out)


@pytest.mark.parametrize(
    ("shape", "out", "box", "text"),
    [
        ((2, 2, 2), (2, 2, 2), None, "channels"),
        ((2, 2, 1), (2, 2, 3), None, "channels"),
        ((2, 2, 4), (2, 2, 3), None, "channels"),
        ((0, 2, 3), (2, 2, 3), None, "empty"),
        ((2, 2, 3), (2, 0, 3), None, "empty"),
        ((2, 2, 3), (2, 2, 3), (0, 0, 3, 2), "not inside"),
        ((2, 2, 3), (2, 2, 3), (-1, 0, 2, 2), "not inside"),
        ((2, 2, 3), (2, 2, 3), (1, 0, 1, 2), "not inside"),
        ((2, 2, 3), (2, 2, 3), (0, 0, float("nan"), 2), "not inside"),
    ],
)
def test_wrong_arguments(shape: Any, out: Any, box: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        resize(np.zeros(shape, np.uint8), np.zeros(out, np.uint8), box)


def test_other_memory_is_refused() -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    for out in (np.zeros((2, 2, 3)), np.zeros((2, 4, 3), np.uint8)[:, ::2]):
        with pytest.raises(ValueError, match=r"Buffer|contiguous"):
            resize(pixels, out)
    kept = np.zeros((2, 2, 3), np.uint8)
    kept.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        resize(pixels, kept)
