"""What one record holds: its features in the order of their names, and their values.

A record that is no Example has one feature, which holds its bytes. Names and values are whatever a
file holds: nothing here trusts a length, an encoding or a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfio_store.errors import TFIOStoreError
from tfio_store.example import decode_examples
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.example.feature import Feature
from tfio_store.records.framing import RecordBatch

__all__ = ["Content", "Held", "Values"]

WHOLE = "(whole record)"
"""The name of the one feature of a record that is no Example."""


@dataclass(frozen=True, slots=True)
class Held:
    """A feature of one record. ``dtype`` is that of the wire: "bytes", "float32" or "int64"; None
    without values. ``mixed``: the steps of a feature list hold several kinds."""

    name: str
    dtype: str | None
    is_list: bool = False
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a feature: numbers in an array, or byte strings in a batch. Those of a feature
    list stand behind one another; ``steps`` is None but for these. ``fault`` tells why values could
    not be read, or is empty."""

    all: np.ndarray[Any, Any] | RecordBatch
    steps: int | None = None
    fault: str = ""

    def __len__(self) -> int:
        return len(self.all)

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """The values as an array, unless they are byte strings."""
        return None if isinstance(self.all, RecordBatch) else self.all

    def view(self, index: int) -> memoryview:
        """A byte string, which is not copied. IndexError if there is none of that number."""
        if not isinstance(self.all, RecordBatch) or not 0 <= index < len(self.all):
            raise IndexError(f"there is no byte string {index}")
        return self.all.view(index)


class Content:
    """One record, read as an Example or a SequenceExample.

    ``features`` rise by their names. ``note`` tells why a record could not be read so, or is empty.
    """

    def __init__(self, record: bytes) -> None:
        self.nbytes = len(record)
        self.note = ""
        self._batch = RecordBatch.from_records([record])
        try:
            self.features = _described(record)
        except TFIOStoreError as error:
            self.features = (Held(WHOLE, "bytes"),)
            self.note = f"Read as bytes: {getattr(error, 'reason', error)}."

    def values(self, wanted: Sequence[int]) -> list[Values]:
        """The values of some features, by their places among ``features``."""
        if self.note:
            return [Values(self._batch)] * len(wanted)
        found: dict[int, Values] = {}
        for is_list in (False, True):
            mine = [i for i in wanted if self.features[i].is_list is is_list]
            found.update(zip(mine, self._read([self.features[i] for i in mine]), strict=True))
        return [found[i] for i in wanted]

    def _read(self, held: Sequence[Held]) -> list[Values]:
        """Those of a kind at once; one by one if a feature can't be read."""
        try:
            return self._decoded(held)
        except TFIOStoreError as error:
            if len(held) == 1:
                return [Values(np.zeros(0), fault=str(error))]
            return [self._read([each])[0] for each in held]

    def _decoded(self, held: Sequence[Held]) -> list[Values]:
        schema = {
            each.name: Feature(each.dtype, (None, None), sequence=True)
            if each.is_list
            else Feature(each.dtype, (None,))
            for each in held
            if each.dtype is not None
        }
        columns = decode_examples(self._batch, schema, strings="batch") if schema else {}
        return [_values(each, columns.get(each.name)) for each in held]


def _described(record: bytes) -> tuple[Held, ...]:
    found = [Held(name, dtype) for name, (dtype, _) in infer_features(record).items()]
    for name, kinds in infer_feature_lists(record).items():
        dtypes = {dtype for dtype, _ in kinds if dtype is not None}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        found.append(Held(name, dtype, is_list=True, mixed=bool(dtypes)))
    if not found and len(record) > len(b"\n\0\x12\0"):  # protobuf takes fields it does not know
        raise TFIOStoreError("no feature of a tf.train.Example is in it")
    return tuple(sorted(found, key=lambda held: (held.name, held.is_list)))


def _values(held: Held, column: Any) -> Values:
    if held.mixed:
        return Values(np.zeros(0), fault="its steps hold values of several kinds")
    if column is None:
        return Values(np.zeros(0), 0 if held.is_list else None)
    inner = column.values
    return Values(inner.values, len(inner)) if held.is_list else Values(inner)
