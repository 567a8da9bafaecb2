"""Which records of which blocks go together: block tables, spans and groups, as arrays.

`tfio_store.tf.dataset.request.Blocks` tells their columns. There is no TensorFlow here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.header_walk import block_table, frame_bounds, frame_offsets
from tfio_store.dataset.model import Dataset
from tfio_store.storage.threads import mapped

__all__ = [
    "Int64Array",
    "Spans",
    "batch_spans",
    "block_spans",
    "coarse_block_spans",
    "cut",
    "exact_batch_spans",
]

Int64Array: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_ALL = np.iinfo(np.int64).max
_FILE, _START, _STOP, _RAW_START, _RAW_STOP, _RECORDS, _BEFORE, _BEHIND = range(8)
_SUM, _SUM_BEHIND = 8, 9


@dataclass(frozen=True, slots=True)
class Spans:
    """A table of blocks, and spans of them in groups.

    A block's records are those that are meant. ``table`` tells behind its six columns how many more
    the block holds before and behind them; `held` and `placed` count these too. Its last two
    columns are what the index tells of the records, up to the block and up to its end, or -1.
    """

    table: Int64Array
    spans: Int64Array
    groups: Int64Array
    files: int

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.groups) - 1

    @property
    def records(self) -> Int64Array:
        """int64 [blocks]: the records of each block."""
        return self.table[:, _RECORDS]

    @property
    def held(self) -> Int64Array:
        """int64 [blocks, 8]: the table with all records that each block holds."""
        columns = [*range(6), _SUM, _SUM_BEHIND]
        found: Int64Array = self.table[:, columns]  # a copy
        found[:, _RECORDS] += self.table[:, _BEFORE] + self.table[:, _BEHIND]
        return found

    @property
    def placed(self) -> Int64Array:
        """int64 [spans, 3]: the spans, as records of the whole block."""
        found: Int64Array = self.spans.copy()
        blocks = self.table[found[:, 0]]
        found[:, 1] += blocks[:, _BEFORE]
        most = np.where(blocks[:, _BEHIND] > 0, blocks[:, _RECORDS] - self.spans[:, 1], _ALL)
        found[:, 2] = np.minimum(found[:, 2], most)
        return found

    @property
    def shard_starts(self) -> Int64Array:
        """int64 [files + 1]: each file's first block."""
        files = np.arange(self.files + 1)
        return np.searchsorted(self.table[:, _FILE], files).astype(np.int64)

    def mean_group(self) -> int:
        """The mean group's uncompressed bytes."""
        return int((self.table[:, _RAW_STOP] - self.table[:, _RAW_START]).sum()) // max(
            self.count, 1
        )

    def largest_group(self) -> int:
        """The uncompressed bytes of the blocks that the largest group touches."""
        if not len(self.spans):
            return 0
        sizes = (self.table[:, _RAW_STOP] - self.table[:, _RAW_START])[self.spans[:, 0]]
        totals = np.append(0, np.cumsum(sizes))[self.groups]
        return int(np.max(np.diff(totals), initial=0))


def block_spans(dataset: Dataset) -> Spans:
    """Each block a group, whole."""
    return _whole(dataset, _table(dataset))


def coarse_block_spans(dataset: Dataset) -> Spans:
    """As `block_spans`, but neighbouring blocks of raw files are taken together. For reading
    in order, where each request has its price."""
    return _whole(dataset, _coarse(dataset, _table(dataset)))


def batch_spans(dataset: Dataset, batch_size: int) -> Spans:
    """Each batch a group: the records that it consists of, by block."""
    return _batches(dataset, _coarse(dataset, _table(dataset)), batch_size)


def exact_batch_spans(
    dataset: Dataset, batch_size: int, *, memory_budget: int, max_record_bytes: int
) -> Spans:
    """As `batch_spans`, for raw files. Blocks end where batches end, so each byte is read once.
    It walks the files' headers, and raises as `index_raw_shards`."""
    rows, before = [], 0
    for i, frames in enumerate(_all_frames(dataset, memory_budget, max_record_bytes)):
        nbytes = dataset.shards[i].nbytes
        batches = np.arange(-before % batch_size, len(frames), batch_size)
        # and at each MiB: memory of that size is reused
        blocks = block_table(frames, nbytes).records
        cuts = _merged(batches, blocks, np.array([0, len(frames)]))
        bounds = frame_bounds(frames, nbytes, cuts)
        starts, stops = bounds[:-1], bounds[1:]
        files = np.full(len(starts), i, np.int64)
        none = np.zeros_like(files)
        unknown = np.full_like(files, -1)
        columns = [files, starts, stops, starts, stops, np.diff(cuts), none, none]
        columns += [unknown, unknown]
        rows.append(np.stack(columns, axis=1))
        before += len(frames)
    return _batches(dataset, _joined(rows), batch_size)


