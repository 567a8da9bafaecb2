"""tf.train.Example in plain Python: what `_example` does, written for clarity instead of speed.

It is used if the compiled module can't be loaded, and by tests as its twin. The wire format is
drawn in ext/example/example.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example.pure_encoding import (
    Learner,
    encode_columns,
    encode_example,
    encode_sequence_columns,
    encode_sequence_example,
)
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.damage import not_an_example

__all__ = [
    "Learner",
    "Spans",
    "describe",
    "describe_lists",
    "encode_columns",
    "encode_example",
    "encode_sequence_columns",
    "encode_sequence_example",
]

BYTES, FLOAT, INT64 = 1, 2, 3
KINDS = ("no", "bytes", "float", "int64")
_IN_SCHEMAS = ("", "bytes", "float32", "int64")
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


class _Corrupt(Exception):
    """The bytes are not the message; the argument says how."""


class _Mismatch(Exception):
    """The feature is not what the reader asked for; the argument says how."""


class _Missing(Exception):
    """There is no such feature, or it holds no list."""


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value & 2**64 - 1, at + i + 1
    raise _Corrupt("a varint is cut or longer than 10 bytes")


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """(number, wire type, payload) of each field; a varint's payload is its bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number or tag >= 2**32:
            raise _Corrupt("a field's tag is not valid")
        if wire == LENGTH:
            size, at = _read_varint(data, at)
        elif wire == VARINT:
            size = _read_varint(data, at)[1] - at
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise _Corrupt("a field has a wire type that Examples do not use")
        if size > len(data) - at:
            raise _Corrupt("a length reaches past the end of what holds it")
        yield number, wire, data[at : at + size]
        at += size


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    return (body for n, wire, body in _fields(data) if n == number and wire == LENGTH)


def _entries(record: memoryview, map_field: int) -> Iterator[tuple[bytes, memoryview]]:
    for features in _messages(record, map_field):
        for entry in _messages(features, 1):
            found: dict[int, memoryview] = {}
            for number, wire, body in _fields(entry):
                if (
                    wire == LENGTH
                    and number in (1, 2)
                    and found.setdefault(number, body) is not body
                ):
                    raise _Corrupt("a map entry has its key or its value twice")
            yield bytes(found.get(1, b"")), found.get(2, entry[:0])


def _open(feature: memoryview) -> tuple[int, list[memoryview]]:
    """Return the kind, and the lists of the last run of that kind, because Feature is a oneof."""
    kind = 0
    lists: list[memoryview] = []
    for number, wire, body in _fields(feature):
        if wire != LENGTH or number > INT64:
            continue
        lists = [*lists, body] if number == kind else [body]
        kind = number
    return kind, lists


def _values(feature: memoryview, kind: int) -> list[Any]:
    found, lists = _open(feature)
    if not found:
        raise _Missing
    if found != kind:
        raise _Mismatch(
            f"holds {KINDS[found]} values, where {KINDS[kind]} is wanted; its dtype in the schema "
            f"must be {_IN_SCHEMAS[found]!r}"
        )
    values: list[Any] = []
    for field in (field for body in lists for field in _fields(body) if field[0] == 1):
        values.extend(_TAKE[kind](*field[1:]))
    return values


def _take_bytes(wire: int, body: memoryview) -> list[memoryview]:
    return [body] if wire == LENGTH else []


def _take_floats(wire: int, body: memoryview) -> list[np.float32]:
    if wire not in (LENGTH, FIXED32):
        return []
    if len(body) % 4:
        raise _Corrupt("the size of packed floats is no multiple of 4")
    return list(np.frombuffer(body, "<f4"))


def _take_int64s(wire: int, body: memoryview) -> list[int]:
    values, at = [], 0
    while wire in (LENGTH, VARINT) and at < len(body):
        value, at = _read_varint(body, at)
        values.append(struct.unpack("<q", struct.pack("<Q", value))[0])
    return values


_TAKE: dict[int, Any] = {BYTES: _take_bytes, FLOAT: _take_floats, INT64: _take_int64s}


