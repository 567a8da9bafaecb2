"""Decodes batches of records of which nothing is promised.

The decoder of `tfio_store.example` refuses a batch if one record is not what was said. Here each
record may hold what it likes: a feature of two dtypes becomes two columns, and records that are no
Examples are distinguished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example.decoding import splits_of
from tfio_store.example.feature import ClassLabel, Feature
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compiled import load
from tfio_store.records.framing import RecordBatch
from tfio_store.tables.infer import EMPTY_EXAMPLES
from tfio_store.tables.media_types import visible

if TYPE_CHECKING:
    from tfio_store.example import _example
else:
    _example = load("example", "tfio_store.example._example", "tfio_store.example.pure")


_DTYPES = {0: "none", 1: "bytes", 2: "float32", 3: "int64"}

_BYTES, _FLOATS = 1, 2
_FEATURES, _LISTS = 1, 2
_LONG = 64 << 10
"""Records of so many bytes are not copied."""

_MOST_VALUES = 12 << 20
_MOST_STRINGS = 3 << 20
"""A column of more values than that, which are of one record, is counted and not decoded."""


@dataclass(frozen=True, slots=True)
class Key:
    """A feature's name in records, and whether it is a feature list."""

    name: bytes
    sequence: bool


@dataclass(frozen=True, slots=True)
class Column:
    """One feature of some records, with values of one dtype.

    ``rows`` are those of the batch that have it, and ``counts`` how many values each of them has.
    ``values`` is a flat array; of byte strings an int64 array [n, 2] of their offsets and lengths
    in ``buffer``. ``steps`` counts the steps of a feature list.
    """

    key: Key
    dtype: str
    rows: Int64Array
    counts: Int64Array
    values: npt.NDArray[Any]
    buffer: memoryview
    steps: Int64Array | None = None

    def strings(self, places: Int64Array | None = None) -> Iterator[bytes]:
        """The byte strings, one after another; or those at these places."""
        view = self.buffer
        spans = self.values if places is None else self.values[places]
        return (bytes(view[at : at + size]) for at, size in spans.tolist())

    def owners(self, places: Int64Array) -> Int64Array:
        """The rows of the batch whose values are at these places."""
        return owners_of(self.rows, self.counts, places)


def owners_of(rows: Int64Array, counts: Int64Array, places: Int64Array) -> Int64Array:
    """Those of ``rows``, each of which has so many values, whose values are at these places."""
    found: Int64Array = rows[np.searchsorted(np.cumsum(counts), places, side="right")]
    return found


@dataclass(slots=True)
class Decoded:
    """``odd`` are rows that are no Examples."""

    columns: list[Column] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)
    too_long: int = 0
    """Records that have too many values to decode."""


def name_of(key: Key) -> str:
    """A feature's name as text, even if it is none."""
    return key.name.decode("utf-8", "backslashreplace")


def decoded(batch: RecordBatch, wanted: Callable[[Key], bool]) -> Decoded:
    """The columns of all features of the batch that are ``wanted``."""
    found = Decoded()
    seen: set[tuple[bytes, int, int]] = set()
    seen_lists: set[tuple[bytes, int]] = set()
    sound: list[int] = []
    for row, nbytes in enumerate(batch.lengths.tolist()):
        described = _described(batch[row] if nbytes < _LONG else batch.view(row))
        if described is None:
            found.odd.append(row)
            continue
        sound.append(row)
        seen.update(described[0])
        seen_lists |= _kinds_of_lists(described[1])
    kinds: dict[Key, set[int]] = {}
    for name, kind, _ in sorted(seen):
        kinds.setdefault(Key(name, False), set()).add(kind)
    for name, kind in sorted(seen_lists):
        kinds.setdefault(Key(name, True), set()).add(kind)
    keys = {key: kinds[key] - {0} for key in kinds if wanted(key)}
    _Decoder(batch, found).decode(np.array(sound, np.int64), keys)
    return found


def _described(record: BytesLike) -> tuple[list[Any], list[Any]] | None:
    """The features and the feature lists of a record. None if it is no Example."""
    try:
        features, lists = _example.describe(record), _example.describe_lists(record)
    except CorruptRecordError:
        return None
    if not features and not lists and bytes(memoryview(record)[:5]) not in EMPTY_EXAMPLES:
        return None
    return features, lists


def _kinds_of_lists(lists: list[Any]) -> set[tuple[bytes, int]]:
    return {(name, kind) for name, kinds, _ in lists for kind in set(kinds.tolist()) or {0}}


def _kinds_of(record: BytesLike, key: Key) -> set[int]:
    """The kinds of values that a record has of a feature. Where a key repeats, the last counts."""
    features, lists = _described(record) or ([], [])
    if key.sequence:
        return {kind for name, kind in _kinds_of_lists(lists) if name == key.name}
    return set([kind for name, kind, _ in features if name == key.name][-1:])


