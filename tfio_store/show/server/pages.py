"""Pages of records, by their numbers in the source.

A page is one question to the `RecordSource`: neighbours come by one request. Where records are
large it is several, so that memory holds a few of them at a time; and those behind the first
`PAGE_BYTES` are not read, but named with their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.model import Dataset
from tfio_store.errors import DataLossError
from tfio_store.read.record_runs import UNKNOWN, frames_of
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import FRAME_OVERHEAD
from tfio_store.show.server.damaged import DamagedBlocks

__all__ = ["PAGE_BYTES", "Paged", "Pager"]

PAGE_BYTES = 32 << 20
"""Bytes of records that one page reads at most."""

_ROUND_BYTES = 16 << 20
"""Bytes of blocks that one question brings at most, unless one block has more."""

_CACHE_BYTES = 64 << 20

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Paged:
    """A record of a page, of about ``nbytes``. ``record`` is None where the page holds `PAGE_BYTES`
    already, or where it can't be read: ``fault`` then tells why."""

    number: int
    nbytes: int
    record: bytes | None = None
    fault: DataLossError | None = None


class Pager:
    """The records of a source whose index is known. Several threads may ask."""

    def __init__(self, dataset: Dataset, *, max_record_bytes: int) -> None:
        self._dataset = dataset
        self._source = RecordSource.of(
            dataset,
            cache_bytes=_CACHE_BYTES,
            memory_budget=_ROUND_BYTES,
            max_record_bytes=max_record_bytes,
        )
        self._damaged = DamagedBlocks(dataset, max_record_bytes=max_record_bytes)

    def __len__(self) -> int:
        return len(self._source)

    def record(self, number: int) -> bytes:
        """One record. IndexError if there is none of that number; DataLossError if it is
        damaged."""
        if not 0 <= number < len(self):
            raise IndexError(f"record {number:,} of {len(self):,}")
        try:
            return self._source[number]
        except DataLossError:
            return self._damaged.record(number)

    def page(self, start: int, count: int) -> Iterator[Paged]:
        """The ``count`` records from ``start`` on, or as many as there are."""
        numbers = np.arange(start, min(start + count, len(self)), dtype=np.int64)
        if start < 0 or not len(numbers):
            return
        about, added = self._sizes(numbers)
        fits = np.cumsum(about) <= PAGE_BYTES
        fits[0] = True
        read = int(fits.sum())
        for piece in _rounds(added[:read]):
            yield from self._round(numbers[piece].tolist(), about[piece].tolist())
        for i in range(read, len(numbers)):
            yield Paged(int(numbers[i]), int(about[i]))

    def _round(self, numbers: list[int], about: list[int]) -> Iterator[Paged]:
        try:
            found = self._source[numbers]
        except DataLossError:
            yield from map(self._sound, numbers, about)
            return
        for number, record in zip(numbers, found, strict=True):
            yield Paged(number, len(record), record)

    def _sound(self, number: int, nbytes: int) -> Paged:
        """One of a page on which something is damaged."""
        try:
            record = self._damaged.record(number)
        except DataLossError as error:
            return Paged(number, nbytes, fault=error)
        return Paged(number, len(record), record)

    def _sizes(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Of each record: its bytes, or its share of its block's; and what its block adds to those
        of the records before it."""
        about, added = np.zeros_like(numbers), np.zeros_like(numbers)
        shards, firsts = self._dataset.shards_of(numbers)
        wanted = np.unique(shards).tolist()
        for shard, table in zip(wanted, self._dataset.tables(wanted), strict=True):
            mine = shards == shard
            rest = numbers[mine] - firsts[mine]
            block = np.searchsorted(table.records, rest, side="right") - 1
            nbytes = table.raw_offsets[block + 1] - table.raw_offsets[block]
            share = nbytes // (table.records[block + 1] - table.records[block])
            starts, stops, _ = frames_of(table, rest, block)
            about[mine] = np.where(starts == UNKNOWN, share, stops - starts - FRAME_OVERHEAD)
            added[mine] = np.where(np.diff(block, prepend=-1) != 0, nbytes, 0)
        return about, added


def _rounds(added: Int64Array) -> Iterator[slice]:
    """Runs of records whose blocks are read together."""
    start, held = 0, 0
    for i, nbytes in enumerate(added.tolist()):
        if nbytes and i > start and held + nbytes > _ROUND_BYTES:
            yield slice(start, i)
            start, held = i, 0
        held += nbytes
    if start < len(added):
        yield slice(start, len(added))
