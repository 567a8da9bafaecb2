"""The options of decoders, and their results: batches that know where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from tfio_store.read.pieces import Cut
from tfio_store.read.skips import Skips
from tfio_store.records.framing import HEADER_BYTES, RecordBatch

__all__ = ["NO_OFFSET", "Decoding", "Located", "Standing", "end_of", "within"]

NO_OFFSET = -1
"""Stands in place of an offset if records can't be reached by one."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to decode. ``skips`` None: damage raises."""

    verify: bool
    max_record_bytes: int
    skips: Skips | None = None


class Standing(Protocol):
    """Records that know where they stand: see `Located`."""

    @property
    def position(self) -> int: ...
    @property
    def records(self) -> int: ...
    def offset(self, index: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Located:
    """A batch and where it stands: at ``position`` of the reader's order, behind ``records``
    records of that unit.

    If the unit is a stream of raw records, ``base`` is the stream offset of the batch's buffer: by
    it a reader comes back to any record. Otherwise it is None.
    """

    batch: RecordBatch
    position: int
    records: int
    base: int | None = None

    def offset(self, index: int) -> int:
        """Stream offset of record ``index``'s frame (of the end of the last, for
        ``len(batch)``); `NO_OFFSET` without a base."""
        if self.base is None:
            return NO_OFFSET
        if index < len(self.batch):
            return self.base + int(self.batch.offsets[index]) - HEADER_BYTES
        return self.base + end_of(self.batch)


def within(batches: Iterable[Located], cuts: Mapping[int, Cut]) -> Iterator[Located]:
    """Of the batches at the positions of ``cuts`` only the records inside of these, which are
    counted from there on. No offset leads to them."""
    if not cuts:
        return iter(batches)
    return _within(batches, cuts)


def _within(batches: Iterable[Located], cuts: Mapping[int, Cut]) -> Iterator[Located]:
    with closing(batches):  # type: ignore[type-var]
        for located in batches:
            cut = cuts.get(located.position)
            if cut is None:
                yield located
                continue
            start, before = cut[0], located.records
            stop = before + len(located.batch) if cut[1] is None else cut[1]
            batch = located.batch[max(start - before, 0) : max(stop - before, 0)]
            if len(batch):
                yield Located(batch, located.position, max(before - start, 0))


def end_of(batch: RecordBatch) -> int:
    """Where in its buffer the last frame of a batch ends."""
    return int(batch.offsets[-1]) + int(batch.lengths[-1]) + 4
