"""Between the values that records hold and what they mean: names of classes, pixels of images."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfio_store.errors import SchemaError
from tfio_store.example.feature import ClassLabel, Feature, Image, encoding_of
from tfio_store.example.ragged import Nullable, Ragged, Text, row_of
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch

Labels = Literal["numbers", "names"]
"""How classes come."""

Array = npt.NDArray[Any]
Valid = npt.NDArray[np.bool_] | None


class _OddError(ValueError):
    """A value is not of its kind. It says which of all values it is."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def check_labels(labels: str) -> None:
    """ValueError unless it is one of `Labels`."""
    if labels not in ("numbers", "names"):
        raise ValueError(f"labels must be 'numbers' or 'names', got {labels!r}")


def written(name: str, column: Any, valid: Valid, feature: Feature, first_row: int) -> Any:
    """A normal column as records hold it: names of classes become their numbers. ValueError for a
    value that is not of the feature's kind, of a row that is not null; its rows begin at
    ``first_row``."""
    kind = feature.kind

    def change(values: Any, at: Callable[[int], bool]) -> Any:
        if isinstance(kind, ClassLabel):
            return _numbers(values, kind, at)
        _check_images(values, kind, at)
        return values

    try:
        return _changed(column, change, lambda i: valid is None or bool(valid[row_of(column, i)]))
    except _OddError as error:
        row = first_row + row_of(column, error.index)
        raise ValueError(f"feature {name!r}: row {row} {error}") from None


def _changed(column: Any, change: Callable[..., Any], at: Callable[[int], bool]) -> Any:
    """The column with its values changed. ``at`` says whether the value of an index counts."""
    if isinstance(column, Ragged):
        return Ragged(_changed(column.values, change, at), column.row_splits)
    return change(column, at)


