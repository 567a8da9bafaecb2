"""`ListedShards`: the shards of a manifest, or of a part of it, which is cut at record boundaries.
What is asked for is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, ShardInfo, cut_table
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.manifest import DatasetManifest, listing_of
from tfio_store.dataset.names import MANIFEST_SUFFIX
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import Listed
from tfio_store.dataset.shards import Shard, Shards
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c
from tfio_store.storage import Store, Version
from tfio_store.storage.aside import aside, facts_of


class Home(NamedTuple):
    """What a manifest says of a shard: its size, its CRC32C, the generation, and its number."""

    nbytes: int
    crc32c: int
    generation: str | None
    number: int


class ShardVersion(Version):
    """The version of a shard that a manifest names. It gets another name when it is published, and
    again when another generation comes; see `tfio_store.write.publish`."""

    __slots__ = ("home",)

    def __init__(
        self, etag: str | None = None, mark: str | None = None, home: Home | None = None
    ) -> None:
        super().__init__(etag, mark)
        self.home = home

    @property
    def known(self) -> tuple[Any, ...]:
        return *super().known, self.home

    def move(self, store: Store, path: str, missing: FileNotFoundError) -> None:
        if self.home is None:
            super().move(store, path, missing)
            return
        parent, slash, name = path.rpartition("/")
        kept = parent + slash + aside(name, self.home.nbytes, self.home.crc32c)
        if store.look(kept) is None:
            named = self._named(Folder(store, parent), name)
            if named == name:
                raise missing
            if named is None:
                raise self.replaced(store.url(path)) from missing
            kept = parent + slash + named
        self.now = kept, Version()

    def _named(self, folder: Folder, had: str) -> str | None:
        """The name of the shard that ``had`` this one, as the manifest has it by now: that of a
        shard, or of what was set aside after it was published. None if there is none."""
        assert self.home is not None
        for name in folder.names(f"_*{MANIFEST_SUFFIX}"):
            found = folder.manifest(name, index=False, damaged=True)
            if found is None or found.manifest is None:
                continue
            own = had.lstrip("_").startswith(name[1 : -len(MANIFEST_SUFFIX)])
            kept = self._kept(folder, found.manifest, had) if own else None
            if kept is not None:
                return kept
            if not found.holds(self.home.generation or ""):
                continue
            shards = listing_of(found.manifest)
            if self.home.number < len(shards):
                shard = shards.listed(self.home.number).shard
                if (shard.nbytes, shard.crc32c) == self.home[:2]:
                    return shard.name
        return None

    def _kept(self, folder: Folder, manifest: DatasetManifest, had: str) -> str | None:
        """The other name under which the shard's bytes were set aside, if they are still there."""
        assert self.home is not None
        for one in (one for entry in manifest.replaced for one in entry.objects):
            same = one.name != had and facts_of(one.name) == self.home[:2]
            if same and folder.store.look(folder.join(one.name)) is not None:
                return one.name
        return None


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


