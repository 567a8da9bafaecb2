"""Keeps count of every feature and of repeated records, batch by batch, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from operator import le, ne
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import RecordBatch
from tfio_store.show.columns import Column, Key, decoded, name_of, owners_of, raw_numbers
from tfio_store.show.strings import Issue, Strings
from tfio_store.tables.held_numbers import Budget, Held

# Finds records that are there more than once.


_MOST_HASHES = 2 << 20
_MOST_ROWS = 100
_LONG = 64 << 10
"""Records of so many bytes are not copied."""


def _hash(record: memoryview) -> int:
    return hash(blake2b(record, digest_size=16).digest())


class Repeats:
    """Takes batches. Records beyond the first two million count no more."""

    def __init__(self) -> None:
        self._hashes: list[Int64Array] = []
        self._rows: list[Int64Array] = []
        self.records = 0

    def add(self, batch: RecordBatch, rows: Int64Array) -> None:
        if self.records + len(batch) > _MOST_HASHES:
            return
        self.records += len(batch)
        found = (
            hash(batch[i]) if nbytes < _LONG else _hash(batch.view(i))
            for i, nbytes in enumerate(batch.lengths.tolist())
        )
        self._hashes.append(np.fromiter(found, np.int64, len(batch)))
        self._rows.append(rows)

    def found(self) -> tuple[int, list[int]]:
        """How many records are the same as an earlier one; and rows of those that are not
        alone."""
        if not self.records:
            return 0, []
        hashes, rows = np.concatenate(self._hashes), np.concatenate(self._rows)
        _, back, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        again = np.flatnonzero((counts[back] > 1) & (rows >= 0))
        order = np.argsort(-counts[back[again]], kind="stable")[:_MOST_ROWS]
        return len(hashes) - len(counts), rows[again[order]].tolist()


# Keeps count of every feature, batch by batch, in bounded memory.


RECORD = "(record)"
"""The name of a record as a feature, if it is no Example."""

_MOST_FEATURES = 1000
MOST_NAMES = 100_000
_MOST_CLASSES = 10_000
_MOST_CLASSES_WITH_ROWS = 200
_MOST_STRINGS = 8192
_FEW_STRINGS = 4
"""So many lists of byte strings in each slice of records are looked at."""

_MOST_AT_ONCE = 1 << 18
_SLICE_BYTES = 8 << 20
_SLICE_CELLS = 1 << 20


@dataclass
class FeatureTally:
    """One feature. ``dtypes`` counts the records that have values of each dtype."""

    name: str
    sequence: bool
    feature: Feature | None
    """Of the schema."""
    counts: Held
    """Values of each record that has it."""
    numbers: Held
    strings: Strings
    present: int = 0
    values: int = 0
    dtypes: Counter[str] = field(default_factory=Counter)
    classes: Counter[int] | None = field(default_factory=Counter)
    """How often each integer occurs. None once there are too many."""
    not_numbers: Issue = field(default_factory=Issue)
    misfits: Issue = field(default_factory=Issue)
    """Records that do not hold what the schema says."""
    misfit: str = ""
    """The contents of the first of them."""
    dtype_rows: dict[str, list[int]] = field(default_factory=dict)
    """Some records of each dtype."""
    padded: Issue = field(default_factory=Issue)
    """Records whose lists end with several zeros."""
    padding: set[int] = field(default_factory=set)
    """The numbers of zeros at the ends, as far as they were noted."""
    padding_zeros: int = 0
    singles: bool = True
    """Whether each record that has it has one value."""
    class_rows: dict[Any, list[int]] = field(default_factory=dict)
    changes: int = 0
    """How often a single value differs from the one before."""
    rising: bool = True
    """Whether none is below the one before."""
    last: Any = None

    @property
    def dtype(self) -> str:
        """That of most records."""
        found = [(n, dtype) for dtype, n in self.dtypes.items() if dtype != "none"]
        return max(found)[1] if found else "none"


Owners: TypeAlias = "Callable[[Int64Array], Int64Array]"
"""Finds the rows of the records that the values at some places are of."""


class Tallies:
    """All features of a sample."""

    def __init__(self, schema: Schema | None, seed: int) -> None:
        self._schema = schema
        self._seed = seed
        self._budget = Budget()
        self.features: dict[Key, FeatureTally] = {}
        self.more: set[Key] = set()
        """Features that are not counted, because there are too many."""
        self.records = 0
        self.odd = Issue()
        """Records that are no Examples."""
        self.whole = self._new(RECORD, False, None)
        """Those records, as if each was the value of a feature."""
        self.too_long = 0
        self.repeats = Repeats()

    def _new(self, name: str, sequence: bool, feature: Feature | None) -> FeatureTally:
        counts, numbers = (Held(self._budget, self._seed) for _ in range(2))
        strings = Strings(self._budget, self._seed)
        return FeatureTally(name, sequence, feature, counts, numbers, strings)

    def wanted(self, key: Key) -> bool:
        """Whether a feature is counted: the first ones that are met."""
        if key in self.features:
            return True
        if len(self.features) >= _MOST_FEATURES:
            if len(self.more) < MOST_NAMES:
                self.more.add(key)
            return False
        name = name_of(key)
        feature = None if self._schema is None else self._schema.get(name)
        if feature is not None and feature.sequence != key.sequence:
            feature = None
        self.features[key] = self._new(name, key.sequence, feature)
        return True

    def add(self, batch: RecordBatch, rows: Int64Array) -> tuple[list[Column], list[int]]:
        """Count the records of a batch; ``rows`` are theirs in the sample, or -1. Returns the
        columns of byte strings, whose rows are then those of the batch, and the records that are
        no Examples."""
        found: list[Column] = []
        every_odd: list[int] = []
        for start, stop in self._slices(batch):
            part = decoded(batch[start:stop], self.wanted)
            mine = rows[start:stop]
            self.records += stop - start
            self.repeats.add(batch[start:stop], mine)
            self.too_long += part.too_long
            odd = sorted(set(part.odd))
            self._add_odd(batch[start:stop], odd, mine)
            every_odd += [start + i for i in odd]
            for column in part.columns:
                self._add(self.features[column.key], column, mine)
                if column.dtype == "bytes":
                    np.add(column.rows, start, out=column.rows)
                    found.append(column)
        return found, every_odd

    def _slices(self, batch: RecordBatch) -> list[tuple[int, int]]:
        """Runs of records that are few enough to be decoded at once."""
        most = max(1, _SLICE_CELLS // max(1, len(self.features)))
        ends = np.cumsum(batch.lengths)
        cuts, start = [], 0
        while start < len(batch):
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + _SLICE_BYTES, side="right"))
            stop = min(max(stop, start + 1), start + most)
            cuts.append((start, stop))
            start = stop
        return cuts

    def _add_odd(self, batch: RecordBatch, odd: list[int], rows: Int64Array) -> None:
        if not odd:
            return
        values = [batch[i] for i in odd]
        mine = rows[odd].tolist()
        for row in mine:
            self.odd.note(row)
        self.whole.present += len(values)
        self.whole.values += len(values)
        self.whole.dtypes["bytes"] += len(values)
        self.whole.strings.add(values, mine)
        self.whole.strings.lengths.add(batch.lengths[odd])

    def _add(self, tally: FeatureTally, column: Column, rows: Int64Array) -> None:
        mine = rows[column.rows]
        tally.present += len(column.rows)
        tally.values += int(column.counts.sum())
        if len(column.rows):
            tally.dtypes[column.dtype] += len(column.rows)
            noted = tally.dtype_rows.setdefault(column.dtype, [])
            if len(noted) < _MOST_ROWS:
                noted += mine[mine >= 0][: _MOST_ROWS - len(noted)].tolist()
        counts = column.counts if column.steps is None else column.steps
        tally.counts.add(counts)
        tally.singles = tally.singles and bool((column.counts == 1).all())
        _hold_to_schema(tally, column, mine)
        if column.dtype == "bytes":
            self._add_strings(tally, column, rows)
        elif len(column.values):
            self._add_numbers(tally, column.values, partial(owners_of, mine, column.counts))
            if tally.singles and column.steps is None and column.dtype == "int64":
                values = column.values
                ends = values[[0, -1]].tolist()
                _follow(tally, ends, int(np.count_nonzero(values[1:] != values[:-1])))
                tally.rising = tally.rising and bool((values[1:] >= values[:-1]).all())
            _look_for_padding(tally, column, mine)

    def _add_strings(self, tally: FeatureTally, column: Column, rows: Int64Array) -> None:
        """``rows`` are those of the sample, of all records of the slice."""
        if not len(column.values):
            return
        if tally.feature is not None and tally.feature.raw:
            values = list(column.strings())
            raw = raw_numbers(tally.feature, values)
            if raw is not None:
                self._add_raw(tally, column, raw, rows)
                return
        places = None
        if len(column.values) > max(_MOST_STRINGS, _FEW_STRINGS * len(column.rows)):
            tally.strings.exact = False
            chance = np.random.default_rng([self._seed, 5, tally.values])
            found = chance.choice(len(column.values), _MOST_STRINGS, replace=False)
            places = np.sort(found)
        values = list(column.strings(places))
        every = np.arange(len(column.values)) if places is None else places
        tally.strings.add(values, rows[column.owners(every)].tolist())
        tally.strings.lengths.add(column.values[:, 1])
        if tally.singles and column.steps is None:
            _follow(tally, values, sum(map(ne, values, values[1:])))
            tally.rising = tally.rising and all(map(le, values, values[1:]))

    def _add_raw(
        self,
        tally: FeatureTally,
        column: Column,
        raw: tuple[npt.NDArray[Any], int],
        rows: Int64Array,
    ) -> None:
        """Numbers that byte strings hold."""
        numbers, missing = raw
        tally.numbers.nans += missing
        more = len(numbers) + missing - len(column.values)
        tally.values += more
        tally.singles = tally.singles and not more
        single = bool((column.counts == 1).all()) and len(numbers) % len(column.rows) == 0
        counts = np.full(len(column.rows), len(numbers) // len(column.rows))
        owners = partial(owners_of, rows[column.rows], counts) if single else None
        self._add_numbers(tally, numbers, owners)
        tally.strings.lengths.add(column.values[:, 1])

    def _add_numbers(
        self, tally: FeatureTally, values: npt.NDArray[Any], owners: Owners | None
    ) -> None:
        tally.numbers.add(values)
        if values.dtype.kind == "f":
            odd = np.flatnonzero(~np.isfinite(values))
            if len(odd) and owners is not None:
                for row in owners(odd).tolist():
                    tally.not_numbers.note(row)
            tally.classes = None
        elif tally.classes is not None and len(values) > _MOST_AT_ONCE and not tally.singles:
            tally.classes, tally.class_rows = None, {}  # long lists are no classes
        elif tally.classes is not None:
            self._count_classes(tally, values, owners)

    def _count_classes(
        self, tally: FeatureTally, values: npt.NDArray[Any], owners: Owners | None
    ) -> None:
        assert tally.classes is not None
        before = len(tally.classes)
        found, first, counts = np.unique(values, return_index=True, return_counts=True)
        tally.classes.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        count = len(tally.classes)
        if not self._budget.take_distinct(count, before) or count > _MOST_CLASSES:
            self._budget.distinct += count
            tally.classes, tally.class_rows = None, {}
            return
        if count > _MOST_CLASSES_WITH_ROWS or owners is None:
            tally.class_rows = {}
            return
        for value, row in zip(found.tolist(), owners(first).tolist(), strict=True):
            noted = tally.class_rows.setdefault(value, [])
            if len(noted) < 8 and row >= 0:
                noted.append(row)


def _hold_to_schema(tally: FeatureTally, column: Column, rows: Int64Array) -> None:
    """Note the records that do not hold what the schema says of the feature."""
    feature = tally.feature
    if feature is None or not len(column.rows) or feature.sequence:
        return
    if column.dtype not in (feature.wire, "none"):
        wrong = np.ones(len(column.rows), bool)
        what = f"{column.dtype} values"
    elif feature.raw:
        return
    else:
        counts = column.counts
        if feature.ragged:
            wrong = counts % max(1, feature.width) != 0
        else:
            wrong = (counts != feature.width) & ~(feature.nullable & (counts == 0))
        what = f"{int(counts[wrong][0]):,} values" if wrong.any() else ""
    if not wrong.any():
        return
    tally.misfit = tally.misfit or what
    for row in rows[wrong].tolist():
        tally.misfits.note(row)


def _follow(tally: FeatureTally, values: Sequence[Any], changes: int) -> None:
    """Count how often the value changes from record to record. Of the values, the first and the
    last one count: those between have ``changes``."""
    if tally.last is not None:
        changes += tally.last != values[0]
        same = type(tally.last) is type(values[0])
        tally.rising = tally.rising and same and tally.last <= values[0]
    tally.changes += changes
    tally.last = values[-1]


_LEAST_PADDED = 8


def _look_for_padding(tally: FeatureTally, column: Column, rows: Int64Array) -> None:
    """Note lists of integers that are all of one length, and end with zeros."""
    counts = column.counts
    if column.values.dtype.kind != "i" or not len(counts) or column.steps is not None:
        return
    width = int(counts[0])
    if width < _LEAST_PADDED or (counts != width).any() or len(column.values) != width * len(rows):
        return
    table = column.values.reshape(-1, width)
    behind = np.argmax(table[:, ::-1] != 0, axis=1)
    behind[~table.any(axis=1)] = width
    padded = behind >= 2
    tally.padding_zeros += int(behind[padded].sum())
    if len(tally.padding) < 1000:
        tally.padding |= set(behind[padded].tolist())
    for row in rows[padded].tolist():
        tally.padded.note(row)
