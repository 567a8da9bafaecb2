"""Writing Examples in plain Python: the first half of `pure`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfio_store.example.learned import as_floats, common_shape, raise_two_kinds, raise_two_units
from tfio_store.example.ragged import Ragged
from tfio_store.example.values import (
    check_keys,
    expand,
    plain,
    refuse_null_step,
    shape_of,
    unit_of,
)
from tfio_store.records.arrays import BoolArray, Int64Array

BYTES, FLOAT, INT64 = 1, 2, 3
LENGTH = 2


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | LENGTH]) + _varint(len(body)) + body


def _utf8(name: str, value: bytes | str) -> bytes:
    try:
        return value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError as error:
        raise ValueError(f"feature {name!r}: the text is not valid Unicode: {error}") from None


def _feature(name: str, values: Any) -> bytes:
    """A Feature of what `plain` gives."""
    if isinstance(values, tuple):
        return b""
    if isinstance(values, list):
        return _field(BYTES, b"".join(_field(1, _utf8(name, value)) for value in values))
    kind = _kind_of(values)
    if kind == FLOAT:
        packed = values.astype("<f4").tobytes()
    else:
        packed = b"".join(map(_varint, values.ravel().tolist()))
    return _field(kind, _field(1, packed) if packed else b"")


def _entry(key: str, message: bytes) -> bytes:
    return _field(1, _field(1, key.encode()) + _field(2, message))


def _features(features: dict[str, Any]) -> bytes:
    """A Features message of plain values, in the order given. It lacks nulls."""
    return b"".join(
        _entry(name, _feature(name, value)) for name, value in features.items() if value is not None
    )


def encode_example(features: Mapping[str, Any], /) -> bytes:
    expanded = expand(features)
    return _field(1, _features({name: plain(name, expanded[name]) for name in sorted(expanded)}))


def encode_sequence_example(
    context: Mapping[str, Any], feature_lists: Mapping[str, Sequence[Any]], /
) -> bytes:
    check_keys(feature_lists)
    lists = b"".join(
        _entry(
            name,
            b"".join(_field(1, _step(name, step)) for step in feature_lists[name]),
        )
        for name in sorted(feature_lists)
    )
    return encode_example(context) + _field(2, lists)


def _step(name: str, step: Any) -> bytes:
    values = plain(name, step)
    if values is None:
        refuse_null_step(name)
    return _feature(name, values)


def _check_column(key: str, total: int, splits: Any, width: int, records: int) -> None:
    if splits is None and records * width != total:
        raise ValueError(f"feature {key!r}: {total} values, {records * width} wanted")
    if splits is None:
        return
    rises = len(splits) == records + 1 and bool(np.all(splits[1:] >= splits[:-1]))
    if not rises or splits[0] != 0 or splits[-1] != total:
        raise ValueError(
            f"feature {key!r}: row_splits must be {records + 1} numbers that rise from 0 to {total}"
        )


def _column_values(key: str, values: Any) -> Any:
    if values is None:  # an empty tuple has no kind
        return ()
    if isinstance(values, list):
        for i, value in enumerate(values):
            if type(value) is not bytes and type(value) is not str:
                raise TypeError(f"feature {key!r}: record {i} is {value!r}, not bytes or str")
    if not isinstance(values, tuple):
        return values
    buffer, offsets, lengths = values
    data = memoryview(buffer).cast("B")
    for i, (start, size) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
        if start < 0 or size < 0 or start > len(data) - size:
            raise ValueError(f"feature {key!r}: value {i} lies outside its buffer")
    pairs = zip(offsets.tolist(), lengths.tolist(), strict=True)
    return [bytes(data[start : start + size]) for start, size in pairs]


def encode_columns(
    columns: list[tuple[bytes, Any, Int64Array | None, int, BoolArray | None]], records: int, /
) -> tuple[memoryview, Int64Array]:
    return _joined(_contexts(columns, records))


def encode_sequence_columns(
    context: list[tuple[bytes, Any, Int64Array | None, int, BoolArray | None]],
    feature_lists: list[tuple[bytes, Any, Int64Array, Int64Array | None, int, BoolArray | None]],
    records: int,
    /,
) -> tuple[memoryview, Int64Array]:
    encoded = _contexts(context, records)
    lists = [b""] * records
    for raw, values, steps, splits, width, valid in feature_lists:
        key = raw.decode()
        if len(steps) != records + 1 or steps[0] != 0 or (np.diff(steps) < 0).any():
            raise ValueError(
                f"feature {key!r}: row_splits must be {records + 1} numbers that rise from 0"
            )
        rows = _rows(key, values, splits, width, int(steps[-1]))
        messages = [_field(1, _feature(key, row)) for row in rows]
        for i, has in enumerate(_flags(key, valid, records)):
            if has:
                lists[i] += _entry(key, b"".join(messages[steps[i] : steps[i + 1]]))
    return _joined([record + _field(2, body) for record, body in zip(encoded, lists, strict=True)])


def _contexts(
    columns: list[tuple[bytes, Any, Int64Array | None, int, BoolArray | None]], records: int
) -> list[bytes]:
    """An Example of each record."""
    if not 0 <= records < sys.maxsize // 8:  # int64 offsets
        raise ValueError(f"records must be 0 to {sys.maxsize // 8 - 1}, not {records}")
    ready = []
    for raw, values, splits, width, valid in columns:
        key = raw.decode()
        rows = _rows(key, values, splits, width, records)
        ready.append((key, rows, _flags(key, valid, records)))
    return [
        _field(1, _features({key: rows[i] for key, rows, has in ready if has[i]}))
        for i in range(records)
    ]


def _rows(key: str, values: Any, splits: Int64Array | None, width: int, count: int) -> list[Any]:
    """The values of each of ``count`` rows."""
    if splits is None and width < 0:
        raise ValueError(f"feature {key!r}: {width} values are wanted of each record")
    flat = _column_values(key, values)
    _check_column(key, len(flat), splits, width, count)
    at = (np.arange(count + 1) * width if splits is None else splits).tolist()
    return [flat[at[i] : at[i + 1]] for i in range(count)]


def _flags(key: str, valid: BoolArray | None, records: int) -> Any:
    if valid is not None and len(valid) != records:
        raise ValueError(f"feature {key!r}: {len(valid)} flags of nulls, {records} wanted")
    return [True] * records if valid is None else valid


def _joined(records: list[bytes]) -> tuple[memoryview, Int64Array]:
    offsets = np.zeros(len(records) + 1, np.int64)
    np.cumsum([len(record) for record in records], out=offsets[1:])
    return memoryview(b"".join(records)), offsets


class Learner:
    """Encodes mappings, and notes what their features hold. See `tfio_store.example.learned`."""

    def __init__(self) -> None:
        self._records = self._others = 0
        self._columns: dict[str, list[Any]] = {}
        self._firsts: dict[str, int] = {}
        self._lock = threading.Lock()

    def encode(self, mapping: Mapping[str, Any], /) -> bytes:
        expanded = expand(mapping)
        ready = {name: plain(name, expanded[name]) for name in sorted(expanded)}
        record = _field(1, _features(ready))
        nested = {name for name in ready if isinstance(mapping.get(name), Ragged)}
        with self._lock:
            number = self._records + self._others
            mixed = self._mixed(ready, number)
            if not mixed:
                self._learn(expanded, ready, nested, number)
        return self.encode(as_floats(mapping, mixed, number)) if mixed else record

    def _mixed(self, ready: Mapping[str, Any], number: int) -> dict[str, int]:
        """The features that hold integers, and floats in an earlier record: in which one."""
        mixed = {}
        for name, value in ready.items():
            kind, known = _kind_of(value), self._columns.get(name, [0])[0]
            if (kind, known) == (INT64, FLOAT):
                mixed[name] = self._firsts[name]
            elif kind and known and kind != known:
                raise_two_kinds(name, kind, number, known, self._firsts[name])
        return mixed

    def _learn(
        self,
        expanded: Mapping[str, Any],
        ready: Mapping[str, Any],
        nested: set[str],
        number: int,
    ) -> None:
        for name in expanded:
            self._columns.setdefault(name, [0, 0, 0, 0, 0, 0, [], 0, []])
        for name, value in ready.items():
            column = self._columns[name]
            if value is not None:
                self._note(name, column, expanded[name], value, number)
                column[7] += name in nested
        self._records += 1

    def _note(self, name: str, column: list[Any], given: Any, value: Any, number: int) -> None:
        kind, shape, unit = _kind_of(value), shape_of(given), unit_of(given)
        count = value.size if isinstance(value, np.ndarray) else len(value)
        if unit is not None and unit not in column[8]:
            if column[8]:
                raise_two_units(name, unit, number, column[8][0])
            column[8].append(unit)
        if kind and not column[0]:
            column[0], self._firsts[name] = kind, number
        column[2] = count if not column[1] else min(column[2], count)
        column[3] = max(column[3], count)
        column[1] += 1
        if len(shape) < 2:
            column[5 if shape else 4] = 1
        else:
            shapes = [tuple(each) for each in column[6]]
            column[6] = [list(each) for each in common_shape([*shapes, shape])]

    def skip(self, records: int, /) -> None:
        with self._lock:
            self._others += records

    def state(self) -> dict[str, Any]:
        with self._lock:
            columns = {name: list(column) for name, column in self._columns.items()}
            return {"records": self._records, "others": self._others, "columns": columns}


def _kind_of(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return FLOAT if value.dtype == np.float32 else INT64
    return BYTES if isinstance(value, list) else 0
