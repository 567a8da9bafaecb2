"""Some records of a source, and records as plain Python values: for a screen, and for JSON."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset, Limits
from tfio_store.dataset.source import Source, of_source, open_dataset
from tfio_store.errors import DataLossError, SchemaError
from tfio_store.example import Nullable, Ragged, decode_examples
from tfio_store.example.arrow_types import zoned
from tfio_store.example.ragged import valid_rows
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.read.stream import is_file_object
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.texts import unknown
from tfio_store.storage import Storage
from tfio_store.tables.infer import FIRST, first_schema, schema_of_records
from tfio_store.tables.texts import iso_texts

# Some records of a source: its first, its last, a sample, or those of given numbers.


_MOST_ROWS = 4096
"""So many rows are decoded at once."""

_MOST_CELLS = 4 << 20
"""Rows times features that are decoded at once: where each record has features of its own, their
table is mostly empty, and far larger than they are."""

Row = dict[str, Any]

LITTLE = 32 << 20
"""Bytes in flight for who wants few records."""

_AT_ONCE = 256
"""Records that one round of random reads brings."""


@dataclass(frozen=True)
class Selection:
    """Picks records of one source. Each way gives them as batches, as they are read."""

    source: Source | BinaryIO
    """An open file is read once, from where it stands, and has no numbers."""
    storage: Storage | None = None
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES

    def all(self) -> Iterator[RecordBatch]:
        """Every record, in order."""
        return self._batches(MEMORY_BUDGET)

    def _batches(self, memory_budget: int) -> Generator[RecordBatch, None, None]:
        if self._stream is not None:
            yield from self._stream.batches()
            return
        with RecordReader.of(
            self.dataset, memory_budget=memory_budget, max_record_bytes=self.max_record_bytes
        ) as reader:
            yield from reader.batches()

    def first(self, count: int) -> Iterator[RecordBatch]:
        """The first ``count`` records, or all if there are fewer."""
        if count < 1:
            return
        with contextlib.closing(self._batches(LITTLE)) as batches:
            for batch in batches:
                yield batch[:count]
                count -= len(batch)
                if count <= 0:
                    return

    def last(self, count: int) -> Iterator[RecordBatch]:
        """The last ``count`` records, or all if there are fewer. A compressed stream is read
        whole."""
        if self._can_seek():
            source = self._by_number()
            yield from _fetched(source, range(max(0, len(source) - count), len(source)))
            return
        kept: deque[bytes] = deque(maxlen=count)
        for batch in self.all():
            kept.extend(batch[max(0, len(batch) - count) :])
        yield RecordBatch.from_records(kept)

    def sample(self, count: int, seed: int | None = None) -> Iterator[RecordBatch]:
        """``count`` records by chance, each at most once, in their order. A compressed stream is
        read whole. The same ``seed`` gives the same records."""
        chance = random.Random(seed)
        if self._can_seek():
            source = self._by_number()
            found = chance.sample(range(len(source)), min(count, len(source)))
            yield from _fetched(source, sorted(found))
            return
        kept: list[tuple[int, bytes]] = []
        for number, record in enumerate(record for batch in self.all() for record in batch):
            place = number if number < count else chance.randrange(number + 1)
            if place < count:
                kept[place : place + 1] = [(number, record)]
        yield RecordBatch.from_records(record for _, record in sorted(kept))

    def numbered(self, numbers: str) -> Iterator[RecordBatch]:
        """The records of these numbers (see `parse_numbers`), in this order.

        ValueError for what is no number; IndexError for a number that no record has.
        """
        source = self._by_number()
        yield from _fetched(source, parse_numbers(numbers, len(source)))

    def rows(
        self, batches: Iterable[RecordBatch], columns: Sequence[str] | None = None
    ) -> Iterator[Row]:
        """Each record as a mapping of feature names to None, bool, int, float, str, bytes or lists.

        The schema of a manifest says what the features are. Without one, records decide: nothing
        that they hold is left out, and what is a single value in the first 1,000 records of the
        source is no list. What a record shows does not hang on the records beside it: those
        features of the first 1,000 that it lacks are None, and others it has or has not.

        Raises:
            ValueError: there is no such column.
            SchemaError: a record does not hold what the manifest's schema says.
            CorruptRecordError: a record is no Example.
        """
        source, known = self._named, self.dataset.schema
        first, scalars = 0, None
        for whole in batches:
            for start in range(0, len(whole), _MOST_ROWS):
                batch = whole[start : start + _MOST_ROWS]
                with of_source(source, first):
                    if known is None and scalars is None:
                        scalars = self._scalars(batch)
                for begin, part, schema in slices_of(batch, source, first, known, empty=True):
                    with of_source(source, first + begin):
                        yield from _rows(part, schema, scalars or {}, columns)
                first += len(batch)

    def _scalars(self, batch: RecordBatch) -> dict[str, bool]:
        """Whether a record has a single value, for each feature. Where a first record of the
        source is no Example, the ``batch`` decides."""
        try:
            if self._stream is not None:
                found = schema_of_records(self._stream.first)
            else:
                found = first_schema(self.dataset, max_record_bytes=self.max_record_bytes)
        except (DataLossError, SchemaError):
            found = schema_of_records(batch)
        return {n: (of.shape[1:] if of.sequence else of.shape) == () for n, of in found.items()}

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset that the source names."""
        if is_file_object(self.source):
            assert self._stream is not None
            return self._stream.dataset
        limits = Limits(max_record_bytes=self.max_record_bytes)
        return open_dataset(self.source, self.storage, limits=limits)

    @cached_property
    def _stream(self) -> _Stream | None:
        if is_file_object(self.source):
            return _Stream(self.source, self.max_record_bytes)
        return None

    @property
    def _named(self) -> Source:
        """The source, as errors name it."""
        return self.dataset.shards[0].url if is_file_object(self.source) else self.source

    def _by_number(self) -> RecordSource:
        return RecordSource(self.dataset, max_record_bytes=self.max_record_bytes)

    def _can_seek(self) -> bool:
        if self._stream is not None:
            return False
        dataset = self.dataset
        return dataset.has_blocks or all(
            shard.blocks is not None or codec_of(dataset, i) is None
            for i, shard in enumerate(dataset.shards)
        )


