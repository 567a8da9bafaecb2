"""`Shard`, and the shards of a committed dataset: those of a long one are read from its list when
they are asked for. Packed, they go to other processes.
"""

from __future__ import annotations

import operator
import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, overload

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, ShardInfo
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.inflate.checkpoints import Checkpoints
from tfio_store.dataset.manifest import DatasetManifest, listing_of
from tfio_store.dataset.names import MANIFEST_SUFFIX
from tfio_store.dataset.paged_shards import PagedShards, Places, cut_table
from tfio_store.records.arrays import Int64Array
from tfio_store.storage import Store, Version
from tfio_store.storage.aside import aside

__all__ = [
    "ListedShards",
    "Shard",
    "committed_shards",
    "cut_shard",
    "pack_shards",
    "unpack_shards",
]


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of records, or a part of it, which ``blocks`` describe.

    ``nbytes`` are the file's. ``compression`` is None (raw), "GZIP", "ZLIB" or "ZSTD", or "auto"
    until the file is looked at. ``blocks``, ``records`` and ``crc32c`` (of the stored bytes) are
    None while unknown. All reads of the shard share ``version``, so the bytes of two versions are
    never mixed.
    """

    url: str
    nbytes: int
    compression: str | None = "auto"
    records: int | None = None
    blocks: BlockTable | None = None
    crc32c: int | None = None
    version: Version = field(default_factory=Version, compare=False, repr=False)
    secret_url: str | None = field(default=None, compare=False, repr=False)
    """The URL with its signature or password. ``url`` lacks that, because errors show it."""

    @classmethod
    def at(cls, store: Store, path: str, nbytes: int, **facts: Any) -> Shard:
        """The shard that a store keeps under ``path``."""
        url, address = store.url(path), store.address(path)
        return cls(url, nbytes, secret_url=None if address == url else address, **facts)

    @property
    def address(self) -> str:
        """The URL that opens it. It may hold a secret, so do not show it."""
        return self.secret_url or self.url

    @property
    def is_part(self) -> bool:
        """Whether only some of the file's records are meant, those that ``blocks`` describe."""
        return self.blocks is not None and not self.blocks.whole

    @property
    def part_nbytes(self) -> int:
        """The stored bytes of what is meant: of the whole file, or of the blocks of a part."""
        if self.blocks is None or self.blocks.whole:
            return self.nbytes
        return int(self.blocks.offsets[-1] - self.blocks.offsets[0])

    def known(self, **facts: Any) -> Shard:
        """This shard, with more known about it."""
        return replace(self, **facts)


def cut_shard(shard: Shard, first: int, stop: int) -> Shard:
    """Records ``first:stop`` of a shard, the blocks of which are known unless that is all of it."""
    if (first, stop) == (0, shard.records):
        return shard
    if shard.blocks is None:
        raise ValueError(
            f"{shard.url}: is one {shard.compression} stream, which cannot be cut between records; "
            "copy it with tfio_store.copy(), which compresses in blocks"
        )
    return shard.known(blocks=cut_table(shard.blocks, first, stop), records=stop - first)


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
            named = self._named(Folder(store, parent))
            if named == name:
                raise missing
            if named is None:
                raise self.replaced(store.url(path)) from missing
            kept = parent + slash + named
        self.now = kept, Version()

    def _named(self, folder: Folder) -> str | None:
        """The shard's name in the manifest, as it is by now. None if it has another shard."""
        assert self.home is not None
        for name in folder.names(f"_*{MANIFEST_SUFFIX}"):
            found = folder.manifest(name, index=False, damaged=True)
            if found is None or not found.holds(self.home.generation or ""):
                continue
            assert found.manifest is not None
            shards = listing_of(found.manifest)
            if self.home.number < len(shards):
                shard = shards.listed(self.home.number).shard
                if (shard.nbytes, shard.crc32c) == self.home[:2]:
                    return shard.name
        return None