def _numbers(values: Any, kind: ClassLabel, at: Callable[[int], bool]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        wrong = np.flatnonzero((values < 0) | (values >= len(kind.names)))
        for index in wrong.tolist():
            if at(index):
                raise _OddError(index, f"holds {values.flat[index]}, which counts none of {kind}")
        return values
    numbers = {label: number for number, label in enumerate(kind.names)}
    found = []
    for index, label in enumerate(_strings(values)):
        text = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
        number = numbers.get(text) if isinstance(text, str) else None
        if number is None and at(index):
            raise _OddError(index, f"holds {label!r}, which is none of {kind}")
        found.append(number or 0)
    return np.array(found, np.int64).reshape(np.shape(values) if _is_array(values) else -1)


def _strings(values: Any) -> Any:
    if isinstance(values, Text):
        return values.batch
    return values.ravel().tolist() if _is_array(values) else values


def _is_array(values: Any) -> bool:
    return isinstance(values, np.ndarray)


def _check_images(values: Any, kind: Any, at: Callable[[int], bool]) -> None:
    if _is_array(values) and values.dtype.kind not in "OS":
        raise _OddError(
            0, f"is an array of {values.dtype}, and no encoded image; encode_image makes one of it"
        )
    for index, data in enumerate(_strings(values)):
        if isinstance(data, bytes) and kind.takes(data):
            continue
        if at(index):
            what = f"the encoding {kind.encoding}" if kind.encoding else "an encoding that is known"
            shown = data[:8] if isinstance(data, (bytes, str)) else type(data).__name__
            raise _OddError(index, f"begins with {shown!r}, and is no image of {what}")


def named(features: Mapping[str, Feature], labels: str) -> set[str]:
    """The nullable classes that come as arrays of names. These hold None where numbers can't."""
    found = {name for name, feature in features.items() if feature.nullable and not feature.ragged}
    return {n for n in found if labels == "names" and isinstance(features[n].kind, ClassLabel)}


def meant(
    columns: Mapping[str, Any],
    features: Mapping[str, Feature],
    labels: str,
    images: bool,
    masked: Collection[str] = (),
) -> dict[str, Any]:
    """Decoded columns: names for the numbers of classes, and pixels for images, as is asked for.
    None takes the place of the mask of ``masked`` ones. SchemaError for a value that is not of its
    kind."""
    result = dict(columns)
    for name, feature in features.items():
        shown = _shown(feature, labels, images)
        if shown is not None:
            column = _meant(name, columns[name], feature, shown)
            if name in masked:
                column = column.values if isinstance(column, Nullable) else np.ma.getdata(column)
            result[name] = column
    return result


def meant_schema(schema: Schema, labels: str) -> Schema:
    """The schema of the columns of `meant`."""
    features = {
        name: feature
        if _shown(feature, labels, False) is None
        else replace(feature, dtype="str", kind=None, default=None)
        for name, feature in schema.items()
    }
    return Schema(features, arrow=schema.arrow)


def _shown(feature: Feature, labels: str, images: bool) -> Callable[[Any], Any] | None:
    """The function that turns a value into its meaning, if that is asked for."""
    kind = feature.kind
    if isinstance(kind, ClassLabel) and labels == "names":
        return lambda number: _name(kind, number)
    return decoded_image if isinstance(kind, Image) and images else None


def _name(kind: ClassLabel, number: int) -> str:
    if not 0 <= number < len(kind.names):
        raise ValueError(f"holds {number}, which counts none of {kind}; ask for labels='numbers'")
    return kind.names[number]


def _meant(name: str, column: Any, feature: Feature, shown: Callable[[Any], Any]) -> Any:
    batch = column.values if isinstance(column, Nullable) else column
    if isinstance(batch, RecordBatch) and not feature.ragged:  # which is flat
        column = _of_batch(column, feature)
    try:
        return _each(column, shown)
    except _OddError as error:
        raise SchemaError(
            str(error), feature=name, record=row_of(column, error.index)
        ) from error.__cause__


def _of_batch(column: Any, feature: Feature) -> Any:
    """A batch of byte strings as an array of objects, masked where they are null."""
    values = column.values if isinstance(column, Nullable) else column
    array = objects_of(list(values)).reshape(-1, *feature.row_shape)
    if not isinstance(column, Nullable):
        return array
    return np.ma.MaskedArray(array, ~column.valid.reshape(array.shape))


def _each(column: Any, shown: Callable[[Any], Any]) -> Any:
    """The column with each value changed, but for nulls."""
    if isinstance(column, Nullable):
        return Nullable(_each(column.values, shown), column.valid)
    if isinstance(column, Ragged):
        return Ragged(_each(column.values, shown), column.row_splits)
    if isinstance(column, RecordBatch):
        column = objects_of(list(column))
    mask = np.ma.getmaskarray(column)
    items = zip(np.asarray(column).ravel().tolist(), mask.ravel().tolist(), strict=True)
    made = [_one(i, item, masked, shown) for i, (item, masked) in enumerate(items)]
    array = objects_of(made).reshape(column.shape)
    return np.ma.MaskedArray(array, mask) if isinstance(column, np.ma.MaskedArray) else array


def _one(index: int, item: Any, masked: bool, shown: Callable[[Any], Any]) -> Any:
    if masked or item is None:
        return None
    try:
        return shown(item)
    except ValueError as error:
        raise _OddError(index, str(error)) from error


def objects_of(items: Sequence[Any]) -> Array:
    """An array of these objects, whatever they are."""
    array = np.empty(len(items), object)
    for i, item in enumerate(items):  # numpy would look into arrays of one shape
        array[i] = item
    return array


# Encoded images to pixels and back, by Pillow.


_MOST_SCANS = 500
"""A JPEG of many scans takes as long as so many images. libjpeg-turbo's own limit, where it is
asked for one."""


SCAN = b"\xff\xda"
"""The marker with which a scan of a JPEG begins."""


def check_scans(count: int) -> None:
    """ValueError for a JPEG of too many scans. To ask before it is decoded."""
    if count > _MOST_SCANS:
        raise ValueError(f"is a JPEG of more than {_MOST_SCANS} scans")


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
        check_scans(data.count(SCAN))
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