class _Stream:
    """The records of an open file, whose first ones are known before they are given."""

    def __init__(self, file: BinaryIO, max_record_bytes: int) -> None:
        self._reader = RecordReader(file, max_record_bytes=max_record_bytes)
        self.dataset = self._reader.dataset
        self.first: list[bytes] = []

    def batches(self) -> Iterator[RecordBatch]:
        held, failed = [], None
        rest = self._reader.batches()
        try:
            while len(self.first) < FIRST and (batch := next(rest, None)) is not None:
                held.append(batch)
                self.first += batch[: FIRST - len(self.first)]
        except (DataLossError, OSError) as error:
            failed = error
        yield from held
        if failed is not None:
            raise failed
        yield from rest


def _fetched(source: RecordSource, numbers: Iterable[int]) -> Iterator[RecordBatch]:
    wanted = list(numbers)
    for start in range(0, len(wanted), _AT_ONCE):
        yield RecordBatch.from_records(source[wanted[start : start + _AT_ONCE]])


def parse_numbers(text: str, size: int) -> list[int]:
    """The numbers that a text such as ``0,2:5,-1`` means in a source of ``size`` records.

    ``2:5`` is 2, 3 and 4, as in Python. Negative numbers count from the end.

    Raises:
        ValueError: a part is neither a number nor a range.
        IndexError: there is no record of that number.
    """
    found: list[int] = []
    for part in text.split(","):
        bounds = [bound.strip() for bound in part.split(":")]
        try:
            values = [int(bound) if bound else None for bound in bounds]
        except ValueError:
            values = []
        if len(values) == 1 and values[0] is not None:
            if not -size <= values[0] < size:
                raise IndexError(f"there is no record {values[0]}: the source has {size} records")
            found.append(values[0] % size)
        elif len(values) in (2, 3) and values[2:] != [0]:
            found += range(*slice(*values).indices(size))
        else:
            raise ValueError(
                f"{part.strip()!r} is neither a record's number nor a range; records are named as "
                "in 0,2:5,-1"
            )
    return found


