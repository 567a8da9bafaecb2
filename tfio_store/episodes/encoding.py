"""Episodes, and other nested examples, to records as TensorFlow Datasets lays them out."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfio_store.episodes.features import STEPS, Leaf, Tree
from tfio_store.example.codec import encode_example
from tfio_store.example.feature import encoding_of
from tfio_store.example.kinds import encode_image

_ABSENT = object()


def encode_nested(tree: Tree, example: Mapping[str, Any]) -> tuple[bytes, int]:
    """The record of an example, and the number of its steps.

    TypeError or ValueError that names the feature where the example lacks one, has one more, or has
    a value of another kind or shape.
    """
    if not isinstance(example, Mapping):
        raise TypeError(f"an episode is a nested mapping, not {type(example).__name__}")
    _check_names(tree, example)
    features: dict[str, Any] = {}
    steps = 0
    values = _steps_of(example.get(STEPS)) if tree.steps else []
    for leaf in tree.leaves:
        if leaf.of_steps:
            column = _column(leaf, values)
            if leaf is tree.steps[0]:
                steps = len(column)
            elif len(column) != steps:
                raise ValueError(f"{leaf.name} has {len(column)} steps, and others have {steps}")
        else:
            value = _at(example, leaf.path)
            column = list(_sized(leaf, value)) if leaf.levels else [value]
        _add(leaf, column, features)
    return encode_example(features), steps


def _steps_of(steps: Any) -> Any:
    if isinstance(steps, Mapping):
        return steps
    try:
        return list(steps)
    except TypeError:
        raise TypeError(
            f"{STEPS} are a list of steps, or a mapping of arrays, not {type(steps).__name__}"
        ) from None


def _column(leaf: Leaf, steps: Any) -> Sequence[Any]:
    """A leaf's value in each step."""
    if isinstance(steps, Mapping):
        return _sized(leaf, _at(steps, leaf.within, leaf))
    return [_at(step, leaf.within, leaf) for step in steps]


def _at(node: Any, path: tuple[str, ...], leaf: Leaf | None = None) -> Any:
    for key in path:
        node = node.get(key, _ABSENT) if isinstance(node, Mapping) else _ABSENT
    if node is _ABSENT or node is None:
        raise ValueError(f"an episode lacks {leaf.name if leaf else '/'.join(path)}")
    return node