class ListedShards(Sequence[Shard]):
    """A sequence of `Shard` with their block tables. It pickles as the places of the pages.

    An item takes up to two requests: its page and its table. Iterating keeps many in flight.
    """

    def __init__(
        self,
        folder: Folder,
        compression: str | None,
        paged: PagedShards,
        generation: str | None = None,
    ) -> None:
        self.folder = folder
        self.compression = compression
        self.paged = paged
        self._generation = generation
        self._versions: dict[int, Version] = {}
        """Versions of the shards that were asked for: all reads of a shard share one."""
        self._at_hand: dict[int, Shard] = {}
        """Shards of a small dataset that were asked for."""

    def __len__(self) -> int:
        return len(self.paged)

    @overload
    def __getitem__(self, index: int) -> Shard: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Shard, ...]: ...
    def __getitem__(self, index: Any) -> Shard | tuple[Shard, ...]:
        if isinstance(index, slice):
            return tuple(self.of(range(*index.indices(len(self)))))
        return next(self.of([range(len(self))[operator.index(index)]]))

    def __iter__(self) -> Iterator[Shard]:
        return self.of(range(len(self)))

    def of(self, shards: Iterable[int]) -> Iterator[Shard]:
        """These shards, whose tables are fetched many at once."""
        numbers = list(shards) if not isinstance(shards, range) else shards
        for number, info in zip(numbers, self.paged.some(numbers), strict=True):
            yield self._shard(number, info)

    def at(self, shard: int) -> Shard:
        """One shard, of a long dataset without its block table: a page is all that is read."""
        if not self.paged.small:
            return self._shard(shard, self.paged.listed(shard).shard)
        found = self._at_hand.get(shard)
        if found is None:
            found = self._at_hand[shard] = self._shard(shard, self.paged[shard])
        return found

    def part(self, start: int, stop: int) -> ListedShards:
        """Records ``start:stop``. There must be one at least."""
        return self._of(self.paged.part(start, stop))

    def part_at(self, places: Places) -> ListedShards:
        """The part that lies at these places. Nothing is read."""
        return self._of(self.paged.part_at(places))

    def _of(self, part: PagedShards) -> ListedShards:
        return ListedShards(self.folder, self.compression, part, self._generation)

    def _shard(self, number: int, info: ShardInfo) -> Shard:
        return Shard.at(
            self.folder.store,
            self.folder.join(info.name),
            info.nbytes,
            compression=self.compression,
            records=info.records,
            blocks=info.blocks,
            crc32c=info.crc32c,
            version=self._version(number, info),
        )

    def _version(self, number: int, info: ShardInfo) -> Version:
        first = self.paged.first_shard
        home = Home(info.nbytes, info.crc32c, self._generation, first + number)
        return self._versions.setdefault(number, ShardVersion(home=home))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ListedShards):
            return NotImplemented
        return self._facts == other._facts

    __hash__ = None  # type: ignore[assignment]

    @property
    def _facts(self) -> tuple[Any, ...]:
        return self.folder.url(""), self.compression, self.paged

    def __repr__(self) -> str:
        return f"<ListedShards: {len(self)} in {self.folder.url('')}>"


# Shards as few bytes, to be sent to other processes of this version. No I/O.
#
# A block of a table takes three numbers of eight bytes. Packed are the differences between blocks,
# which are alike, each byte of them beside the same byte of the others: what is alike goes by
# zlib, and about four bytes of a block stay, and four of its sum. The places of single records are
# left out.


def pack_shards(shards: Sequence[Shard]) -> bytes:
    """Bytes from which `unpack_shards` makes the same shards, without the places of their
    records."""
    facts = [
        (s.url, s.nbytes, s.compression, s.records, s.crc32c, s.version.known, s.secret_url)
        for s in shards
    ]
    tables = [shard.blocks for shard in shards]
    known = [table for table in tables if table is not None]
    packed = [table for table in known if table.raw_offsets is not table.offsets]
    heads = [None if table is None else _head(table) for table in tables]
    columns = (
        _planes([table.offsets for table in known]),
        _planes([table.raw_offsets for table in packed]),
        _planes([table.records for table in known]),
        b"".join(t.sums.astype("<u4").tobytes() for t in known if t.sums is not None),
    )
    points = [_points(table) for table in tables]
    return zlib.compress(pickle.dumps((facts, heads, columns, points)))