# Records as plain Python values: for a screen, and for JSON.


def slices_of(
    batch: RecordBatch, source: Source, first: int, known: Schema | None, *, empty: bool = False
) -> Iterator[tuple[int, RecordBatch, Schema]]:
    """The records in runs that decode to small tables, each with the number of its first record in
    the batch, and its features: those that are ``known``, or the ones that its records have, of any
    number of values. For ``empty`` see `schema_of_records`; ``first`` is the number of the batch's
    first record."""

    def features(part: RecordBatch, begin: int) -> Schema:
        if known is not None:
            return known
        with of_source(source, first + begin):
            return _opened(schema_of_records(part, empty=empty))

    whole = features(batch, 0)
    step = max(1, _MOST_CELLS // max(1, len(whole)))
    if step >= len(batch):
        yield 0, batch, whole
        return
    for begin in range(0, len(batch), step):
        part = batch[begin : begin + step]
        yield begin, part, features(part, begin)


def _opened(schema: Schema) -> Schema:
    """The same features, of any number of values: so that no record is refused."""
    opened = {}
    for name, feature in schema.items():
        flat = feature.sequence or feature.nested or feature.raw
        shape = feature.shape if flat else (None,)
        opened[name] = replace(feature, shape=shape, nullable=True)
    return Schema(opened)


def _rows(
    batch: RecordBatch,
    schema: Schema,
    scalars: Mapping[str, bool],
    columns: Sequence[str] | None,
) -> Iterator[Row]:
    names = list({**scalars, **schema} if columns is None else columns)
    for name in names:
        if name not in schema and name not in scalars:
            raise ValueError(unknown("feature", name, [*dict.fromkeys([*schema, *scalars])]))
    present = schema.select([name for name in names if name in schema])
    decoded = decode_examples(batch, Schema(present), labels="names")
    single = {n for n in names if scalars.get(n) and n in present and not present[n].sequence}
    values = {name: list(map(plain, _each(decoded[name]))) for name in present}
    times = any(feature.dtype.startswith("datetime64") for feature in present.values())
    for name in present.keys() & zoned(schema.arrow) if times and schema.arrow else ():
        values[name] = list(map(_in_utc, values[name]))
    always = names if columns is not None or not scalars else [n for n in names if n in scalars]
    shown = set(always)
    others = [name for name in names if name not in shown]
    lacking: Row = dict.fromkeys(always)
    held = [name for name in always if name in values]
    for row in range(len(batch)):
        found = lacking.copy()
        for name in held:
            found[name] = _unwrapped(values[name][row], name in single)
        for name in others:
            if values[name][row] is not None:
                found[name] = _unwrapped(values[name][row], name in single)
        yield found


def _each(column: Any) -> Iterator[Any]:
    """The rows of a decoded column; None for a null."""
    if isinstance(column, np.ma.MaskedArray):
        rows = zip(np.asarray(column), valid_rows(column).tolist(), strict=True)
        return (row if has else None for row, has in rows)
    return iter(column)


def _in_utc(value: Any) -> Any:
    """Texts of times as texts of times in UTC, in nested lists too."""
    if isinstance(value, list):
        return list(map(_in_utc, value))
    return value and f"{value}Z"


def _unwrapped(value: Any, single: bool) -> Any:
    return value[0] if single and isinstance(value, list) and len(value) == 1 else value


def plain(value: Any) -> Any:
    """Arrays as lists, numpy's scalars as Python's. A float32 has the fewest digits that give
    it, and times are ISO 8601 texts."""
    if isinstance(value, Nullable | Ragged | RecordBatch):
        return [plain(row) for row in value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and value.dtype.itemsize < 8:
            value = value.astype("U32").astype(np.float64)
        if value.dtype.kind in "mM":
            return iso_texts(value)
        if value.dtype.kind == "O":
            return [plain(item) for item in value]
        return value.tolist()
    if isinstance(value, np.generic):
        return plain(np.asarray(value))
    return value
