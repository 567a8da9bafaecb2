"""`partitions`: a dataset in parts that engines read, each by a task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tfio_store.dataset.model import Dataset, LazyShards, Shard, common_told
from tfio_store.dataset.paged_shards import PagedShards, Places
from tfio_store.dataset.part import cut_shard, in_turn, runs_of
from tfio_store.dataset.source import Source, open_dataset, repeatable
from tfio_store.read.order import check_from_1
from tfio_store.records.arrays import Int64Array
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.partition import Partition

__all__ = ["partitions"]


# The partitions of a long dataset. Of its block tables only those are read in which a cut lies.


_NEAR = 16
"""A cut moves to the end of a shard that is nearer than this part of a partition."""


def long_parts(
    shards: LazyShards, target_bytes: int, count: int | None
) -> Iterator[tuple[LazyShards, int]]:
    """The shards of each partition, and the number of its first record.

    All pages of the list are read, once. Blocks of one shard are taken for equally long.
    """
    paged = shards.paged
    nbytes, records, blocks = paged.columns("nbytes", "records", "blocks")
    total = int(blocks.sum())
    wanted = math.ceil(int(nbytes.sum()) / target_bytes) if count is None else count
    parts = min(wanted, total)
    if not parts:
        return
    cuts = in_turn(_cuts(nbytes, blocks, parts), total)
    for places in _places(paged, cuts, nbytes, records, blocks):
        if places.records[0] < places.records[1]:
            yield shards.part_at(places), places.records[0]


def _cuts(nbytes: Int64Array, blocks: Int64Array, parts: int) -> Int64Array:
    """int64 [parts - 1]: the blocks before which the cuts lie."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), parts + 1)[1:-1]
    shard = np.searchsorted(ends, wanted)
    share = (wanted - (ends[shard] - nbytes[shard])) / nbytes[shard]
    near = ends[-1] / parts / _NEAR / nbytes[shard]
    share = np.where(share < near, 0, np.where(share > 1 - near, 1, share))
    before = np.cumsum(blocks) - blocks
    found: Int64Array = before[shard] + np.rint(share * blocks[shard]).astype(np.int64)
    return found


def _places(
    paged: PagedShards,
    cuts: Int64Array,
    nbytes: Int64Array,
    records: Int64Array,
    blocks: Int64Array,
) -> Iterator[Places]:
    """Where the runs of blocks between neighbouring ``cuts`` lie."""
    ends, bytes_end = np.cumsum(blocks), np.cumsum(nbytes)
    first = np.searchsorted(ends, cuts[:-1], side="right")
    last = np.searchsorted(ends, cuts[1:] - 1, side="right")
    inside = cuts[:-1] - (ends[first] - blocks[first])
    record = (np.cumsum(records) - records)[first]
    byte = (bytes_end - nbytes)[first]
    split = np.unique(first[inside > 0]).tolist()
    for shard, table in zip(split, paged.tables(split), strict=True):
        mine = slice(*np.searchsorted(first, [shard, shard + 1]))
        record[mine] += table.records[inside[mine]]
        byte[mine] += table.offsets[inside[mine]] - table.offsets[0]
    record, inside = np.append(record, records.sum()), np.append(inside, 0)
    sizes = np.minimum(np.append(byte[1:], bytes_end[-1]), bytes_end[last]) - byte
    is_cut = (inside[:-1] > 0) | (inside[1:] > 0)
    columns = first, last + 1, record[:-1], record[1:], cuts[:-1], cuts[1:], sizes, is_cut
    for begin, end, start, stop, block, behind, size, cut in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield Places((begin, end), (start, stop), (block, behind), size, cut)


