"""`Shard`, and `Shards`: those of a dataset, in order."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, cut_table
from tfio_store.records.arrays import Int64Array
from tfio_store.storage import Store, Version


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


UNKNOWN = -1
"""In a column: nobody knows."""


class Shards(Sequence[Shard]):
    """The shards of a dataset, in order, and what is asked of all of them.

    Here they are at hand, and the blocks of some may be unknown. `ListedShards` reads those of a
    manifest as they are asked for, and all their blocks are known. Records and blocks are counted
    over all shards.
    """

    def __init__(self, shards: Iterable[Shard] = ()) -> None:
        self._shards = tuple(shards)

    def __len__(self) -> int:
        return len(self._shards)

    @overload
    def __getitem__(self, index: int) -> Shard: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Shard, ...]: ...
    def __getitem__(self, index: Any) -> Shard | tuple[Shard, ...]:
        if isinstance(index, slice):
            return tuple(self.some(range(*index.indices(len(self)))))
        return next(self.some([range(len(self))[operator.index(index)]]))

    def __iter__(self) -> Iterator[Shard]:
        return self.some(range(len(self)))

    def __eq__(self, other: object) -> bool:
        return self._shards == other._shards if type(other) is Shards else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self._shards,)

    def __repr__(self) -> str:
        return repr(self._shards)

    @property
    def long(self) -> bool:
        """Whether what is asked may have to be read from the store."""
        return False

    def some(self, numbers: Sequence[int]) -> Iterator[Shard]:
        """These shards."""
        return map(self._shards.__getitem__, numbers)

    def at(self, number: int) -> Shard:
        """One shard. Of a long list it comes without its block table."""
        return self._shards[number]

    @cached_property
    def records(self) -> int | None:
        """The records of all shards. None where the count of one is not known."""
        (counts,) = self.columns("records")
        return None if (counts < 0).any() else int(counts.sum())

    @cached_property
    def blocks(self) -> int | None:
        """The blocks of all shards. None where those of one are not known."""
        (counts,) = self.columns("blocks")
        return None if (counts < 0).any() else int(counts.sum())

    @cached_property
    def nbytes(self) -> int:
        """The bytes of all shards, as they are stored. Of a part of a shard, those of its
        blocks."""
        return sum(shard.part_nbytes for shard in self._shards)

    @property
    def codecs(self) -> Sequence[str | None]:
        """The compression of each shard."""
        return tuple(shard.compression for shard in self._shards)

    @property
    def have_blocks(self) -> bool:
        """Whether every shard's blocks are known."""
        return not self.without_blocks()

    def without_blocks(self) -> list[int]:
        """The numbers of the shards whose blocks are not known."""
        return [i for i, shard in enumerate(self._shards) if shard.blocks is None]

    def columns(self, *names: str) -> list[Int64Array]:
        """int64 [n_shards] each: "nbytes" (of a part of a shard, those of its blocks), "records" or
        "blocks" of every shard; `UNKNOWN` where they are."""
        shards = self._shards
        columns = {
            "nbytes": lambda: [one.part_nbytes for one in shards],
            "records": lambda: [UNKNOWN if one.records is None else one.records for one in shards],
            "blocks": lambda: [
                UNKNOWN if one.blocks is None else len(one.blocks) for one in shards
            ],
        }
        return [np.array(columns[name](), np.int64) for name in names]

    @cached_property
    def record_starts(self) -> Int64Array:
        """int64 [n_shards + 1]: the number of each shard's first record. ValueError names a shard
        where it is unknown."""
        (counts,) = self.columns("records")
        for number in np.flatnonzero(counts < 0)[:1].tolist():
            shard = self.at(number)
            raise ValueError(
                f"{shard.url}: is one {shard.compression} stream, whose records were never "
                "counted, so they have no numbers; copy it with tfio_store.copy(), which writes "
                "blocks and an index"
            )
        return np.append(0, np.cumsum(counts, dtype=np.int64))

    def begins(self) -> Int64Array:
        """int64 [n_shards]: at which byte of its file each shard begins. 0 but for parts."""
        cut = [one.blocks if one.is_part else None for one in self._shards]
        return np.array([0 if one is None else one.offsets[0] for one in cut], np.int64)

    def shards_of(self, records: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The shards that hold these records, and the number of each shard's first one."""
        starts = self.record_starts
        shards = np.searchsorted(starts, records, side="right") - 1
        return shards, starts[shards]

    def table(self, shard: int) -> BlockTable:
        """Where the blocks of one shard lie. ValueError if nobody knows."""
        found = self._shards[shard]
        if found.blocks is None:
            raise ValueError(f"{found.url}: its blocks are not known yet; index the dataset first")
        return found.blocks

    def tables(self, shards: Iterable[int]) -> Iterator[BlockTable]:
        """The block tables of these shards, in this order."""
        return map(self.table, shards)

    def is_stream(self, shard: int, *, raw: bool) -> bool:
        """Whether a shard is read as one stream: one with unknown blocks always, a whole ``raw``
        one if that is wanted."""
        known = self._shards[shard]
        if known.blocks is None or known.is_part:
            return known.blocks is None
        return raw and known.compression is None

    def unit_counts(self, *, raw: bool) -> Int64Array:
        """int64 [n_shards]: how many blocks each shard has; 1 where it is a stream. See
        `is_stream`."""
        numbers = range(len(self))
        counts = [1 if self.is_stream(i, raw=raw) else len(self.table(i)) for i in numbers]
        return np.array(counts, np.int64)

    def part(self, start: int, stop: int) -> Shards:
        """Records ``start:stop``. The first and the last shard may be cut."""
        bounds = pairwise(self.record_starts.tolist())
        return Shards(
            cut_shard(shard, max(start - before, 0), min(stop, end) - before)
            for shard, (before, end) in zip(self._shards, bounds, strict=True)
            if before < stop and start < end
        )

    def known(self, facts: Mapping[int, Shard]) -> Shards:
        """These shards, with what is known now of some of them."""
        return Shards(facts.get(i, shard) for i, shard in enumerate(self))

    def without_checkpoints(self) -> Shards:
        """These shards, with whole streams that others compressed in place of their blocks."""
        streams = {
            i: shard.known(blocks=None)
            for i, shard in enumerate(self._shards)
            if shard.blocks is not None and shard.blocks.checkpoints is not None
            if not shard.is_part
        }
        return self.known(streams) if streams else self

    def repeated(self) -> Iterator[int]:
        """The numbers of shards that a manifest lists once more."""
        return iter(())

    @cached_property
    def digest(self) -> int:
        """A CRC of the shards' names (without folders, which a copy changes) and sizes, and of
        which part of a file is meant."""
        crc = 0
        for shard in self:
            crc = zlib.crc32(f"{shard.url.rsplit('/', 1)[-1]}\0{shard.nbytes}\0".encode(), crc)
            if shard.blocks is not None and shard.is_part:
                bounds = *shard.blocks.offsets[[0, -1]].tolist(), *shard.blocks.bounds
                crc = zlib.crc32(repr(bounds).encode(), crc)
        return crc
