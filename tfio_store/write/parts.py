"""The objects that a writer puts beside its shards before it proposes a manifest: the index, or the
list of shards with its indexes.

A dataset of few shards has one index, and the manifest lists the shards. A long one has them apart,
so that a reader of a part of it reads a part of them. An append to a long one writes the tables of
its own shards, the last page of the list if there is room in that, and the pages behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tfio_store.dataset.block_tables import INDEX_HEADER_BYTES, encode_table, index_of
from tfio_store.dataset.folder import Root
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import (
    LIST_HEADER_BYTES,
    PAGE_SHARDS,
    Listed,
    PageRef,
    TablePlace,
    decode_page,
    encode_page,
    list_of,
    page_crc,
    shards_of_a_page,
)

if TYPE_CHECKING:
    from tfio_store.dataset.block_tables import ShardInfo
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import DatasetManifest
    from tfio_store.dataset.names import DatasetNames

__all__ = ["Parts", "Place", "put_parts", "renamed"]

T = TypeVar("T")

MOST_LISTED = PAGE_SHARDS
MOST_INDEX_BYTES = 4 << 20
"""With more shards, or a larger index, the list of shards is apart."""

_OBJECT_BYTES = 64 << 20
"""About so many bytes of tables or pages go into one object."""


class Place(NamedTuple):
    """Where a writer writes: a dataset's folder, its names, and the writer's tag."""

    folder: Folder
    names: DatasetNames
    generation: str


class Parts(NamedTuple):
    """A manifest that names its index, or its list of shards, and the objects that were put."""

    manifest: DatasetManifest
    put: list[str]


def put_parts(
    place: Place, manifest: DatasetManifest, kept: Sequence[ShardInfo], *, plain: bool
) -> Parts:
    """Put what belongs to a manifest of the ``kept`` shards and those of ``manifest`` behind them.

    ``plain``: whether the index may have the plain name.
    """
    if isinstance(kept, PagedShards):
        return _Long(place).parts(manifest, kept.pages, manifest.shards)
    shards = (*kept, *manifest.shards)
    if _is_long(shards):
        return _Long(place).parts(manifest, Pages((), None, raw=True), shards)
    folder, names, generation = place
    index = names.index(None) if plain else names.index_try(generation)
    whole = replace(manifest, shards=shards, index=index)
    folder.put(index, whole.index_bytes(), if_absent=True)
    return Parts(whole, [index])


def renamed(
    place: Place, manifest: DatasetManifest, names: Mapping[str, str], first: int
) -> DatasetManifest:
    """The manifest with other names for some of its shards, of number ``first`` or more. Block
    tables stay where they are; of a list of shards, the pages from ``first`` on are put again."""
    if isinstance(manifest.shards, PagedShards):
        return _Long(place).renamed(manifest, manifest.shards.pages, names, first)
    shards = tuple(_renamed(shard, names) for shard in manifest.shards)
    return replace(manifest, shards=shards)


def _renamed(shard: ShardInfo, names: Mapping[str, str]) -> ShardInfo:
    return replace(shard, name=names.get(shard.name, shard.name))


def _is_long(shards: Sequence[ShardInfo]) -> bool:
    """Whether the list goes apart. With shards without a table, which only foreign datasets have,
    it can't."""
    tables = [shard.blocks for shard in shards if shard.blocks is not None]
    if len(tables) < len(shards):
        return False
    return len(shards) > MOST_LISTED or sum(table.nbytes for table in tables) > MOST_INDEX_BYTES


class _Long:
    """Puts a list of shards, and their tables."""

    def __init__(self, place: Place) -> None:
        self._folder, self._names, self._generation = place
        self._written: list[str] = []

    def parts(self, manifest: DatasetManifest, kept: Pages, new: Sequence[ShardInfo]) -> Parts:
        """``kept``: the pages to go on with. Only one that is not full is written again."""
        refs, before = kept.refs, kept.totals.shards
        self._page_shards = min(PAGE_SHARDS, shards_of_a_page(before + len(new)))
        if refs and refs[-1].totals.shards < self._page_shards:
            refs = refs[:-1]
        listed = kept.rows(kept.before("shards", len(refs)), before)
        refs = (*refs, *self._put_pages(self._pages(listed, new)))
        root = Root(self._folder, self._names.manifest)
        shards = PagedShards(Pages(refs, root, raw=manifest.compression is None))
        return Parts(replace(manifest, shards=shards, index=None), self._written)

    def renamed(
        self, manifest: DatasetManifest, pages: Pages, names: Mapping[str, str], first: int
    ) -> DatasetManifest:
        kept = bisect_right(list(accumulate(ref.totals.shards for ref in pages.refs)), first)
        rows = pages.rows(pages.before("shards", kept), pages.totals.shards)
        listed = (one._replace(shard=_renamed(one.shard, names)) for one in rows)
        again = (encode_page(list(islice(listed, ref.totals.shards))) for ref in pages.refs[kept:])
        refs = (*pages.refs[:kept], *self._put_pages(again))
        return replace(manifest, shards=PagedShards(Pages(refs, pages.folder, raw=pages.raw)))

    def _put(self, name: str, data: bytes) -> None:
        self._written.append(name)
        self._folder.put(name, data, if_absent=True)

    def _pages(self, listed: Iterator[Listed], new: Iterable[ShardInfo]) -> Iterator[bytes]:
        """The pages of what is listed already, and of the new shards, whose tables are put."""
        held = list(listed)
        for one in self._put_tables(new):
            held.append(one)
            if len(held) == self._page_shards:
                yield encode_page(held)
                held = []
        if held:
            yield encode_page(held)

    def _put_tables(self, shards: Iterable[ShardInfo]) -> Iterator[Listed]:
        """Put the tables of shards. Gives what the list says of each."""
        for group in _groups((encode_table(shard), shard) for shard in shards):
            name, start = self._names.index_try(self._generation), INDEX_HEADER_BYTES
            self._put(name, index_of(table for table, _ in group))
            for table, shard in group:
                assert shard.blocks is not None
                place = TablePlace(name, start, len(table))
                yield Listed(replace(shard, blocks=None), len(shard.blocks), place)
                start += len(table)

    def _put_pages(self, pages: Iterator[bytes]) -> Iterator[PageRef]:
        for group in _groups((page, None) for page in pages):
            name, start = self._names.list_try(self._generation), LIST_HEADER_BYTES
            self._put(name, list_of(page for page, _ in group))
            for page, _ in group:
                totals = decode_page(page).totals
                yield PageRef(name, start, len(page), totals, page_crc(page))
                start += len(page)


def _groups(pieces: Iterable[tuple[bytes, T]]) -> Iterator[list[tuple[bytes, T]]]:
    """Pieces, and what belongs to each, that go into one object."""
    group: list[tuple[bytes, T]] = []
    nbytes = 0
    for piece in pieces:
        group.append(piece)
        nbytes += len(piece[0])
        if nbytes >= _OBJECT_BYTES:
            yield group
            group, nbytes = [], 0
    if group:
        yield group
