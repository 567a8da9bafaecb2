"""`ListedShards`: the shards of a long dataset, each of which is read from the list when somebody
asks for it."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from typing import Any, overload

from tfio_store.dataset.block_tables import BlockTable, ShardInfo
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.model import LazyShards, Shard
from tfio_store.dataset.paged_part import part_at, part_of_pages
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.dataset.places import Places
from tfio_store.storage import Version

__all__ = ["ListedShards"]


class ListedShards(LazyShards):
    """A sequence of `Shard` with their block tables. It pickles as the places of the pages.

    An item takes up to two requests: its page and its table. Iterating keeps many in flight.
    """

    def __init__(self, folder: Folder, compression: str | None, paged: PagedShards) -> None:
        self.folder = folder
        self.compression = compression
        self.paged = paged
        self._versions: dict[int, Version] = {}
        """Of the shards that somebody has asked for: all reads of one share its version."""

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
        for number, table in zip(numbers, self.paged.tables(numbers), strict=True):
            yield self._shard(number, self.paged[number], table)

    def without_blocks(self, shard: int) -> Shard:
        """One shard without its block table: a page is all that is read."""
        return self._shard(shard, self.paged[shard], None)

    def part(self, start: int, stop: int) -> ListedShards:
        """Records ``start:stop``. There must be one at least."""
        return ListedShards(self.folder, self.compression, part_of_pages(self.paged, start, stop))

    def part_at(self, places: Places) -> ListedShards:
        """The part that lies at these places. Nothing is read."""
        return ListedShards(self.folder, self.compression, part_at(self.paged, places))

    def named(self, names: Iterable[str]) -> tuple[Shard, ...]:
        """Those of these names that are in the list. It is searched only for names that do not
        stand where the number in them says."""
        wanted = set(names)
        found = {name: number for name in wanted if (number := self._place_of(name)) is not None}
        if len(found) < len(wanted):
            every = enumerate(self.paged)
            found = {shard.name: number for number, shard in every if shard.name in wanted}
        return tuple(self.of(sorted(found.values())))

    def _place_of(self, name: str) -> int | None:
        """The number of a shard, if the first number in its name is that."""
        digits = re.search(r"-(\d{5,18})", name)
        number = len(self) if digits is None else int(digits[1])
        return number if number < len(self) and self.paged[number].name == name else None

    def _shard(self, number: int, info: ShardInfo, table: BlockTable | None) -> Shard:
        return Shard.at(
            self.folder.store,
            self.folder.join(info.name),
            info.nbytes,
            compression=self.compression,
            records=info.records,
            blocks=table,
            crc32c=info.crc32c,
            version=self._versions.setdefault(number, Version()),
        )

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