class _Decoder:
    def __init__(self, batch: RecordBatch, found: Decoded) -> None:
        self._batch = batch
        self._found = found

    def decode(self, rows: Int64Array, keys: dict[Key, set[int]]) -> None:
        if not len(rows):
            return
        for sequence in (False, True):
            mine = {key: kinds for key, kinds in keys.items() if key.sequence == sequence}
            plain = {key: max(kinds, default=0) for key, kinds in mine.items() if len(kinds) < 2}
            self._safely(rows, plain, sequence)
            for key, kinds in mine.items():
                if len(kinds) > 1:
                    self._mixed(rows, key)

    def _mixed(self, rows: Int64Array, key: Key) -> None:
        """A feature whose values are of several kinds, in different records."""
        by_kind: dict[int, list[int]] = {}
        for row in rows.tolist():
            kinds = _kinds_of(self._batch[row], key)
            if len(kinds - {0}) < 2 and kinds:
                by_kind.setdefault(max(kinds), []).append(row)
            elif kinds:
                self._found.odd.append(row)  # steps of two kinds
        for kind, mine in by_kind.items():
            self._safely(np.array(mine, np.int64), {key: kind}, key.sequence)

    def _safely(self, rows: Int64Array, keys: dict[Key, int], sequence: bool) -> None:
        """Decode the rows; halve them, if they can't be, until the odd ones are found."""
        if not keys or not len(rows):
            return
        whole = len(rows) == len(self._batch)
        batch = self._batch if whole else self._batch.take(rows)
        try:
            columns = list(self._columns(batch, rows, keys, sequence))
        except (CorruptRecordError, SchemaError, ValueError):
            if len(rows) == 1:
                self._found.odd.append(int(rows[0]))
                return
            half = len(rows) // 2
            self._safely(rows[:half], keys, sequence)
            self._safely(rows[half:], keys, sequence)
            return
        self._found.columns += columns

    def _columns(
        self, batch: RecordBatch, rows: Int64Array, keys: dict[Key, int], sequence: bool
    ) -> Iterator[Column]:
        names = [key.name for key in keys]
        field_number = _LISTS if sequence else _FEATURES
        spans = _example.Spans.locate(
            batch.buffer, batch.offsets, batch.lengths, names, field_number
        )
        for i, (key, kind) in enumerate(keys.items()):
            has = spans.present(i)
            if sequence:
                splits, steps = spans.steps(i)
                each = steps.counts(0, kind) if kind else np.zeros(len(steps), np.int64)
                totals = splits_of(each)
                counts = totals[splits[1:]] - totals[splits[:-1]]
                values = self._values(steps, 0, kind, totals)
                lengths: Int64Array | None = np.diff(splits)[has]
            else:
                counts = spans.counts(i, kind) if kind else np.zeros(len(rows), np.int64)
                values = self._values(spans, i, kind, splits_of(counts))
                lengths = None
            yield Column(key, _DTYPES[kind], rows[has], counts[has], values, batch.buffer, lengths)

    def _values(self, spans: Any, column: int, kind: int, splits: Int64Array) -> npt.NDArray[Any]:
        """Flat values. Records without any add nothing."""
        if kind == 0:
            return np.zeros(0, np.int64)
        if splits[-1] > (_MOST_STRINGS if kind == _BYTES else _MOST_VALUES):
            self._found.too_long += 1
            none = (0, 2) if kind == _BYTES else 0
            return np.zeros(none, np.float32 if kind == _FLOATS else np.int64)
        if kind == _BYTES:
            return np.stack(spans.spans(column, splits=splits), axis=1)
        read = spans.floats if kind == _FLOATS else spans.int64s
        found: npt.NDArray[Any] = read(column, splits=splits)
        return found


# What a schema says of the values that records hold.


def raw_numbers(
    feature: Feature | None, values: list[bytes]
) -> tuple[npt.NDArray[Any], int] | None:
    """The numbers that byte strings hold by a schema, and how many times are none (NaT). None if
    the schema has bytes, pixels, or what these bytes can't be."""
    if feature is None or not feature.raw or is_pixels(feature):
        return None
    try:
        dtype = feature.item_dtype()
    except (ValueError, TypeError, ImportError):
        return None
    joined = b"".join(values)
    if len(joined) % dtype.itemsize:
        return None
    found = np.frombuffer(joined, dtype)
    if dtype.kind in "mM":
        missing = np.isnat(found)
        return found[~missing].view(np.int64), int(missing.sum())
    if dtype.kind == "b":
        return found.view(np.uint8).astype(np.int64), 0
    if dtype.kind in "iuf":
        return found, 0
    return (found.astype(np.float32), 0) if "float" in dtype.name else None


def is_pixels(feature: Feature | None) -> bool:
    """Whether a schema says raw bytes of an image: [h, w], or [h, w, 1 to 4]."""
    if feature is None or feature.dtype != "uint8" or not feature.raw:
        return False
    shape = feature.shape
    if None in shape or len(shape) not in (2, 3) or 0 in shape:
        return False
    return len(shape) == 2 or shape[2] in (1, 2, 3, 4)


def class_shown(value: int, feature: Feature | None, most: int = 60) -> str:
    """``7``; of a class that has a name ``7 (ship)``, with so many letters of it at most."""
    kind = None if feature is None else feature.kind
    if isinstance(kind, ClassLabel) and 0 <= value < len(kind.names):
        return f"{value} ({visible(kind.names[value])[:most]})"
    return str(value)
