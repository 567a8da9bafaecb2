"""Functions that run on whole batches give the bits that they give for one record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.long import first

tf = pytest.importorskip("tensorflow")

from tfio_store.tf.dataset import elementwise  # noqa: E402

pytestmark = pytest.mark.tensorflow

BFLOAT16 = tf.bfloat16.as_numpy_dtype
FLOATS = [np.float32, np.float64, np.float16, BFLOAT16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 5)]
OF_TEXT = {name for name in elementwise._SAME if name.startswith(("String", "StaticRegex"))}
UNARY = sorted(elementwise._SAME - OF_TEXT - {"Bitcast", "AsString"})
BINARY = sorted(elementwise._BROADCAST - {"SelectV2"})
BY_ZERO = {"FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod", "Div"}


def special(dtype: Any) -> Any:
    if dtype is np.bool_:
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return np.unique(np.array([limits.min, limits.max, 0, 1, 2, 3, 7, limits.max // 2], dtype))
    plain = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 6, 5.999, 7, 0.1, 3.3, 1e4]
    found = np.array([*plain, np.inf, -np.inf, np.nan, -np.nan], np.float64).astype(dtype)
    if dtype is BFLOAT16:
        return np.concatenate([found, np.array([1, 0x8001], np.uint16).view(BFLOAT16)])
    limits = np.finfo(dtype)
    small = [limits.tiny, -limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal]
    found = np.concatenate([found, np.array([*small, limits.max, limits.min], dtype)])
    if dtype is np.float32:
        found = np.concatenate([found, np.array([0x7FC00001, 0x7F800001], np.uint32).view(dtype)])
    return found


def pairs(kind: str, dtype: Any) -> tuple[Any, Any]:
    values = special(dtype)
    one, other = np.repeat(values, len(values)), np.tile(values, len(values))
    order = np.random.default_rng(1).permutation(len(one))
    one, other = one[order], other[order]
    if dtype in INTEGERS and kind in BY_ZERO:
        sound = (other != 0) & (other != np.array(-1).astype(dtype))
        return one[sound], other[sound]
    if kind.endswith("Shift"):
        sound = (other >= 0) & (other < np.dtype(dtype).itemsize * 8)
        return one[sound], other[sound]
    return one, other


def called(kind: str, *values: Any) -> Any:
    """None where the op does not take them."""
    tensors = [each if tf.is_tensor(each) else tf.constant(each) for each in values]
    for names in (("x", "y"), ("features",), ("input",)):
        try:
            return getattr(tf.raw_ops, kind)(**dict(zip(names, tensors, strict=False)))
        except TypeError:
            continue
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
            return None
    return None


def one_of(part: Any, row: int) -> Any:
    """Not by `tf.constant` of a scalar, which takes -0.0 for the 0.0 that it has kept."""
    return tf.reshape(tf.constant(part[row : row + 1]), part.shape[1:])


def differing(kind: str, *values: Any) -> Iterator[str]:
    """Where a batch has other bits than its records by themselves."""
    for shape in SHAPES:
        each = int(np.prod(shape, dtype=int))
        rows = min(len(values[0]) // each, 60)
        if not rows:
            continue
        parts = [value[: rows * each].reshape((rows, *shape)) for value in values]
        whole = called(kind, *parts)
        if whole is None:
            return
        for row in range(rows):
            alone = called(kind, *(one_of(part, row) for part in parts))
            if alone.numpy().tobytes() != whole[row].numpy().tobytes():
                yield f"{[part[row] for part in parts]}: {alone} alone, {whole[row]} in a batch"


def is_run(kind: str, dtype: Any) -> bool:
    return tf.as_dtype(dtype) not in elementwise._BITS_DIFFER.get(kind, ())


@pytest.mark.parametrize("kind", UNARY)
def test_one_value(kind: str) -> None:
    for dtype in [*FLOATS, *INTEGERS, np.bool_]:
        if is_run(kind, dtype):
            values = special(dtype)
            for seed in range(3):
                mixed = np.random.default_rng(seed).permutation(values)
                assert not list(differing(kind, mixed)), dtype


@pytest.mark.parametrize("kind", first(8, BINARY))
def test_two_values(kind: str) -> None:
    for dtype in [*FLOATS, *INTEGERS, np.bool_]:
        if is_run(kind, dtype) and not (kind.endswith("Shift") and dtype not in INTEGERS):
            assert not list(differing(kind, *pairs(kind, dtype))), dtype


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts(dtype: Any) -> None:
    values = special(dtype)
    for target in (tf.float16, tf.float32, tf.float64):  # those to bfloat16 are not run so
        whole = tf.cast(tf.constant(values), target).numpy()
        for row, wanted in enumerate(whole):
            found = tf.cast(one_of(values, row), target).numpy()
            assert found.tobytes() == wanted.tobytes(), (values[row], target)


@pytest.mark.parametrize("kind", ["Maximum", "Relu", "Sign"])
def test_what_differs_runs_on_each_record(kind: str) -> None:
    assert any(
        list(differing(kind, *(pairs(kind, dtype) if kind == "Maximum" else (special(dtype),))))
        for dtype in (np.float32, np.float64)
    )
