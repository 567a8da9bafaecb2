"""Long records of raw local files, each read straight into the ``bytes`` that the caller gets.

A reader that is asked for records goes this way as long as the files' records are long. Elsewhere,
and at all that is unusual (damage, a short file, short records), `fetch_blocks` goes on from there.
So faults are named in one place.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeAlias

import numpy as np

from tfio_store.dataset.model import Dataset, Shard
from tfio_store.errors import ManifestError
from tfio_store.read.decode import Decoding, Located, LocatedList
from tfio_store.read.fetch import fetch_blocks
from tfio_store.read.order import Numbers
from tfio_store.read.plan import Units
from tfio_store.records.compression import detect
from tfio_store.records.damage import HEAD_BYTES
from tfio_store.records.framing import read_records, walk
from tfio_store.storage.local import LocalStore, opened
from tfio_store.storage.read_ahead import Means, Meter

__all__ = ["fetch_records_of_files"]

_LONG = 8 << 10
"""From this length on a record is worth a system call of its own."""

_LEAST_FILE = 1 << 20
"""Smaller files are read faster than they are looked at."""

_ENOUGH = 1 << 20
"""Bytes of records to read before they are given out: few enough for a core's cache."""

_LONGEST_BLOCK = 16 << 20
"""The records of a longer block are not all held at once."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where reading stands: in a shard that stands at ``position`` of the order, at byte ``start``,
    behind ``records`` of its records. ``counted``: whether these are all from its beginning on."""

    position: int
    start: int
    records: int
    counted: bool

    def check_count(self, shard: Shard) -> None:
        if self.counted and shard.records not in (None, self.records):
            raise ManifestError(
                f"{shard.url}: holds {self.records} records where its manifest says {shard.records}"
            )


_Found: TypeAlias = Generator[LocatedList, None, "_Place"]


def fetch_records_of_files(
    units: Units,
    order: Numbers,
    how: Decoding,
    means: Means,
    *,
    position: int = 0,
    start: int = 0,
    records: int = 0,
) -> Iterator[Located | LocatedList]:
    """As `fetch_blocks`, but long records come as lists. ``how`` must not skip damage. ``records``:
    how many lie before ``start`` in the first unit."""
    place = _Place(position, start, records, counted=start == 0)
    while place.position < len(order):
        index, block = units[int(order[place.position])]
        shard = units.dataset.shard(index)
        if block is None:
            place = yield from _long_records(units.dataset, index, place, how, means.meter)
        if block is not None or place.start < max(shard.nbytes, 1):
            break
        place.check_count(shard)
        place = _Place(place.position + 1, 0, 0, counted=True)
    if place.position < len(order):
        yield from _rest(units, order, how, means, place)


def _long_records(
    dataset: Dataset, index: int, place: _Place, how: Decoding, meter: Meter
) -> _Found:
    """The long records of a shard from ``place`` on. Returns where they end."""
    shard = dataset.shard(index)
    store, path = dataset.open(index)
    raw = shard.compression in (None, "auto")
    if not raw or not isinstance(store, LocalStore) or shard.nbytes < _LEAST_FILE:
        return place
    with store.descriptor(path, etag=shard.version) as descriptor:
        if not _begins_long(descriptor, shard, place.start):
            return place
        while place.start < shard.nbytes:
            run = _run_from(shard, place.start)
            if run is None:
                break
            opened(path, descriptor, shard.version)
            begun = monotonic()
            found, end, summed = _read(descriptor, run, how)
            meter.count(end - place.start, took := monotonic() - begun)
            meter.read += took
            if not found or not run.holds(end, summed):
                break  # fetch_blocks meets it again, and reports it
            yield LocatedList.of(found, place.position, place.records, place.start)
            is_long = end - place.start >= len(found) * _LONG // 2
            place = _Place(place.position, end, place.records + len(found), place.counted)
            if not is_long:
                break
    return place


@dataclass(frozen=True, slots=True)
class _Run:
    """Bytes to read at a time. ``sums`` say what a whole block holds; see `BlockTable`."""

    start: int
    stop: int
    enough: int
    sums: tuple[int, int] | None = None

    def holds(self, end: int, summed: int) -> bool:
        """Whether what was read up to ``end`` is what belongs there, as far as anybody knows."""
        return self.sums is None or (end, summed) == (self.stop, self.sums[1])


def _run_from(shard: Shard, start: int) -> _Run | None:
    """The ranges to read from a byte on. A block is checked whole: None if not done here."""
    table = shard.blocks
    if table is None or table.sums is None:
        return _Run(start, shard.nbytes, _ENOUGH)
    block = int(np.searchsorted(table.offsets, start, side="right")) - 1
    stop = int(table.offsets[block + 1])
    one = int(table.records[block + 1] - table.records[block]) == 1
    if table.offsets[block] != start or (stop - start > _LONGEST_BLOCK and not one):
        return None
    return _Run(start, stop, stop - start, (int(table.sums[block]), int(table.sums[block + 1])))


def _begins_long(descriptor: int, shard: Shard, start: int) -> bool:
    try:
        head = os.pread(descriptor, HEAD_BYTES, start)
    except OSError:
        return False  # fetch_blocks meets it again, and reports it
    if shard.compression is not None and start == 0 and detect(head) is not None:
        return False
    frames, end, _ = walk(head)
    return len(frames) == 1 and end >= _LONG


def _read(descriptor: int, run: _Run, how: Decoding) -> tuple[list[bytes], int, int]:
    try:
        return read_records(
            descriptor,
            run.start,
            run.stop,
            verify=how.verify,
            max_record_bytes=how.max_record_bytes,
            enough=run.enough,
            summed=0 if run.sums is None else run.sums[0],
        )
    except OSError:
        return [], run.start, 0  # fetch_blocks meets it again, and reports it


def _rest(
    units: Units, order: Numbers, how: Decoding, means: Means, place: _Place
) -> Iterator[Located]:
    """The batches of `fetch_blocks` from ``place`` on, the records before it counted."""
    end, counts = place, place.start > 0  # else fetch_blocks counts
    for located in fetch_blocks(
        units, order, how, means, position=place.position, start=place.start
    ):
        if located.position == place.position:
            located = replace(located, records=located.records + place.records)
            end = replace(place, records=located.records + len(located.batch))
        elif counts:
            end.check_count(units.dataset.shard(units[int(order[place.position])][0]))
            counts = False
        yield located
    if counts:
        end.check_count(units.dataset.shard(units[int(order[place.position])][0]))