class ListedShards(Shards):
    """The shards of a manifest with their block tables. All of these are known.

    An item takes up to two requests: its page and its table. Iterating keeps many in flight. Of a
    small dataset, the index of which was read whole, none is made. ``part``: where the shards lie
    in the list. None if they are all of it. It pickles as the places of the pages that list them,
    and with the versions that were seen.
    """

    def __init__(
        self,
        folder: Folder,
        compression: str | None,
        pages: Pages,
        generation: str | None = None,
        part: Places | None = None,
        versions: Mapping[int, Version] | None = None,
    ) -> None:
        self.folder = folder
        self.compression = compression
        self.pages = pages
        self._generation = generation
        self._part = part
        if part is None:
            whole = pages.totals
            records, blocks = (0, whole.records), (0, whole.blocks)
            part = Places((0, whole.shards), records, blocks, whole.nbytes, False)
        self.places = part
        self._versions = dict(versions or {})
        """Versions of the shards that were asked for: all reads of a shard share one."""
        self._at_hand: dict[int, Shard] = {}
        """Shards of a small dataset that were asked for."""

    @classmethod
    def of(cls, folder: Folder, manifest: DatasetManifest) -> ListedShards:
        return cls(folder, manifest.compression, listing_of(manifest), manifest.generation)

    def __reduce__(self) -> tuple[Any, ...]:
        pages, part = self._narrowed
        seen = {n: each for n, each in self._versions.items() if any(each.known[:2])}
        return ListedShards, (self.folder, self.compression, pages, self._generation, part, seen)

    @cached_property
    def _narrowed(self) -> tuple[Pages, Places | None]:
        """The pages that list these shards, and where the part lies in them."""
        if self._part is None:
            return self.pages, None
        pages, begin = self.pages.between(*self._part.shards)
        before = (self.pages.before(column, begin) for column in ("shards", "records", "blocks"))
        return pages, self._part.moved(*before)

    def __eq__(self, other: object) -> bool:
        return self._facts == other._facts if isinstance(other, ListedShards) else NotImplemented

    __hash__ = None

    @property
    def _facts(self) -> tuple[Any, ...]:
        return self.folder.url(""), self.compression, self._narrowed

    def __repr__(self) -> str:
        return f"<ListedShards: {len(self)} in {self.folder.url('')}>"

    @property
    def long(self) -> bool:
        return not self.pages.small

    # Shards

    def __len__(self) -> int:
        first, stop = self.places.shards
        return stop - first

    def some(self, numbers: Sequence[int]) -> Iterator[Shard]:
        """See `Shards.some`. Their tables are fetched many at once."""
        if not self.long:
            yield from map(self.at, numbers)
            return
        first = self.places.shards[0]
        found = self.pages.some([first + number for number in numbers])
        yield from map(self._whole, numbers, found)

    def at(self, number: int) -> Shard:
        if self.long:
            return self._shard(number, self.listed(number).shard)
        found = self._at_hand.get(number)
        if found is None:
            info = self.pages[self.places.shards[0] + number]
            found = self._at_hand[number] = self._whole(number, info)
        return found

    def _whole(self, number: int, info: ShardInfo) -> Shard:
        """A shard with its block table."""
        table = None if info.blocks is None else self._cut_table(number, info.blocks)
        return self._shard(number, self.listed(number).shard, table)

    def _shard(self, number: int, info: ShardInfo, table: BlockTable | None = None) -> Shard:
        home = Home(info.nbytes, info.crc32c, self._generation, self.places.shards[0] + number)
        return Shard.at(
            self.folder.store,
            self.folder.join(info.name),
            info.nbytes,
            compression=self.compression,
            records=info.records,
            blocks=table,
            crc32c=info.crc32c,
            version=self._versions.setdefault(number, ShardVersion(home=home)),
        )

    @property
    def codecs(self) -> Sequence[str | None]:
        return (self.compression,) * len(self)

    # Rows of the list

    def listed(self, shard: int) -> Listed:
        """The row of one shard in the list, with the place of its table."""
        return self._cut(shard, self.pages.listed(self.places.shards[0] + shard))

    def _cut(self, shard: int, listed: Listed) -> Listed:
        if not self.places.cut:
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
            before = self.pages.first_of("records", self.places.shards[0] + shard)
            first = max(first, self.places.records[0] - before)
            stop = min(stop, self.places.records[1] - before)
        return first, stop

    @cached_property
    def records(self) -> int:
        first, stop = self.places.records
        return stop - first

    @cached_property
    def blocks(self) -> int:
        first, stop = self.places.blocks
        return stop - first

    @cached_property
    def nbytes(self) -> int:
        return self.places.nbytes

    def columns(self, *names: str) -> list[Int64Array]:
        found = self.pages.columns(names, *self.places.shards)
        for shard in {0, len(self) - 1} if self.places.cut else ():
            listed, table = self.listed(shard), self.table(shard)
            nbytes = int(table.offsets[-1] - table.offsets[0])
            cut = {"records": listed.shard.records, "blocks": listed.blocks, "nbytes": nbytes}
            for column, name in zip(found, names, strict=True):
                column[shard] = cut[name]
        return found

    def shards_of(self, records: Int64Array) -> tuple[Int64Array, Int64Array]:
        """See `Shards.shards_of`. The pages are fetched at once."""
        return self.shards_with("records", records)

    def shards_with(self, column: str, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The shards that hold these "records" or "blocks", and the number of each shard's first
        one. The pages are fetched at once."""
        begin, end = self.places.records if column == "records" else self.places.blocks
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= end - begin):
            raise IndexError(f"there are {end - begin} {column}")
        shards, firsts = self.pages.shards_of(column, numbers + begin)
        return shards - self.places.shards[0], np.maximum(firsts - begin, 0)

    def first_of(self, column: str, shard: int) -> int:
        """How many "records" or "blocks" stand before a shard. It may read a page."""
        begin, _ = self.places.records if column == "records" else self.places.blocks
        return max(self.pages.first_of(column, self.places.shards[0] + shard) - begin, 0)

    def begins(self) -> Int64Array:
        found = np.zeros(len(self), np.int64)
        if self.places.cut:
            found[0] = self.table(0).offsets[0]
        return found

    def repeated(self) -> Iterator[int]:
        """See `Shards.repeated`. Of a page, and of a short list, it is checked whenever one is
        read."""
        names: set[str] = set()
        for number, row in enumerate(self.pages.rows(*self.places.shards)):
            if row.shard.name in names:
                yield number
            names.add(row.shard.name)

    @cached_property
    def digest(self) -> int:
        """Of a long list, a CRC of that: another one has another one."""
        if not self.long:
            return super().digest
        pages, part = self._narrowed
        if part is None:
            return pages.digest
        return crc32c(f"{pages.digest} {part.records}".encode())

    # Block tables. Those of raw shards of one block are without their sums: the list tells the
    # rest, and nothing is fetched

    def without_blocks(self) -> list[int]:
        return []

    def without_checkpoints(self) -> ListedShards:
        return self

    def is_stream(self, shard: int, *, raw: bool) -> bool:
        return raw and self.pages.raw and not self.places.cut

    def unit_counts(self, *, raw: bool) -> Int64Array:
        if self.is_stream(0, raw=raw):
            return np.ones(len(self), np.int64)
        return self.columns("blocks")[0]

    def table(self, shard: int) -> BlockTable:
        table = self.pages.table(self.places.shards[0] + shard, sums=False)
        return self._cut_table(shard, table)

    def tables(self, shards: Iterable[int]) -> Iterator[BlockTable]:
        """See `Shards.tables`. Many are fetched at once."""
        numbers, first = list(shards), self.places.shards[0]
        found = self.pages.tables((first + shard for shard in numbers), sums=False)
        return map(self._cut_table, numbers, found) if self.places.cut else found

    def _cut_table(self, shard: int, table: BlockTable) -> BlockTable:
        if not self.places.cut:
            return table
        records = int(table.records[-1])
        bounds = self._bounds(shard, records)
        return table if bounds == (0, records) else cut_table(table, *bounds)

    def begin_tables(self, shards: Iterable[int]) -> None:
        """Begin to fetch the block tables of these shards, which are asked for soon: as many as fit
        into a few MiB."""
        self.pages.begin_tables(self.places.shards[0] + shard for shard in shards)

    # Parts

    def part(self, start: int, stop: int) -> Shards:
        if start == stop:
            return Shards()
        pages, before = self.pages, self.places.records[0]
        start, stop = before + start, before + stop
        found = pages.shards_of("records", np.array([start, stop - 1], np.int64))
        (first, last), (begins, begun) = (each.tolist() for each in found)
        block, byte = _begin(pages, first, start - begins)
        end, until = _end(pages, last, stop - begun)
        return self._of(
            Places(
                (first, last + 1),
                (start, stop),
                (pages.first_of("blocks", first) + block, pages.first_of("blocks", last) + end),
                pages.nbytes_before(last) + until - pages.nbytes_before(first) - byte,
                begins < start or stop - begun < pages.listed(last).shard.records,
            )
        )

    def part_at(self, places: Places) -> ListedShards:
        """The part that lies at these places of this one. Nothing is read."""
        own = self.places
        moved = places.moved(-own.shards[0], -own.records[0], -own.blocks[0])
        return self._of(moved._replace(cut=places.cut or own.cut))

    def _of(self, part: Places) -> ListedShards:
        return ListedShards(self.folder, self.compression, self.pages, self._generation, part)


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


def committed_shards(folder: Folder, manifest: DatasetManifest) -> Shards:
    """The shards of a manifest. They are read when somebody asks, unless some are streams, whose
    blocks only the files beside them may tell."""
    shards = ListedShards.of(folder, manifest)
    return Shards(shards) if shards.pages.streams else shards
