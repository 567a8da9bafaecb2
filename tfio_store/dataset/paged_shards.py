"""`PagedShards`: the list of a dataset's shards, or of those of a part, which is cut at record
boundaries. What is asked for is read.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, ShardInfo, StartsArray
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import Listed
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c

__all__ = ["PagedShards", "Places", "cut_table"]


# A table is cut at record boundaries. Whole blocks stay as they are. A block at the end of a part
# that is cut stays whole on the store: whoever reads it decodes and checks all of it, and drops the
# records beside the part's. Where the index knows the places of a raw shard's records, the block is
# cut at its bytes instead, and nothing is read in vain.


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


class Places(NamedTuple):
    """Where a part lies in a list of shards: of each, the first one and the one behind the last."""

    shards: tuple[int, int]
    records: tuple[int, int]
    blocks: tuple[int, int]
    nbytes: int
    """The stored bytes of the blocks, or of the records where they are cut at their bytes."""
    cut: bool
    """Whether of the first or the last shard only a part is meant."""

    def moved(self, shards: int, records: int, blocks: int) -> Places:
        """The same in a list that begins so much later."""
        return Places(
            (self.shards[0] - shards, self.shards[1] - shards),
            (self.records[0] - records, self.records[1] - records),
            (self.blocks[0] - blocks, self.blocks[1] - blocks),
            self.nbytes,
            self.cut,
        )


class PagedShards(Sequence[ShardInfo]):
    """A sequence of `ShardInfo` with their block tables.

    An item takes up to two requests, its page and its table, and none if the index is at hand.
    `listed` and `all_listed` give shards without their tables. ``part``: where its shards lie in
    the list. None if they are all of it. It pickles as the places of the pages that list them.
    """

    def __init__(self, pages: Pages, part: Places | None = None) -> None:
        self.pages = pages
        self._part = part
        if part is None:
            whole = pages.totals
            records, blocks = (0, whole.records), (0, whole.blocks)
            part = Places((0, whole.shards), records, blocks, whole.nbytes, False)
        self._places = part
        self.raw = pages.raw and not part.cut
        """Whether the shards are raw files, and whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        return PagedShards, self._narrowed

    @cached_property
    def _narrowed(self) -> tuple[Pages, Places | None]:
        """The pages that list these shards, and where the part lies in them."""
        if self._part is None:
            return self.pages, None
        pages, begin = self.pages.between(*self._part.shards)
        before = (self.pages.before(column, begin) for column in ("shards", "records", "blocks"))
        return pages, self._part.moved(*before)

    def part(self, start: int, stop: int) -> PagedShards:
        """Records ``start:stop``. There must be one at least."""
        pages, before = self.pages, self._places.records[0]
        start, stop = before + start, before + stop
        found = pages.shards_of("records", np.array([start, stop - 1], np.int64))
        (first, last), (begins, begun) = (each.tolist() for each in found)
        block, byte = _begin(pages, first, start - begins)
        end, until = _end(pages, last, stop - begun)
        places = Places(
            (first, last + 1),
            (start, stop),
            (pages.first_of("blocks", first) + block, pages.first_of("blocks", last) + end),
            pages.nbytes_before(last) + until - pages.nbytes_before(first) - byte,
            begins < start or stop - begun < pages.listed(last).shard.records,
        )
        return PagedShards(pages, places)

    def part_at(self, places: Places) -> PagedShards:
        """The part that lies at these places of this one. Nothing is read."""
        own = self._places
        moved = places.moved(-own.shards[0], -own.records[0], -own.blocks[0])
        return PagedShards(self.pages, moved._replace(cut=places.cut or own.cut))

    @property
    def small(self) -> bool:
        """Whether the index is read whole, so that nothing more is asked of a store."""
        return self.pages.small

    def __len__(self) -> int:
        first, stop = self._places.shards
        return stop - first

    @property
    def records(self) -> int:
        """The records of all shards."""
        first, stop = self._places.records
        return stop - first

    @property
    def blocks(self) -> int:
        """The blocks of all shards."""
        first, stop = self._places.blocks
        return stop - first

    @property
    def nbytes(self) -> int:
        """The bytes of all shards."""
        return self._places.nbytes

    @cached_property
    def digest(self) -> int:
        """A CRC of the list: another one has another one."""
        pages, part = self._narrowed
        if part is None:
            return pages.digest
        return crc32c(f"{pages.digest} {part.records}".encode())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PagedShards):
            return NotImplemented
        return self._narrowed == other._narrowed

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<PagedShards: {self.records} records in {len(self)} shards>"

    @overload
    def __getitem__(self, index: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ShardInfo, ...]: ...
    def __getitem__(self, index: Any) -> ShardInfo | tuple[ShardInfo, ...]:
        if isinstance(index, slice):
            return tuple(self.some(range(*index.indices(len(self)))))
        return next(self.some([range(len(self))[operator.index(index)]]))

    def __iter__(self) -> Iterator[ShardInfo]:
        return self.some(range(len(self)))

    def some(self, shards: Sequence[int]) -> Iterator[ShardInfo]:
        """These shards with their block tables, as far as they have any."""
        tables = self.tables(shard for shard in shards if self.listed(shard).nbytes)
        for shard in shards:
            one = self.listed(shard)
            yield replace(one.shard, blocks=next(tables)) if one.nbytes else one.shard

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """The numbers of the shards with these names, as far as there are any. All of the list is
        searched only for names that do not stand where the number in them says."""
        wanted = set(names)
        found = {name: number for name in wanted if (number := self._place_of(name)) is not None}
        if len(found) < len(wanted):
            every = enumerate(one.shard.name for one in self.all_listed())
            found = {name: number for number, name in every if name in wanted}
        return sorted(found.values())

    def _place_of(self, name: str) -> int | None:
        """The number of a shard, if the first number in its name is that."""
        digits = re.search(r"-(\d{5,18})", name)
        number = len(self) if digits is None else int(digits[1])
        return number if number < len(self) and self.listed(number).shard.name == name else None

    def listed(self, shard: int) -> Listed:
        """The row of one shard in the list, with the place of its table."""
        return self._cut(shard, self.pages.listed(self._places.shards[0] + shard))

    @property
    def first_shard(self) -> int:
        """The number that the first shard has in the whole list."""
        return self._places.shards[0]

    def all_listed(self) -> Iterator[Listed]:
        """The rows of every shard. Pages are fetched ahead."""
        return (self._cut(i, one) for i, one in enumerate(self.pages.rows(*self._places.shards)))

    def _cut(self, shard: int, listed: Listed) -> Listed:
        if not self._places.cut:
            return listed
        first, stop = self._bounds(shard, listed.shard.records)
        if (first, stop) == (0, listed.shard.records):
            return listed
        cut = replace(listed.shard, records=stop - first)
        return listed._replace(shard=cut, blocks=len(self.table(shard)))

    def _bounds(self, shard: int, records: int) -> tuple[int, int]:
        """Which records of a shard are meant, of a part that is cut."""
        first, stop = 0, records
        if shard in (0, len(self) - 1):
            before = self.pages.first_of("records", self._places.shards[0] + shard)
            first = max(first, self._places.records[0] - before)
            stop = min(stop, self._places.records[1] - before)
        return first, stop

    def columns(self, *names: str) -> list[Int64Array]:
        """int64 [n_shards] each: "nbytes", "records" or "blocks" of every shard, of all pages."""
        found = self.pages.columns(names, *self._places.shards)
        for shard in {0, len(self) - 1} if self._places.cut else ():
            listed, table = self.listed(shard), self.table(shard)
            nbytes = int(table.offsets[-1] - table.offsets[0])
            cut = {"records": listed.shard.records, "blocks": listed.blocks, "nbytes": nbytes}
            for column, name in zip(found, names, strict=True):
                column[shard] = cut[name]
        return found

    def shards_of(self, column: str, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The shards that hold these "records" or "blocks", which are counted over all shards, and
        the number of each shard's first one. The pages are fetched at once."""
        if self._part is None:
            return self.pages.shards_of(column, numbers)
        begin, end = self._range(column)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= end - begin):
            raise IndexError(f"there are {end - begin} {column}")
        shards, firsts = self.pages.shards_of(column, numbers + begin)
        return shards - self._places.shards[0], np.maximum(firsts - begin, 0)

    def first_of(self, column: str, shard: int) -> int:
        """How many "records" or "blocks" stand before a shard. It may read a page."""
        if self._part is None:
            return self.pages.first_of(column, shard)
        begin, _ = self._range(column)
        return max(self.pages.first_of(column, self._places.shards[0] + shard) - begin, 0)

    def _range(self, column: str) -> tuple[int, int]:
        return self._places.records if column == "records" else self._places.blocks

    def table(self, shard: int, *, sums: bool = True) -> BlockTable:
        """Where the blocks of one shard lie. See `tables`."""
        table = self.pages.table(self._places.shards[0] + shard, sums=sums)
        return self._cut_table(shard, table) if self._places.cut else table

    def tables(self, shards: Iterable[int], *, sums: bool = True) -> Iterator[BlockTable]:
        """The block tables of these shards, in this order. Many are fetched at once. ``sums``: see
        `Pages.tables`."""
        first = self._places.shards[0]
        if not self._places.cut:
            return self.pages.tables((first + shard for shard in shards), sums=sums)
        numbers = list(shards)
        found = self.pages.tables((first + shard for shard in numbers), sums=sums)
        return map(self._cut_table, numbers, found)

    def _cut_table(self, shard: int, table: BlockTable) -> BlockTable:
        records = int(table.records[-1])
        bounds = self._bounds(shard, records)
        return table if bounds == (0, records) else cut_table(table, *bounds)

    def begin_tables(self, shards: Iterable[int]) -> None:
        """Begin to fetch the block tables of these shards, which are asked for soon: as many as fit
        into a few MiB."""
        self.pages.begin_tables(self._places.shards[0] + shard for shard in shards)


def _begin(pages: Pages, shard: int, record: int) -> tuple[int, int]:
    """The block and the byte at which a part begins with a record of a shard. Only where it cuts
    the shard its table is read."""
    if not record:
        return 0, 0
    table = pages.table(shard)
    cut = cut_table(table, record, int(table.records[-1]))
    return len(table) - len(cut), int(cut.offsets[0])


def _end(pages: Pages, shard: int, record: int) -> tuple[int, int]:
    """The same for a part that ends before a record of a shard."""
    listed = pages.listed(shard)
    if record == listed.shard.records:
        return listed.blocks, listed.shard.nbytes
    cut = cut_table(pages.table(shard), 0, record)
    return len(cut), int(cut.offsets[-1])