def _check_names(tree: Tree, example: Mapping[str, Any]) -> None:
    """ValueError for what no feature takes: it would be lost without a word."""
    known = {leaf.path for leaf in tree.leaves}
    inside = {path[:n] for path in known for n in range(1, len(path))}

    def walk(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
        for key, value in node.items():
            here = (*path, str(key))
            if here in inside and isinstance(value, Mapping):
                yield from walk(value, here)
            elif here not in known and here not in inside:
                yield "/".join(here)

    found = list(walk(example, ()))
    steps = example.get(STEPS)
    if tree.steps and isinstance(steps, Sequence) and steps and isinstance(steps[0], Mapping):
        found += walk(steps[0], (STEPS,))
    if found:
        raise ValueError(f"an episode has {found[0]}, which features= does not name")


def _sized(leaf: Leaf, values: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise TypeError(f"{leaf.name} is a sequence, and got {type(values).__name__}")
    found: Sequence[Any] = values
    return found


def _add(leaf: Leaf, column: Sequence[Any], features: dict[str, Any]) -> None:
    """Put a leaf's values into the features of a record; below the first sequence, with the lengths
    of rows."""
    for length, key in zip(leaf.levels[1:], leaf.row_keys, strict=True):
        rows = [_sized(leaf, row) for row in column]
        odd = [len(row) for row in rows if length not in (None, len(row))]
        if odd:
            raise ValueError(f"{leaf.name} has a row of {odd[0]}, where {length} are wanted")
        features[key] = np.array([len(row) for row in rows], np.int64)
        column = [value for row in rows for value in row]
    if leaf.wire == "bytes":
        features[leaf.key] = _strings(leaf, column, features)
    else:
        features[leaf.key] = _numbers(leaf, column)


def _numbers(leaf: Leaf, column: Sequence[Any]) -> Any:
    dtype = np.dtype(leaf.dtype)
    if leaf.kind == "label":
        column = [_class(leaf, value) for value in column]
    if not len(column):
        return np.zeros(0, np.int64 if leaf.wire == "int64" else np.float32)
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise ValueError(f"{leaf.name} has values of several shapes: {error}") from error
    _check_shape(leaf, array.shape[1:])
    return _cast(leaf, array, dtype).ravel()


def _check_shape(leaf: Leaf, shape: tuple[int, ...]) -> None:
    """ValueError unless it is the shape of a value."""
    fits = len(shape) == len(leaf.shape) and all(
        want in (None, have) for want, have in zip(leaf.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{leaf.name} has the shape {shape}, where {leaf.shape} is wanted")


def _class(leaf: Leaf, value: Any) -> int:
    if isinstance(value, str):
        if value not in leaf.names:
            raise ValueError(f"{leaf.name} is {value!r}, which is none of its classes")
        return leaf.names.index(value)
    number = int(value)
    if not 0 <= number < max(leaf.classes, 1) and number != -1:
        raise ValueError(f"{leaf.name} is {number}, and there are {leaf.classes} classes")
    return number


def _cast(leaf: Leaf, array: Any, dtype: np.dtype[Any]) -> Any:
    """As the record holds it. ValueError for numbers that would change, but for rounding."""
    kinds = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}[dtype.kind]
    if array.dtype.kind not in kinds:
        raise TypeError(f"{leaf.name} is {dtype}, and got {array.dtype}")
    if dtype.kind == "f":
        return array.astype(dtype).astype(np.float32)
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ValueError(f"{leaf.name} holds a number that does not fit {dtype}")
    found = array.astype(dtype)
    return found.view(np.int64) if dtype == np.uint64 else found.astype(np.int64)


def _strings(leaf: Leaf, column: Sequence[Any], features: dict[str, Any]) -> list[bytes]:
    if leaf.kind == "image":
        return [_image(leaf, value) for value in column]
    if leaf.encoding is not None:
        return _tensors(leaf, column, features)
    if leaf.shape:
        arrays = [np.asarray(value, object) for value in column]
        for array in arrays:
            _check_shape(leaf, array.shape)
        column = [value for array in arrays for value in array.ravel().tolist()]
    return [_string(leaf, value) for value in column]


def _string(leaf: Leaf, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{leaf.name} is text, and got {type(value).__name__}")


def _tensors(leaf: Leaf, column: Sequence[Any], features: dict[str, Any]) -> list[bytes]:
    dtype = np.dtype(leaf.dtype)
    found, shapes = [], []
    for value in column:
        array = np.asarray(value)
        _check_shape(leaf, array.shape)
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise TypeError(f"{leaf.name} is {dtype}, and got {array.dtype}")
        data = array.astype(dtype).tobytes()
        found.append(zlib.compress(data) if leaf.encoding == "zlib" else data)
        shapes.append(array.shape)
    if leaf.shape_key is not None:
        features[leaf.shape_key] = np.array(shapes, np.int64).ravel()
    return found


def _image(leaf: Leaf, value: Any) -> bytes:
    """An encoded image as it is, and pixels encoded as the features say, or else as PNG."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        if encoding_of(data) is None:
            raise ValueError(f"{leaf.name} begins with {data[:8]!r}, and is no image")
        return data
    array = np.asarray(value)
    if array.dtype != np.dtype(leaf.dtype):
        raise TypeError(f"{leaf.name} has pixels of {leaf.dtype}, and got {array.dtype}")
    _check_shape(leaf, array.shape)
    if array.dtype == np.float32:  # its bytes as the four channels of a PNG
        return encode_image(np.ascontiguousarray(array).view(np.uint8), "png")
    if array.dtype == np.uint16:
        return _deep_png(leaf, array)
    return encode_image(array, leaf.encoding or "png")


def _deep_png(leaf: Leaf, array: Any) -> bytes:
    from PIL import Image

    if array.shape[-1] != 1:
        raise ValueError(f"{leaf.name} has 16 bits and {array.shape[-1]} channels; encode it first")
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array[..., 0])).save(file, "png")
    return file.getvalue()