def _all_frames(
    dataset: Dataset, memory_budget: int, max_record_bytes: int
) -> Iterator[Int64Array]:
    """Where the frames of each file lie. It walks as many files at once as there are cores."""
    cores = os.cpu_count() or 1

    def walk(index: int) -> Int64Array:
        store, path = dataset.open(index)
        return frame_offsets(
            store,
            path,
            dataset.shards[index],
            budget=memory_budget // cores,
            max_record_bytes=max_record_bytes,
        )

    return mapped(walk, range(len(dataset.shards)), cores)


def _batches(dataset: Dataset, table: Int64Array, batch_size: int) -> Spans:
    total = int(table[:, _RECORDS].sum())
    bounds = np.append(np.arange(0, total, batch_size), total)
    return cut(table, bounds, len(dataset.shards))


def cut(table: Int64Array, bounds: Int64Array, files: int) -> Spans:
    """The records of a table's blocks, one block after the other, in groups. Group i has records
    ``bounds[i]`` to ``bounds[i + 1]``. The last bound is the number of records."""
    ends = np.cumsum(table[:, _RECORDS])
    begins = ends - table[:, _RECORDS]
    # the records at which a block or a group begins; one span lies between two of them
    cuts = _merged(begins, bounds)
    at, until = cuts[:-1], cuts[1:]
    blocks = np.searchsorted(ends, at, side="right").astype(np.int64)
    spans = np.stack([blocks, at - begins[blocks], until - at], axis=1)
    groups = np.searchsorted(at, bounds)
    return Spans(table, spans, groups.astype(np.int64), files)


def _merged(*numbers: np.ndarray[Any, Any]) -> Int64Array:
    """The numbers of several sorted arrays, sorted, each once."""
    # a stable sort merges runs; np.unique's sort takes a hundred times as long here
    found = np.sort(np.concatenate(numbers).astype(np.int64), kind="stable")
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


def _coarse(dataset: Dataset, table: Int64Array) -> Int64Array:
    """A table in which neighbouring blocks of raw files are one block, up to the size of one of the
    store's requests."""
    raw = np.array([shard.compression is None for shard in dataset.shards], bool)
    if not len(table):
        return table
    most = dataset.open(0)[0].range_bytes
    place = np.where(raw[table[:, _FILE]], table[:, _START] // most, np.arange(len(table)))
    first = np.flatnonzero(np.append(True, np.diff(place) | np.diff(table[:, _FILE])))
    last = np.append(first[1:], len(table)) - 1
    merged: Int64Array = table[first].copy()
    merged[:, _STOP] = table[last, _STOP]
    merged[:, _RAW_STOP] = table[last, _RAW_STOP]
    merged[:, _RECORDS] = np.add.reduceat(table[:, _RECORDS], first)
    merged[:, _BEHIND] = table[last, _BEHIND]
    merged[:, _SUM_BEHIND] = table[last, _SUM_BEHIND]
    return merged


def _whole(dataset: Dataset, table: Int64Array) -> Spans:
    blocks = np.arange(len(table), dtype=np.int64)
    spans = np.stack([blocks, np.zeros_like(blocks), np.full_like(blocks, _ALL)], axis=1)
    groups = np.arange(len(table) + 1, dtype=np.int64)
    return Spans(table, spans, groups, len(dataset.shards))


def _table(dataset: Dataset) -> Int64Array:
    rows = []
    for i, shard in enumerate(dataset.shards):
        table = shard.blocks
        assert table is not None
        columns = (
            np.full(len(table), i, np.int64),
            table.offsets[:-1],
            table.stops,
            table.raw_offsets[:-1],
            table.raw_offsets[1:],
            np.diff(table.records),
            *_beside(table),
            *_sums(table),
        )
        rows.append(np.stack(columns, axis=1))
    return _joined(rows)


def _beside(table: BlockTable) -> Int64Array:
    """int64 [2, blocks]: the records of each block before and behind those that are meant."""
    beside = np.zeros((2, len(table)), np.int64)
    if len(table):
        beside[0, 0], beside[1, -1] = table.before, table.behind
    return beside


def _sums(table: BlockTable) -> Int64Array:
    """int64 [2, blocks]: the sums of the records up to each block, and up to its end."""
    if table.sums is None:
        return np.full((2, len(table)), -1)
    return np.stack([table.sums[:-1], table.sums[1:]]).astype(np.int64)


def _joined(rows: list[Int64Array]) -> Int64Array:
    return np.concatenate(rows).astype(np.int64) if rows else np.zeros((0, 10), np.int64)
