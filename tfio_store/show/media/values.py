"""The single values of a record, as captions tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.errors import CorruptRecordError
from tfio_store.example.codec import infer_features
from tfio_store.example.feature import Feature
from tfio_store.example.kinds import ClassLabel
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.show.counting.columns import Decoded, decoded, name_of
from tfio_store.show.counting.tally import is_pixels, raw_numbers
from tfio_store.show.media.text import shown_value, visible

__all__ = ["RecordValue", "shown_number", "single_values"]


@dataclass(frozen=True, slots=True)
class RecordValue:
    """One feature of a record. Of numbers there are ``numbers``, of byte strings ``strings``; the
    other one is None. ``steps`` counts the steps of a feature list. ``feature`` is what the schema
    says, if it says anything."""

    name: str
    dtype: str
    count: int
    numbers: npt.NDArray[Any] | None
    strings: list[bytes] | None
    steps: int | None
    feature: Feature | None

    def shown(self, most: int = 100) -> str:
        """The values in a line, as `Top.value` has them: ``0.5, 1.5, …``."""
        texts = list(self._texts(most))
        line = ", ".join(texts[: 1 if self.strings else 8])
        return line + ", …" * (self.count > (1 if self.strings else 8))

    def _texts(self, most: int) -> Iterator[str]:
        if self.strings is not None:
            yield from (shown_value(value, most) for value in self.strings[:1])
        elif self.numbers is not None:
            yield from (shown_number(v, self.feature) for v in self.numbers[:8].tolist())


def shown_number(value: float, feature: Feature | None) -> str:
    """A number as text; of a class that has a name with it, of a time as ISO 8601."""
    kind = None if feature is None else feature.kind
    if isinstance(kind, ClassLabel) and isinstance(value, int) and 0 <= value < len(kind.names):
        return f"{value} ({visible(kind.names[value])[:60]})"
    is_time = feature is not None and feature.dtype.startswith("datetime64[")
    if feature is not None and is_time and isinstance(value, int):  # a record may hold floats
        return str(np.int64(value).view(feature.dtype))
    return shown_value(value)


def single_values(
    batch: RecordBatch, row: int, schema: Schema | None, *, most: int, longest: int
) -> tuple[RecordValue, ...]:
    """The features of one record of a batch that have one value each, at most so many, without
    byte strings longer than that. Nothing else is decoded."""
    one = batch[row : row + 1]
    try:
        counts = infer_features(batch[row])
    except CorruptRecordError:
        return ()
    names = {name for name, (_, count) in list(counts.items())[:most] if count == 1}
    found = decoded(one, lambda key: not key.sequence and name_of(key) in names)
    found.columns = [
        column
        for column in found.columns
        if column.dtype != "bytes" or (column.values[:, 1] <= longest).all()
    ]
    return _values(found, schema)


def _values(found: Decoded, schema: Schema | None) -> tuple[RecordValue, ...]:
    values = []
    for column in found.columns:
        name = name_of(column.key)
        feature = None if schema is None else schema.get(name)
        strings = list(column.strings()) if column.dtype == "bytes" else None
        numbers = None if column.dtype == "bytes" else column.values
        if strings and feature is not None and feature.raw and not is_pixels(feature):
            raw = raw_numbers(feature, strings)
            if raw is not None:
                numbers, strings = raw[0], None
        steps = None if column.steps is None else int(column.steps.sum())
        count = int(column.counts.sum())
        if len(column.rows):
            values.append(RecordValue(name, column.dtype, count, numbers, strings, steps, feature))
    return tuple(sorted(values, key=lambda value: value.name))
