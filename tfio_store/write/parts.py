"""The index that a writer puts beside its shards before it proposes a manifest: the list of shards
in pages, and their block tables.

A small index is one object, which every append writes again. Of a larger one an append writes the
last page again if there is room in that, with its tables, and the pages behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tfio_store.dataset.block_tables import encode_table
from tfio_store.dataset.container import HEADER_BYTES, container, section_crc
from tfio_store.dataset.folder import Root
from tfio_store.dataset.manifest import listing_of
from tfio_store.dataset.pages import Pages, is_small
from tfio_store.dataset.shard_page import (
    PAGE_SHARDS,
    IndexObject,
    Listed,
    PageRef,
    PageTotals,
    encode_page,
    shards_of_a_page,
)

if TYPE_CHECKING:
    from tfio_store.dataset.block_tables import ShardInfo
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import DatasetManifest
    from tfio_store.dataset.names import DatasetNames


_OBJECT_BYTES = 64 << 20
"""About so many bytes of tables and pages go into one object."""

_TABLES_OF_A_SHARD = 32 << 10
"""A page is full when the tables of its shards have so many bytes for each that it may have: an
append writes no more of them again."""


_Row: TypeAlias = "tuple[Listed, bytes | memoryview]"
"""What the index has of a shard: its row in a page, and its table."""


class Place(NamedTuple):
    """Where a writer writes: a dataset's folder, its names, and the writer's tag."""

    folder: Folder
    names: DatasetNames
    generation: str


class Parts(NamedTuple):
    """A manifest whose index was put, and the names of the index's objects."""

    manifest: DatasetManifest
    put: list[str]


def put_parts(place: Place, manifest: DatasetManifest, kept: Pages | None, *, plain: bool) -> Parts:
    """Put the index of the ``kept`` shards and those of ``manifest`` behind them.

    ``plain``: whether it may have the plain name.
    """
    old = Pages((), None, raw=True) if kept is None else kept
    new = manifest.shards
    output = _Index(place, old.totals.shards + len(new), plain=plain)
    again = 0 if old.small else len(old.refs)
    if again and output.has_room(old.refs[-1].totals.shards, old.refs[-1].totals.table_nbytes):
        again -= 1
    stored = _stored(old, range(again, len(old.refs)))
    rows: Iterator[_Row] = chain(stored, map(_encoded, new))
    refs = (*old.refs[:again], *output.put_pages(rows))
    raw = manifest.compression is None
    streams = old.streams + sum(shard.blocks is None for shard in new)
    pages = Pages(refs, Root(place.folder, place.names.manifest), raw=raw, streams=streams)
    return Parts(replace(manifest, shards=output.held(pages)), output.written)


def renamed(
    place: Place, manifest: DatasetManifest, names: Mapping[str, str], first: int
) -> DatasetManifest:
    """The manifest with other names for some of its shards, of number ``first`` or more: the pages
    from ``first`` on are put again, and their tables too, unless these are many."""
    old = listing_of(manifest)
    output = _Index(place, old.totals.shards, plain=False)
    ends = list(accumulate(ref.totals.shards for ref in old.refs))
    kept = 0 if old.small else bisect_right(ends, first)
    again = range(kept, len(old.refs))
    if sum(old.refs[number].totals.table_nbytes for number in again) <= _OBJECT_BYTES:
        rows = ((_renamed(one, names), table) for one, table in _stored(old, again))
        refs = output.put_pages(rows)
    else:
        for number in again:
            listed = [_renamed(one, names) for one in old.rows_of(number)]
            output.add_page(listed, old.refs[number])
        refs = output.end()
    refs = [*old.refs[:kept], *refs]
    pages = Pages(refs, old.folder, raw=old.raw, streams=old.streams)
    return replace(manifest, shards=output.held(pages))


def _renamed(one: Listed, names: Mapping[str, str]) -> Listed:
    return one._replace(shard=replace(one.shard, name=names.get(one.shard.name, one.shard.name)))