def unpack_shards(data: bytes) -> tuple[Shard, ...]:
    """The shards of `pack_shards`."""
    facts, heads, columns, points = pickle.loads(zlib.decompress(data))
    tables = map(_with_points, _tables(heads, columns), points)
    return tuple(
        Shard(url, nbytes, codec, records, next(tables), crc, ShardVersion(*known), secret)
        for url, nbytes, codec, records, crc, known, secret in facts
    )


def _head(table: BlockTable) -> tuple[Any, ...]:
    raw = None if table.raw_offsets is table.offsets else int(table.raw_offsets[0])
    summed = table.sums is not None
    return len(table), int(table.offsets[0]), raw, *table.bounds, summed


def _points(table: BlockTable | None) -> tuple[Any, ...] | None:
    """The checkpoints that `_with_points` adds to a table again."""
    points = None if table is None else table.checkpoints
    if points is None:
        return None
    wide = (points.bits, points.stops, points.seeds)
    starts = [(max(len(array) - 1, 0), int(array[0]) if len(array) else 0) for array in wide]
    narrow = (points.skips.astype("<u4").tobytes(), points.crcs.astype("<u4").tobytes())
    return (
        _planes(wide),
        starts,
        len(points),
        narrow,
        points.address,
        points.end,
        points.version.etag,
    )


def _with_points(table: BlockTable | None, packed: tuple[Any, ...] | None) -> BlockTable | None:
    if table is None or packed is None:
        return table
    planes, starts, count, narrow, address, end, etag = packed
    bits, stops, seeds = _running(planes, starts)
    skips, crcs = (np.frombuffer(data, "<u4").astype(np.uint32) for data in narrow)
    version = Version(etag)
    points = Checkpoints(bits[:count], stops[:count], skips, crcs, seeds, address, end, version)
    return replace(table, checkpoints=points)


def _tables(
    heads: Sequence[tuple[Any, ...] | None], columns: tuple[Any, Any, Any, bytes]
) -> Iterator[BlockTable | None]:
    known = [head for head in heads if head is not None]
    offsets = _running(columns[0], [(n, first) for n, first, *_ in known])
    raw = _running(columns[1], [(n, first) for n, _, first, *_ in known if first is not None])
    records = _running(columns[2], [(n, 0) for n, *_ in known])
    sums, at_sum = np.frombuffer(columns[3], "<u4").astype(np.uint32), 0
    for head in heads:
        if head is None:
            yield None
            continue
        count, _, first, whole, before, behind, summed = head
        at = next(offsets)
        inflated = at if first is None else next(raw)
        mine = sums[at_sum : at_sum + count + 1] if summed else None
        at_sum += count + 1 if summed else 0
        yield BlockTable(at, inflated, next(records), None, before, behind, whole, mine)


def _planes(arrays: Sequence[Int64Array]) -> tuple[int, bytes]:
    """The differences within each array: how many bytes each takes, and these bytes: the lowest of
    all first."""
    steps = np.concatenate([np.zeros(0, np.int64), *map(np.diff, arrays)])
    width = max(1, (int(steps.max(initial=0)).bit_length() + 7) // 8)
    return width, steps.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()


def _running(planes: tuple[int, bytes], starts: Sequence[tuple[int, int]]) -> Iterator[Int64Array]:
    """The arrays that `_planes` packed, of so many steps from these first numbers on."""
    width, data = planes
    low = np.frombuffer(data, np.uint8).reshape(width, -1).T
    wide = np.zeros((len(low), 8), np.uint8)
    wide[:, :width] = low
    steps = wide.view("<i8").ravel().astype(np.int64)
    stops = accumulate((count for count, _ in starts), initial=0)
    for (_, first), (begin, stop) in zip(starts, pairwise(stops), strict=True):
        yield np.append(first, first + np.cumsum(steps[begin:stop], dtype=np.int64))


def committed_shards(folder: Folder, manifest: DatasetManifest) -> ListedShards:
    """The shards of a manifest. They are read when somebody asks."""
    listing = listing_of(manifest)
    return ListedShards(folder, manifest.compression, listing, manifest.generation)
