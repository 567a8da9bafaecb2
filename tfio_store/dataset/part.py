"""Cuts datasets at record boundaries. A part is a `Dataset` as any other, only shorter.

Whole blocks stay as they are. A block at the end of a part that is cut stays whole on the store:
whoever reads it decodes and checks all of it, and drops the records beside the part's. Where the
index knows the places of a raw shard's records, the block is cut at its bytes instead, and nothing
is read in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, StartsArray
from tfio_store.dataset.paged_shards import PagedShards, Places
from tfio_store.dataset.shard_page import Listed
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c

__all__ = [
    "PagedPart",
    "cut_table",
    "part_at",
    "part_of_pages",
]


def cut_table(table: BlockTable, first: int, stop: int) -> BlockTable:
    """Records ``first:stop`` of those in a table. None of them are in no block."""
    begin = int(np.searchsorted(table.records, first, side="right")) - 1
    if first == stop:
        return _without_blocks(table, begin)
    end = int(np.searchsorted(table.records, stop, side="left"))
    before = first - int(table.records[begin]) + (table.before if begin == 0 else 0)
    behind = int(table.records[end]) - stop + (table.behind if end == len(table) else 0)
    blocks = slice(begin, end + 1)
    sums = None if table.sums is None else table.sums[blocks]
    records = np.clip(table.records[blocks], first, stop) - first
    if table.starts is not None:
        offsets, starts = _cut_at_bytes(table, first, stop, begin, end)
        crcs = None if table.crcs is None else table.crcs[first:stop].copy()
        if sums is not None:
            ends = table.sum_before(first), table.sum_before(stop)
            sums = None if None in ends else np.array([ends[0], *sums[1:-1], ends[1]], np.uint32)
        return BlockTable(offsets, offsets, records, starts, whole=False, sums=sums, crcs=crcs)
    offsets = table.offsets[blocks]
    same = table.raw_offsets is table.offsets
    raw = offsets if same else table.raw_offsets[blocks]
    points = None if table.checkpoints is None else table.checkpoints.part(begin, end)
    return BlockTable(
        offsets, raw, records, None, before, behind, whole=False, sums=sums, checkpoints=points
    )


def _without_blocks(table: BlockTable, at: int) -> BlockTable:
    """The table of no records, which begins where block ``at`` does."""
    offsets, same = table.offsets[at : at + 1], table.raw_offsets is table.offsets
    return BlockTable(
        offsets,
        offsets if same else table.raw_offsets[at : at + 1],
        np.zeros(1, np.int64),
        starts=None if table.starts is None else table.starts[:0],
        whole=False,
        sums=None if table.sums is None else table.sums[at : at + 1],
        crcs=None if table.crcs is None else table.crcs[:0],
        checkpoints=None if table.checkpoints is None else table.checkpoints.part(at, at),
    )


def _cut_at_bytes(
    table: BlockTable, first: int, stop: int, begin: int, end: int
) -> tuple[Int64Array, StartsArray]:
    """The offsets and the starts of records ``first:stop``, which blocks ``begin:end`` hold."""
    assert table.starts is not None
    offsets, starts = table.offsets[begin : end + 1].copy(), table.starts[first:stop].copy()
    ahead = table.starts[first]
    in_first = int(min(table.records[begin + 1], stop)) - first
    starts[:in_first] -= ahead
    if stop < table.records[end]:
        offsets[-1] = table.offsets[end - 1] + int(table.starts[stop])
    offsets[0] += int(ahead)
    return offsets, starts


# `PagedPart`: some neighbouring records of a long dataset.


class PagedPart(PagedShards):
    """The list of shards of a part. Its first and its last shard may be cut.

    It pickles as the places of the pages that list these shards.
    """

    def __init__(self, base: PagedShards, places: Places) -> None:
        self._base = base
        self._places = places
        super().__init__(base.refs, base.folder, raw=base.raw and not places.cut)

    def __reduce__(self) -> tuple[Any, ...]:
        narrow, places = self._narrowed
        return PagedPart, (narrow, places)

    @cached_property
    def _narrowed(self) -> tuple[PagedShards, Places]:
        """The pages that list these shards, and where the part lies in them."""
        base, (first, stop) = self._base, self._places.shards
        begin, end = base.page_of(first), base.page_of(stop - 1) + 1
        before = (base.before(column, begin) for column in ("shards", "records", "blocks"))
        pages = PagedShards(base.refs[begin:end], base.folder, raw=base.raw)
        return pages, self._places.moved(*before)

    def part(self, start: int, stop: int) -> tuple[PagedShards, int, int]:
        """The list that this is a part of, and where records ``start:stop`` stand there."""
        first = self._places.records[0]
        return self._base, first + start, first + stop

    def at(self, places: Places) -> PagedPart:
        """The part that lies at these places of this one."""
        own = self._places
        moved = places.moved(-own.shards[0], -own.records[0], -own.blocks[0])
        return PagedPart(self._base, moved._replace(cut=places.cut or own.cut))

    def __len__(self) -> int:
        first, stop = self._places.shards
        return stop - first

    @property
    def records(self) -> int:
        first, stop = self._places.records
        return stop - first

    @property
    def blocks(self) -> int:
        first, stop = self._places.blocks
        return stop - first

    @cached_property
    def nbytes(self) -> int:
        return self._places.nbytes

    @cached_property
    def digest(self) -> int:
        pages, places = self._narrowed
        return crc32c(f"{pages.digest} {places.records}".encode())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PagedPart):
            return NotImplemented
        return self._narrowed == other._narrowed

    __hash__ = None

    def __repr__(self) -> str:
        return f"<PagedPart: {self.records} records in {len(self)} shards>"

    def listed(self, shard: int) -> Listed:
        found = self._base.listed(self._places.shards[0] + shard)
        first, stop = self._bounds(shard, found.shard.records)
        if (first, stop) == (0, found.shard.records):
            return found
        cut = replace(found.shard, records=stop - first)
        return found._replace(shard=cut, blocks=len(self.table(shard)))

    def all_listed(self, first_page: int = 0) -> Iterator[Listed]:
        del first_page  # which only those ask for who write
        return map(self.listed, range(len(self)))

    def columns(self, *names: str) -> list[Int64Array]:
        pages, places = self._narrowed
        first, stop = places.shards
        found = [column[first:stop].copy() for column in pages.columns(*names)]
        for shard in {0, len(self) - 1}:
            listed = self.listed(shard)
            table = self.table(shard)
            nbytes = int(table.offsets[-1] - table.offsets[0])
            cut = {"records": listed.shard.records, "blocks": listed.blocks, "nbytes": nbytes}
            for column, name in zip(found, names, strict=True):
                column[shard] = cut[name]
        return found

    def _bounds(self, shard: int, records: int) -> tuple[int, int]:
        """Which records of a shard are of the part."""
        first, stop = 0, records
        if shard in (0, len(self) - 1):
            before = self._base.first_of("records", self._places.shards[0] + shard)
            first = max(first, self._places.records[0] - before)
            stop = min(stop, self._places.records[1] - before)
        return first, stop

    def shards_of(self, column: str, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        begin, end = self._range(column)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= end - begin):
            raise IndexError(f"there are {end - begin} {column}")
        shards, firsts = self._base.shards_of(column, numbers + begin)
        return shards - self._places.shards[0], np.maximum(firsts - begin, 0)

    def first_of(self, column: str, shard: int) -> int:
        begin, _ = self._range(column)
        return max(self._base.first_of(column, self._places.shards[0] + shard) - begin, 0)

    def _range(self, column: str) -> tuple[int, int]:
        return self._places.records if column == "records" else self._places.blocks

    def tables(self, shards: Iterable[int], *, sums: bool = True) -> Iterator[BlockTable]:
        numbers = list(shards)
        first = self._places.shards[0]
        found = self._base.tables((first + shard for shard in numbers), sums=sums)
        for shard, table in zip(numbers, found, strict=True):
            records = int(table.records[-1])
            bounds = self._bounds(shard, records)
            yield table if bounds == (0, records) else cut_table(table, *bounds)

    def begin_tables(self, shards: Iterable[int]) -> None:
        self._base.begin_tables(self._places.shards[0] + shard for shard in shards)


def part_at(paged: PagedShards, places: Places) -> PagedPart:
    """The part of a long dataset that lies at these places. Nothing is read."""
    return paged.at(places) if isinstance(paged, PagedPart) else PagedPart(paged, places)


def part_of_pages(paged: PagedShards, start: int, stop: int) -> PagedPart:
    """Records ``start:stop`` of a long dataset. There must be one at least."""
    while isinstance(paged, PagedPart):
        paged, start, stop = paged.part(start, stop)
    ends = np.array([start, stop - 1], np.int64)
    (first, last), (begins, begun) = (found.tolist() for found in paged.shards_of("records", ends))
    block, byte = _begin(paged, first, start - begins)
    end, until = _end(paged, last, stop - begun)
    places = Places(
        (first, last + 1),
        (start, stop),
        (paged.first_of("blocks", first) + block, paged.first_of("blocks", last) + end),
        paged.nbytes_before(last) + until - paged.nbytes_before(first) - byte,
        begins < start or stop - begun < paged[last].records,
    )
    return PagedPart(paged, places)


def _begin(paged: PagedShards, shard: int, record: int) -> tuple[int, int]:
    """The block and the byte at which a part begins with a record of a shard. Only where it cuts
    the shard its table is read."""
    if not record:
        return 0, 0
    table = paged.table(shard)
    cut = cut_table(table, record, int(table.records[-1]))
    return len(table) - len(cut), int(cut.offsets[0])


def _end(paged: PagedShards, shard: int, record: int) -> tuple[int, int]:
    """The same for a part that ends before a record of a shard."""
    listed = paged.listed(shard)
    if record == listed.shard.records:
        return listed.blocks, listed.shard.nbytes
    cut = cut_table(paged.table(shard), 0, record)
    return len(cut), int(cut.offsets[-1])