def _encoded(shard: ShardInfo) -> _Row:
    """A new shard."""
    bare = replace(shard, blocks=None, learned=None, values={})
    if shard.blocks is None:
        return Listed(bare, 0, 0, 0), b""
    table = encode_table(shard)
    return Listed(bare, len(shard.blocks), 0, len(table)), table


def _stored(pages: Pages, numbers: Iterable[int]) -> Iterator[_Row]:
    """The shards of some pages, as they are stored."""
    for number in numbers:
        tables = pages.stored_tables(number)
        for one in pages.rows_of(number):
            yield one, tables[one.start : one.start + one.nbytes]


class _Index:
    """Puts pages and tables into objects."""

    def __init__(self, place: Place, shards: int, *, plain: bool) -> None:
        self._place = place
        self._plain = plain
        self._shards = shards
        self._page_shards = min(PAGE_SHARDS, shards_of_a_page(shards))
        self._tables: list[bytes | memoryview] = []
        self._at = HEADER_BYTES
        """Where the next table of the object begins."""
        self._pages: list[tuple[bytes, PageTotals, PageRef | None, int]] = []
        """The pages of the object: where their tables lie, if that is in another one, or else where
        they begin in this one."""
        self._last: tuple[IndexObject, bytes] | None = None
        self._done: list[PageRef] = []
        self.written: list[str] = []

    def has_room(self, shards: int, table_nbytes: int) -> bool:
        """Whether another shard goes into a page of so many, with so many bytes of tables."""
        most = self._page_shards * _TABLES_OF_A_SHARD
        return shards < self._page_shards and table_nbytes < most

    def put_pages(self, rows: Iterable[_Row]) -> list[PageRef]:
        """Put these shards and their tables, in their order. Returns where their pages lie."""
        page, nbytes = list[Listed](), 0
        for one, table in rows:
            page.append(one)
            self._tables.append(table)
            nbytes += len(table)
            if not self.has_room(len(page), nbytes):
                self.add_page(page)
                page, nbytes = [], 0
        if page:
            self.add_page(page)
        return self.end()

    def add_page(self, listed: list[Listed], stored: PageRef | None = None) -> None:
        """End a page. ``stored``: where its tables lie, if they were not put here."""
        totals = _totals(listed)
        self._pages.append((encode_page(listed), totals, stored, self._at))
        self._at += 0 if stored is not None else totals.table_nbytes
        if self._at + sum(len(page) for page, *_ in self._pages) >= _OBJECT_BYTES:
            self._put()

    def end(self) -> list[PageRef]:
        """Put what is left. Returns where the pages lie."""
        self._put()
        return self._done

    def _put(self) -> None:
        if not self._pages:
            return
        data = container([*self._tables, *(page for page, *_ in self._pages)])
        folder, names, generation = self._place
        plain = self._plain and not self.written and is_small(self._shards, len(data))
        name = names.index(None) if plain else names.index_try(generation)
        self.written.append(name)
        folder.put(name, data, if_absent=True)
        index, start = IndexObject(name, len(data)), self._at
        for page, totals, stored, tables in self._pages:
            where = (index, tables) if stored is None else (stored.tables, stored.tables_start)
            self._done.append(PageRef(index, start, len(page), section_crc(page), *where, totals))
            start += len(page)
        self._last = index, data
        self._tables, self._pages, self._at = [], [], HEADER_BYTES

    def held(self, pages: Pages) -> Pages:
        """These pages. A small index is at hand, and is not read again."""
        if pages.small and self._last is not None:
            pages.hold(*self._last)
        return pages


def _totals(page: Sequence[Listed]) -> PageTotals:
    shards = [one.shard for one in page]
    return PageTotals(
        len(page),
        sum(shard.records for shard in shards),
        sum(shard.nbytes for shard in shards),
        sum(one.blocks for one in page),
        sum(one.nbytes for one in page),
    )
