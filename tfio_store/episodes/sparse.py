"""Finds single values in a record that is an Example without reading all of it.

The wire format puts a length before everything that is long. So the walk reads a few bytes, and
passes over the rest. What has been passed over has not been checked: the record's CRC is of all of
its bytes.

A record may be an Example in a form that writers do not use: a key twice, a list in pieces, numbers
that are not packed. `UnusualError` says so, and the record is then decoded whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfio_store.episodes.features import Leaf

if TYPE_CHECKING:
    from tfio_store.storage import Store, Version


_NAMES = {1: "bytes", 2: "float32", 3: "int64"}
_KINDS = {name: kind for kind, name in _NAMES.items()}
_Values = tuple[str, list[bytes]]
"""The kind of some values of a list, and what `_values_of` gave."""

_LONGEST_KEY = 4096
_CHEAP = 4 << 10
"""Who reads no more than so many bytes at once reads a file that is near."""


class UnusualError(ValueError):
    """The bytes are no Example, or one of an unusual form."""


class Span(NamedTuple):
    """Where the list of a feature lies: its kind, and bytes ``start:stop`` of the file."""

    wire: str
    start: int
    stop: int


class Ranges:
    """Bytes of one version of an object, ``chunk`` of them at a time."""

    def __init__(
        self, store: Store, path: str, nbytes: int, version: Version, *, chunk: int
    ) -> None:
        self._store, self._path, self._version = store, path, version
        self.nbytes, self._chunk = nbytes, chunk
        self._at, self._held = 0, b""

    def near(self, start: int, stop: int, *, far: bool = False) -> bytes:
        """Bytes ``start:stop``, and what follows them is read too; not where what follows is likely
        to be ``far``, and a request costs little. Fewer at the end of the file."""
        stop = min(stop, self.nbytes)
        if not (self._at <= start and stop <= self._at + len(self._held)):
            ahead = 0 if far and self._chunk <= _CHEAP else self._chunk
            end = min(self.nbytes, max(stop, start + ahead))
            self._at, self._held = start, self.exactly(start, end)
        return self._held[start - self._at : stop - self._at]

    def exactly(self, start: int, stop: int) -> bytes:
        """Bytes ``start:stop`` alone. UnusualError where the file ends before."""
        if self._at <= start and stop <= self._at + len(self._held):
            return self._held[start - self._at : stop - self._at]
        if stop <= start:
            return b""
        data = bytes(self._store.read(self._path, start, stop, etag=self._version).result())
        if len(data) != stop - start:
            raise UnusualError(f"the file ends at byte {start + len(data)}")
        return data


def _spans_of(ranges: Ranges, start: int, stop: int) -> Iterator[tuple[str, Span]]:
    """The features of the record in bytes ``start:stop``, in the order met, by key."""
    seen: set[bytes] = set()
    for tag, inner, end in _fields(ranges, start, stop):
        if tag != 0x0A:
            raise UnusualError(f"it has a field of tag {tag}")
        for entry, first, last in _fields(ranges, inner, end):
            if entry != 0x0A:
                raise UnusualError(f"its features have a field of tag {entry}")
            key, span = _entry(ranges, first, last)
            if key in seen:
                raise UnusualError(f"it has the key {key!r} twice")
            seen.add(key)
            if span is not None:
                yield key.decode("utf-8", "replace"), span


def _entry(ranges: Ranges, start: int, stop: int) -> tuple[bytes, Span | None]:
    fields = list(_fields(ranges, start, stop))
    if [tag for tag, _, _ in fields] not in ([0x0A, 0x12], [0x0A]):
        raise UnusualError("an entry is no key and value")
    _, first, last = fields[0]
    if last - first > _LONGEST_KEY:
        raise UnusualError(f"a key has {last - first} bytes")
    key = ranges.near(first, last)
    if len(fields) == 1:
        return key, None
    lists = list(_fields(ranges, *fields[1][1:]))
    if not lists:
        return key, None
    if len(lists) > 1 or lists[0][0] not in (0x0A, 0x12, 0x1A):
        raise UnusualError(f"the feature {key!r} is no list")
    tag, first, last = lists[0]
    return key, Span(_NAMES[tag >> 3], first, last)


def _fields(
    ranges: Ranges, start: int, stop: int, *, far: bool = False
) -> Iterator[tuple[int, int, int]]:
    """Tag, and bytes of the value, of each field of a message. All must have a length. ``far``:
    values are long, as in a list of images."""
    at = start
    while at < stop:
        head = min(at + (6 if far else 12), stop)
        try:
            tag, length, behind = _head(ranges.near(at, head, far=far))
        except UnusualError:  # a longer length than most
            tag, length, behind = _head(ranges.near(at, min(at + 12, stop)))
        first = at + behind
        if tag & 7 != 2 or length > stop - first:
            raise UnusualError(f"a field of tag {tag} at byte {at} is not what it should be")
        yield tag, first, first + length
        at = first + length


def _head(data: bytes) -> tuple[int, int, int]:
    """The tag, which is of one byte in all that is known here, the length, and where it ends."""
    length = shift = 0
    for i in range(1, len(data)):
        byte = data[i]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return data[0], length, i + 1
        shift += 7
    raise UnusualError("a length is cut")


def count_values(ranges: Ranges, span: Span) -> int:
    """How many values a list has."""
    if span.wire == "bytes":
        return sum(1 for _ in _strings(ranges, span))
    first, last = _packed(ranges, span)
    if span.wire == "float32":
        if (last - first) % 4:
            raise UnusualError("a list of floats is cut")
        return (last - first) // 4
    return len(_ends(ranges.exactly(first, last)))


def _values_of(ranges: Ranges, span: Span, first: int, stop: int) -> list[bytes]:
    """Values ``first:stop`` of a list, as the list has them: of numbers one piece, of strings one
    each. IndexError if it has not so many."""
    if span.wire == "bytes":
        found = []
        for i, (begin, end) in enumerate(_strings(ranges, span)):
            if i >= stop:
                break
            if i >= first:
                found.append(ranges.exactly(begin, end))
        if len(found) != stop - first:
            raise IndexError(first)
        return found
    begin, end = _packed(ranges, span)
    if span.wire == "float32":
        if begin + 4 * stop > end:
            raise IndexError(first)
        return [ranges.exactly(begin + 4 * first, begin + 4 * stop)]
    data = ranges.exactly(begin, end)
    ends = _ends(data)
    if stop > len(ends):
        raise IndexError(first)
    bounds = [0, *(ends + 1).tolist()]
    return [data[bounds[first] : bounds[stop]]]


def _integers_of(ranges: Ranges, span: Span) -> list[int]:
    """All values of a list of integers."""
    if span.wire != "int64":
        raise UnusualError(f"a list of lengths is one of {span.wire}")
    found, value, shift = [], 0, 0
    for byte in ranges.exactly(*_packed(ranges, span)):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value = shift = 0
    return found


def example_of(values: Mapping[str, _Values]) -> bytes:
    """A record of these values alone, by key."""
    entries = bytearray()
    for key, (wire, pieces) in values.items():
        inner = b"".join(_field(0x0A, piece) for piece in pieces)
        feature = _field(_KINDS[wire] << 3 | 2, inner)
        entries += _field(0x0A, _field(0x0A, key.encode()) + _field(0x12, feature))
    return _field(0x0A, bytes(entries))


def find_first(
    ranges: Ranges, start: int, stop: int, keys: Collection[str]
) -> tuple[str, Span] | None:
    """The first list of numbers among these features; where there is none, the shortest of
    strings."""
    best: tuple[str, Span] | None = None
    for key, span in _spans_of(ranges, start, stop):
        if key not in keys:
            continue
        if span.wire != "bytes":
            return key, span
        if best is None or span.stop - span.start < best[1].stop - best[1].start:
            best = key, span
    return best


def record_of_step(
    ranges: Ranges, start: int, stop: int, leaves: Sequence[Leaf], step: int
) -> bytes | None:
    """One step of the record in bytes ``start:stop``, as a record of its own. None where the whole
    record is needed: it shows which values these are, or what is wrong with it."""
    keys = {key for leaf in leaves for key in leaf.keys}
    spans: dict[str, Span] = {}
    values: dict[str, _Values] = {}
    try:
        for key, span in _spans_of(ranges, start, stop):
            if key in keys:
                spans[key] = span
                if len(spans) == len(keys):
                    break
        for leaf in leaves:
            if len(leaf.levels) > 2 or leaf.width is None or not spans.keys() >= set(leaf.keys):
                return None
            values |= _values_at(ranges, leaf, leaf.width, spans, step)
    except (UnusualError, IndexError):
        return None
    return example_of(values)


def _values_at(
    ranges: Ranges, leaf: Leaf, width: int, spans: Mapping[str, Span], step: int
) -> dict[str, _Values]:
    """A leaf's values at a step, for `example_of`."""
    found: dict[str, _Values] = {}
    first, stop = step, step + 1
    for key in leaf.row_keys:
        lengths = _integers_of(ranges, spans[key])
        first, stop = sum(lengths[:step]), sum(lengths[: step + 1])
        found[key] = "int64", _values_of(ranges, spans[key], step, step + 1)
    widths = {leaf.key: width}
    if leaf.shape_key is not None:
        widths[leaf.shape_key] = len(leaf.shape)
    for key, each in widths.items():
        found[key] = spans[key].wire, _values_of(ranges, spans[key], first * each, stop * each)
    return found


def _strings(ranges: Ranges, span: Span) -> Iterator[tuple[int, int]]:
    for tag, first, last in _fields(ranges, span.start, span.stop, far=True):
        if tag != 0x0A:
            raise UnusualError(f"a list has a field of tag {tag}")
        yield first, last


def _packed(ranges: Ranges, span: Span) -> tuple[int, int]:
    """Where the numbers of a list lie."""
    if span.start == span.stop:
        return span.start, span.stop
    tag, length, behind = _head(ranges.near(span.start, min(span.start + 12, span.stop)))
    if tag != 0x0A or span.start + behind + length != span.stop:
        raise UnusualError("a list of numbers is not in one piece")
    return span.start + behind, span.stop


def _ends(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each varint ends."""
    array = np.frombuffer(data, np.uint8)
    if len(array) and array[-1] >= 0x80:
        raise UnusualError("a list of integers is cut")
    return np.flatnonzero(array < 0x80)


def _field(tag: int, value: bytes) -> bytes:
    length, head = len(value), bytearray([tag])
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + value