class Spans:
    """The features as memoryviews: ``rows[column][record]``, None where absent."""

    def __init__(
        self,
        keys: list[bytes],
        rows: list[list[memoryview | None]],
        starts: list[int],
        data: Any,
        owners: list[int] | None = None,
    ) -> None:
        self.keys, self._rows, self._starts, self._data = keys, rows, starts, data
        self._owners = owners  # the record that each step is of

    @staticmethod
    def locate(
        buffer: BytesLike,
        offsets: Int64Array,
        lengths: Int64Array,
        keys: list[bytes],
        map_field: int = 1,
    ) -> Spans:
        data = memoryview(buffer).cast("B").toreadonly()
        spans = Spans(list(keys), [[] for _ in keys], offsets.tolist(), data)
        for i, (start, size) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
            if start < 0 or size < 0 or start > len(data) - size:
                raise ValueError(f"record {i} lies outside the buffer")
            try:
                found = dict(_entries(data[start : start + size], map_field))
            except _Corrupt as error:
                raise spans._corrupt(i, error) from None
            for key, row in zip(keys, spans._rows, strict=True):
                row.append(found.get(key))
        return spans

    def __len__(self) -> int:
        return len(self._starts)

    def _corrupt(self, record: int, error: Exception) -> CorruptRecordError:
        number = record if self._owners is None else self._owners[record]
        return not_an_example(error, offset=self._starts[record], record=number)

    def _read(self, column: int, record: int, kind: int) -> list[Any] | None:
        """None where the feature is absent."""
        feature = self._rows[column][record]
        try:
            return None if feature is None else _values(feature, kind)
        except _Missing:
            return None
        except _Corrupt as error:
            raise self._corrupt(record, error) from None
        except _Mismatch as error:
            raise self._mismatch(column, record, str(error)) from None

    def _mismatch(self, column: int, record: int, reason: str) -> SchemaError:
        name = self.keys[column].decode("utf-8", "replace")
        return SchemaError(reason, feature=name, record=record)

    def counts(self, column: int, kind: int) -> Int64Array:
        if not 1 <= kind <= 3:
            raise ValueError(f"kind must be 1 to 3, not {kind}")
        rows = (self._read(column, i, kind) for i in range(len(self)))
        return np.array([len(row or ()) for row in rows], np.int64)

    def present(self, column: int) -> BoolArray:
        return np.array([feature is not None for feature in self._rows[column]], bool)

    def _flat(
        self,
        column: int,
        kind: int,
        *,
        splits: Any = None,
        width: int = 1,
        fallback: Any = None,
        valid: Any = None,
    ) -> list[Any]:
        flat: list[Any] = []
        if fallback is not None and len(fallback) != width:
            raise ValueError(f"fallback has {len(fallback)} values, {width} wanted")
        if valid is not None and len(valid) != len(self):
            raise ValueError("valid must have a place for each record")
        for i in range(len(self)):
            wanted = width if splits is None else int(splits[i + 1] - splits[i])
            row = self._read(column, i, kind)
            if valid is not None:
                valid[i] = row is not None and len(row) == wanted
                row = row or [b"" if kind == BYTES else 0] * wanted
            if row is None and (fallback is not None or (splits is not None and not wanted)):
                row = list(fallback) if fallback is not None else []
            if row is None:
                raise self._mismatch(column, i, "is missing, and the schema has no default for it")
            if len(row) != wanted:
                raise self._mismatch(
                    column, i, f"holds {len(row)} values, where {wanted} are wanted"
                )
            flat += row
        return flat

    def floats(self, column: int, **wanted: Any) -> npt.NDArray[np.float32]:
        return np.array(self._flat(column, FLOAT, **wanted), np.float32)

    def int64s(self, column: int, **wanted: Any) -> Int64Array:
        return np.array(self._flat(column, INT64, **wanted), np.int64)

    def fixed(self, columns: list[int], widths: list[int], kinds: list[int]) -> None:
        """None: each column is read by itself."""

    def objects(self, column: int, **wanted: Any) -> npt.NDArray[Any]:
        flat = self._flat(column, BYTES, **wanted)
        out = np.empty(len(flat), object)
        out[:] = [bytes(value) for value in flat]
        return out

    def spans(self, column: int, **wanted: Any) -> tuple[Int64Array, Int64Array]:
        flat = self._flat(column, BYTES, **wanted)
        base = _address(self._data)
        offsets = [_address(value) - base if len(value) else 0 for value in flat]
        return np.array(offsets, np.int64), np.array([len(value) for value in flat], np.int64)

    def joined(self, column: int, **wanted: Any) -> tuple[npt.NDArray[np.uint8], Int64Array]:
        flat = self._flat(column, BYTES, **wanted)
        offsets = np.zeros(len(flat) + 1, np.int64)
        np.cumsum([len(value) for value in flat], out=offsets[1:])
        return np.frombuffer(b"".join(flat), np.uint8), offsets

    def steps(self, column: int) -> tuple[Int64Array, Spans]:
        splits = np.zeros(len(self) + 1, np.int64)
        steps: list[memoryview | None] = []
        for i, feature_list in enumerate(self._rows[column]):
            try:
                steps += [] if feature_list is None else _messages(feature_list, 1)
            except _Corrupt as error:
                raise self._corrupt(i, error) from None
            splits[i + 1] = len(steps)
        starts = np.repeat(self._starts, np.diff(splits)).tolist()
        owners = np.repeat(np.arange(len(self)), np.diff(splits)).tolist()
        return splits, Spans([self.keys[column]], [steps], starts, self._data, owners)


class Columns:
    """None: each part is decoded by itself."""

    def __init__(self, *asked: object) -> None:
        del asked

    def begin(self, threads: int, at_once: int) -> bool:
        return False

    def begins(self, patience: float) -> bool:
        return False

    def done(self) -> bool:
        return True

    def result(self) -> None:
        return None


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


def describe(record: BytesLike, /) -> list[tuple[bytes, int, int]]:
    with _whole():
        entries = _entries(memoryview(record).cast("B"), 1)
        return [(key, *_kind_and_count(value)) for key, value in entries]


def describe_lists(
    record: BytesLike, /
) -> list[tuple[bytes, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    found = []
    with _whole():
        for key, value in _entries(memoryview(record).cast("B"), 2):
            steps = [_kind_and_count(step) for step in _messages(value, 1)]
            kinds = np.array([kind for kind, _ in steps], np.uint8)
            found.append((key, kinds, np.array([count for _, count in steps], np.int64)))
    return found


def _kind_and_count(feature: memoryview) -> tuple[int, int]:
    kind = _open(feature)[0]
    return kind, len(_values(feature, kind)) if kind else 0


@contextmanager
def _whole() -> Iterator[None]:
    try:
        yield
    except _Corrupt as error:
        raise not_an_example(error) from None