def partitions(
    source: Source,
    *,
    target_bytes: int = 128 << 20,
    num_partitions: int | None = None,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> list[Partition]:
    """Cut a source into runs of blocks of about the same size, for the tasks of an engine.

    A partition may begin and end in the middle of a shard, also of a compressed one. Together the
    partitions have each record once, in the order of the source. Nothing is read but the manifest
    and the index. A file without an index, whose blocks are unknown, is never cut: it is a
    partition of its own, unless ``num_partitions`` asks for fewer than there are files.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        target_bytes (int): Stored bytes of a partition, at most, as far as blocks allow: they are
            about 1 MiB before compression. Default 128 MiB.
        num_partitions (int | None): How many partitions to make, whatever their size. There are
            fewer if there are fewer blocks, since none is empty. Default None: ``target_bytes``
            decides.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Each partition holds them, and so does
            its pickle. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        list[Partition]: In order. Empty for a source without records.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        TypeError: ``target_bytes`` or ``num_partitions`` is no whole number.
        ValueError: One of them is below 1.

    Example:
        >>> _ = tfs.write_table({"x": list(range(10))}, "train", num_shards=4)
        >>> [part.num_records for part in tfs.partitions("train", num_partitions=2)]
        [5, 5]
        >>> [part.num_records for part in tfs.partitions("train")]
        [10]
    """
    check_from_1("target_bytes", target_bytes)
    if num_partitions is not None:
        check_from_1("num_partitions", num_partitions)
    storage = given_storage(storage_options, storage)
    source = repeatable(source)
    dataset = open_dataset(source, storage, compression=compression)
    told = (common_told(dataset.told),) if dataset.told else ()
    found: Iterable[tuple[Sequence[Shard], int | None]]
    if isinstance(dataset.shards, LazyShards):
        found = long_parts(dataset.shards, target_bytes, num_partitions)
    else:
        found = _Units(dataset).parts(target_bytes, num_partitions)
    return [
        Partition(index, replace(dataset, shards=shards, told=told), first)
        for index, (shards, first) in enumerate(found)
    ]


class _Units:
    """The blocks of a dataset in their order, and shards of which the blocks are not known."""

    def __init__(self, dataset: Dataset) -> None:
        # an empty file holds nothing that a task could read
        self._shards = [s for s in dataset.shards if s.nbytes or s.blocks is not None]
        sizes = [_sizes(shard) for shard in self._shards]
        self._nbytes = np.concatenate([np.zeros(0, np.int64), *sizes])
        self._starts = np.cumsum([0, *map(len, sizes)])
        self._records = list(_running(self._shards))

    def parts(
        self, target_bytes: int, count: int | None
    ) -> Iterator[tuple[tuple[Shard, ...], int | None]]:
        """The shards of each partition, and the number of its first record."""
        runs = self._runs(target_bytes) if count is None else self._in_all(count)
        for start, stop in runs:
            shards, first = self._between(start, stop)
            if shards:
                yield shards, first

    def _runs(self, target_bytes: int) -> Iterator[tuple[int, int]]:
        """Units from and to, for each partition of about so many bytes."""
        numbers = range(len(self._shards))
        for known, group in groupby(numbers, lambda i: self._shards[i].blocks is not None):
            shards = list(group)
            bounds = self._starts[[shards[0], *(i + 1 for i in shards)]]
            if known:
                bounds = self._cuts(bounds[0], bounds[-1], target_bytes)
            yield from pairwise(bounds.tolist())

    def _cuts(self, begin: int, end: int, target_bytes: int) -> Int64Array:
        nbytes = self._nbytes[begin:end]
        count = min(math.ceil(int(nbytes.sum()) / target_bytes), len(nbytes))
        return runs_of(nbytes, count) + begin if count else np.zeros(0, np.int64)

    def _in_all(self, count: int) -> Iterator[tuple[int, int]]:
        """Units from and to, for each of ``count`` partitions."""
        count = min(count, len(self._nbytes))
        yield from pairwise(runs_of(self._nbytes, count).tolist() if count else [])

    def _between(self, start: int, stop: int) -> tuple[tuple[Shard, ...], int | None]:
        """The shards of units ``start:stop``, and the number of the first record there."""
        begin = int(np.searchsorted(self._starts, start, side="right")) - 1
        end = int(np.searchsorted(self._starts, stop))
        found, before = [], self._records[begin]
        for i in range(begin, end):
            shard, first = self._shards[i], int(self._starts[i])
            last = min(stop, int(self._starts[i + 1]))
            part = _blocks_of(shard, max(start - first, 0), last - first)
            if i == begin and before is not None and shard.blocks is not None:
                before += int(shard.blocks.records[start - first])
            found += [part] if part is not None else []
        return tuple(found), before


def _sizes(shard: Shard) -> Int64Array:
    if shard.blocks is None:
        return np.array([shard.nbytes], np.int64)
    return np.diff(shard.blocks.offsets)


def _running(shards: Iterable[Shard]) -> Iterator[int | None]:
    """How many records stand before each shard. None after the first shard whose count is
    unknown."""
    before: int | None = 0
    for shard in shards:
        yield before
        before = None if before is None or shard.records is None else before + shard.records


def _blocks_of(shard: Shard, start: int, stop: int) -> Shard | None:
    """Blocks ``start:stop`` of a shard, without the places of single records. None without any."""
    table = shard.blocks
    if table is None:
        return shard
    plain = shard.known(blocks=table.without_starts())
    first, last = table.records[[start, stop]].tolist()
    return cut_shard(plain, first, last) if first < last else None
