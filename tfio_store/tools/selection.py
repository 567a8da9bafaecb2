"""Some records of a source: its first, its last, a sample, or those of given numbers."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.dataset.source import Source, is_one, open_dataset
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage

__all__ = ["Selection", "parse_numbers"]

_LITTLE = 32 << 20
"""Bytes in flight for who wants few records."""

_AT_ONCE = 256
"""Records that one round of random reads brings."""


@dataclass(frozen=True)
class Selection:
    """Picks records of one source. Each way gives them as batches, as they are read."""

    source: Source
    compression: str | None = "auto"
    storage: Storage | None = None
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES

    def __post_init__(self) -> None:
        if not is_one(self.source):
            object.__setattr__(self, "source", list(self.source))

    def all(self) -> Iterator[RecordBatch]:
        """Every record, in order."""
        with RecordReader.of(self.dataset, max_record_bytes=self.max_record_bytes) as reader:
            yield from reader.batches()

    def first(self, count: int) -> Iterator[RecordBatch]:
        """The first ``count`` records, or all if there are fewer."""
        if count < 1:
            return
        with RecordReader.of(
            self.dataset, memory_budget=_LITTLE, max_record_bytes=self.max_record_bytes
        ) as reader:
            for batch in reader.batches():
                yield batch[:count]
                count -= len(batch)
                if count <= 0:
                    return

    def last(self, count: int) -> Iterator[RecordBatch]:
        """The last ``count`` records, or all if there are fewer. A compressed stream is read
        whole."""
        dataset = self.dataset
        if self._can_seek(dataset):
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
        if self._can_seek(self.dataset):
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

    @cached_property
    def dataset(self) -> Dataset:
        """What the source names."""
        limits = Limits(max_record_bytes=self.max_record_bytes)
        return open_dataset(self.source, self.storage, compression=self.compression, limits=limits)

    def _by_number(self) -> RecordSource:
        return RecordSource(self.dataset, max_record_bytes=self.max_record_bytes)

    def _can_seek(self, dataset: Dataset) -> bool:
        return dataset.has_blocks or all(
            shard.blocks is not None or codec_of(dataset, i) is None
            for i, shard in enumerate(dataset.shards)
        )


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
                raise IndexError(f"record {values[0]} of a source of {size} records")
            found.append(values[0] % size)
        elif len(values) in (2, 3) and values[2:] != [0]:
            found += range(*slice(*values).indices(size))
        else:
            raise ValueError(
                f"{part.strip()!r} is neither a record's number nor a range; records are named as "
                "in 0,2:5,-1"
            )
    return found
