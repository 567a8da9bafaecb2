"""What one record holds: its features in the order of their names, each with its values.

A record that is no Example has one feature, which holds its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.show.columns import Column, Key, decoded, name_of
from tfio_store.show.features import shown_name
from tfio_store.show.media_types import image_size, is_image, media_type
from tfio_store.show.tally import RECORD, is_pixels, raw_numbers
from tfio_store.show.thumbnails import (
    NO_PILLOW,
    SIDE,
    look_at,
    look_at_pixels,
    pixel_shape,
    refusal,
)

__all__ = ["A_FILE", "Content", "Form", "Held"]

Form = Literal["whole", "small", "file"]
"""Of an image: as it is, a thumbnail, or bytes to save that no browser draws."""

A_FILE = "application/octet-stream"

_MAGIC = 4096
"""First bytes, which tell what a value is."""

_PIXELS_SIDE = 1024
"""Raw pixels are drawn with so many on a side, at most."""


class Held:
    """A feature of one record. ``numbers`` are its values, or None of byte strings. ``feature`` is
    what the schema says of it, if it says anything. ``steps`` counts those of a feature list.
    ``beside`` are the record's single integers."""

    def __init__(
        self, name: str, column: Column, feature: Feature | None, beside: Mapping[str, int]
    ) -> None:
        self.name = name
        self.dtype = column.dtype
        self.count = int(column.counts.sum())
        self.steps = None if column.steps is None else int(column.steps.sum())
        self.feature = feature
        self.numbers: npt.NDArray[Any] | None = None
        self._column = column
        self._beside = beside
        if column.dtype != "bytes":
            self.numbers = column.values
        elif feature is not None and feature.raw and not is_pixels(feature):
            found = raw_numbers(feature, list(column.strings()))
            if found is not None:
                self.numbers, self.dtype = found[0], feature.dtype
                self.count = len(found[0])

    def view(self, index: int) -> memoryview:
        """A byte string, which is not copied. IndexError if there is none of that number."""
        if self.numbers is not None or not 0 <= index < self.count:
            raise IndexError(f"there is no byte string {index}")
        at, size = self._column.values[index].tolist()
        return self._column.buffer[at : at + size]

    def media_type(self, index: int) -> str | None:
        """Of a byte string that is an image or a sound, its media type. Raw pixels are drawn."""
        if self.numbers is not None or not 0 <= index < self.count:
            return None
        found = media_type(bytes(self.view(index)[:_MAGIC]))
        return "image/png" if self._shape(index, found) is not None else found

    def refusal(self, index: int) -> str:
        """How large a byte string is that is an image, and why it is not shown. Empty if it is. A
        damaged one is known only when it is decoded, by `media`."""
        found = media_type(bytes(self.view(index)[:_MAGIC]))
        if not is_image(found) or self._shape(index, found) is not None:
            return ""
        data = bytes(self.view(index))
        why = refusal(data)
        width, height = image_size(data) or (0, 0)
        return f"{width:,} x {height:,} pixels: {why}" if why and width else why

    def media(self, index: int, form: Form) -> tuple[bytes, str] | None:
        """An image or a sound, and its media type. None for an image that can't be decoded here: a
        browser might take all memory for it."""
        if self.numbers is not None or not 0 <= index < self.count:
            return None
        data = bytes(self.view(index))
        found = media_type(data[:_MAGIC])
        shape = self._shape(index, found)
        if form == "file":
            return None if found is None and shape is None else (data, A_FILE)
        if shape is not None:
            drawn = look_at_pixels(data, shape, SIDE if form == "small" else _PIXELS_SIDE)
            return drawn.data, drawn.media_type
        if found is None:
            return None
        if not is_image(found):
            return data, found
        look = look_at(data)
        if form == "small":
            return (look.data, look.media_type) if look.data else None
        return (data, found) if look.data or look.passed_over == NO_PILLOW else None

    def _shape(self, index: int, found: str | None) -> tuple[int, ...] | None:
        """Of raw pixels."""
        nbytes = len(self.view(index))
        if found is not None and not is_pixels(self.feature):
            return None
        shape = pixel_shape(nbytes, self.feature, self._beside)
        return shape if shape is not None and prod(shape) == nbytes > 0 else None


class Content:
    """One record. ``features`` rise by their names. ``note`` says what could not be read of it, or
    is empty."""

    def __init__(self, record: bytes, schema: Schema | None = None) -> None:
        self.nbytes = len(record)
        batch = RecordBatch.from_records([record])
        found = decoded(batch, lambda key: True)
        columns = sorted(
            (column for column in found.columns if len(column.rows)),
            key=lambda column: (name_of(column.key), column.key.sequence),
        )
        self.note = ""
        if found.too_long:
            self.note = "A feature has too many values to be shown."
        if found.odd and columns:
            self.note = "Some of it can't be read: the steps of a feature list hold several kinds."
        if found.odd and not columns:
            self.note = "This record is no tf.train.Example: its bytes are shown."
            columns = [_whole(batch)]
        beside = {
            name_of(column.key).lower(): int(column.values[0])
            for column in columns
            if column.dtype == "int64" and len(column.values) == 1
        }
        self.features = tuple(_held(column, schema, beside) for column in columns)


def _held(column: Column, schema: Schema | None, beside: Mapping[str, int]) -> Held:
    name = name_of(column.key)
    feature = None if schema is None else schema.get(name)
    return Held(shown_name(name), column, feature, beside)


def _whole(batch: RecordBatch) -> Column:
    place = np.array([[0, batch.nbytes]], np.int64)
    one = np.ones(1, np.int64)
    return Column(Key(RECORD.encode(), False), "bytes", one - 1, one, place, batch.buffer)
