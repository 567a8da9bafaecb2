"""Which records of which blocks go together: block tables, spans and groups, as arrays, and as the
tensors that the ops take.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.header_walk import HeaderWalker, block_table, frame_bounds, walked
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.read.decode import other_records
from tfio_store.records.framing import crc32c
from tfio_store.storage.cores import cores
from tfio_store.storage.threads import mapped

Int64Array: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_ALL = np.iinfo(np.int64).max
_FILE, _START, _STOP, _RAW_START, _RAW_STOP, _RECORDS, _BEFORE, _BEHIND = range(8)
_SUM, _SUM_BEHIND = 8, 9


@dataclass(frozen=True, slots=True)
class Spans:
    """A table of blocks, and spans of them in groups. `Blocks` names their columns.

    A block's records are those that are meant. ``table`` tells behind its six columns how many more
    the block holds before and behind them; `held` and `placed` count these too. Its last two
    columns are what the index tells of the records, up to the block and up to its end, or -1.
    Groups of lanes, int64 [g, lanes + 1], take a record of each lane in turn.
    """

    table: Int64Array
    spans: Int64Array
    groups: Int64Array
    files: int

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.groups) - (self.groups.ndim == 1)

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
        found[:, 1] += np.where(found[:, 2] > 0, blocks[:, _BEFORE], 0)
        most = np.where(blocks[:, _BEHIND] > 0, blocks[:, _RECORDS] - self.spans[:, 1], _ALL)
        found[:, 2] = np.minimum(found[:, 2], most)
        return found

    @property
    def shard_starts(self) -> Int64Array:
        """int64 [files + 1]: each file's first block."""
        files = np.arange(self.files + 1)
        return np.searchsorted(self.table[:, _FILE], files).astype(np.int64)

    def share(self, index: int, count: int) -> Spans:
        """Every ``count``-th block, whole, from this ``index`` on."""
        return self if count == 1 else _whole(self.table[index::count], self.files)

    @property
    def nbytes(self) -> int:
        """The uncompressed bytes of the blocks."""
        return int((self.table[:, _RAW_STOP] - self.table[:, _RAW_START]).sum())

    @property
    def content(self) -> int:
        """A checksum of which records each group has, however blocks are cut.

        Records are numbered by their place in the table's files. Spans of a group that go on in the
        next block are one run of them. Turns that give nothing count as well."""
        order = np.lexsort((self.table[:, _RAW_START], self.table[:, _FILE]))
        begins = np.empty(len(order), np.int64)
        begins[order] = np.cumsum(self.records[order]) - self.records[order]
        block, skip, take = self.spans.T
        idle = take == 0
        first = np.where(idle, -skip, begins[block] + skip)
        last = first + np.where(idle, 0, np.minimum(take, self.records[block] - skip))
        begun = np.append(True, first[1:] != last[:-1])[: len(first)]
        begun[self.groups[self.groups < len(first)]] = True
        runs = np.flatnonzero(begun)
        ends = np.append(runs, len(first))[1:] - 1
        told = (first[runs], last[ends], np.searchsorted(runs, self.groups))
        return crc32c(b"".join(each.astype("<i8").tobytes() for each in told))

    def mean_group(self) -> int:
        """The mean group's uncompressed bytes."""
        return self.nbytes // max(self.count, 1)

    def largest_group(self) -> int:
        """The uncompressed bytes of the blocks that the largest group touches."""
        if not len(self.spans):
            return 0
        sizes = (self.table[:, _RAW_STOP] - self.table[:, _RAW_START])[self.spans[:, 0]]
        totals = np.append(0, np.cumsum(sizes))[self.groups]
        if totals.ndim > 1:
            totals = totals[:, [0, -1]]
        return int(np.max(np.diff(totals), initial=0))


def block_spans(dataset: Dataset) -> Spans:
    """Each block a group, whole."""
    return _whole(_table(dataset), len(dataset.shards))


def coarse_block_spans(dataset: Dataset) -> Spans:
    """As `block_spans`, but neighbouring blocks of raw files are taken together. For reading
    in order, where each request has its price."""
    return _whole(_coarse(dataset, _table(dataset)), len(dataset.shards))


def batch_spans(dataset: Dataset, batch_size: int) -> Spans:
    """Each batch a group: the records that it consists of, by block."""
    return _batches(dataset, _coarse(dataset, _table(dataset)), batch_size)


def exact_batch_spans(dataset: Dataset, batch_size: int, limits: Limits) -> Spans:
    """As `batch_spans`, for raw files. Blocks end where batches end, so each byte is read once.
    It walks the files' headers, and raises as `index_raw_shards`. ReplacedError where a file's
    records are not those that its index tells of."""
    rows, before = [], 0
    for i, walker in enumerate(_all_walked(dataset, limits)):
        frames, nbytes = walker.offsets(), dataset.shards[i].nbytes
        known = dataset.shards[i].blocks
        if known is not None:
            _check(walker, frames, known)
        batches = np.arange(-before % batch_size, len(frames), batch_size)
        # and at each MiB: memory of that size is reused
        blocks = block_table(frames, nbytes).records
        cuts = _merged(batches, blocks, np.array([0, len(frames)]))
        bounds = frame_bounds(frames, nbytes, cuts)
        starts, stops = bounds[:-1], bounds[1:]
        files = np.full(len(starts), i, np.int64)
        none = np.zeros_like(files)
        sums = np.full(len(cuts), -1)
        if known is not None and known.sums is not None and walker.sums is not None:
            sums = walker.sums[cuts]
        columns = [files, starts, stops, starts, stops, np.diff(cuts), none, none]
        columns += [sums[:-1], sums[1:]]
        rows.append(np.stack(columns, axis=1))
        before += len(frames)
    return _batches(dataset, _joined(rows), batch_size)


def _all_walked(dataset: Dataset, limits: Limits) -> Iterator[HeaderWalker]:
    """Walkers that know where the frames of each file lie, of as many files at once as there are
    cores."""
    at_once = cores()
    each = limits._replace(memory_budget=limits.memory_budget // at_once)

    def walk(index: int) -> HeaderWalker:
        store, path = dataset.open(index)
        return walked(store, path, dataset.shards[index], each)

    return mapped(walk, range(len(dataset.shards)), at_once)


def _check(walker: HeaderWalker, frames: Int64Array, table: BlockTable) -> None:
    """ReplacedError unless the blocks of an index end at frames, and hold what it tells of."""
    begun = np.append(frames, walker.next_header)[table.records]
    wrong = begun != table.offsets
    if table.sums is not None and walker.sums is not None:
        wrong |= walker.sums[table.records] != table.sums
    for boundary in np.flatnonzero(wrong)[:1]:
        raise other_records(walker.url, int(table.offsets[max(0, boundary - 1)]))


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


# Records of several files in turns, as an interleave of the files gives them, one from each.
#
# Each of so many *lanes* has files, one after the other: the next file goes to the lane in whose
# turn one has ended. That turn gives no record. So a lane is a line of turns, some without a
# record, and the records come by turn and lane.


@dataclass(frozen=True, slots=True)
class _Lane:
    """The turns of one lane: pieces that begin at ``turns``, and the turn at which it ends."""

    blocks: Int64Array
    """The block of each piece, or -1 where turns give nothing."""
    turns: Int64Array
    end: int

    @classmethod
    def of(cls, files: list[tuple[int, int, int]], starts: Int64Array, ends: Int64Array) -> _Lane:
        """Of ``files`` (its turn, its first block and the one behind its last), whose blocks
        begin and end at these records."""
        blocks, turns, end = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for turn, first, last in files:
            if first == last or starts[first] == ends[last - 1]:
                continue
            if turn > end:
                blocks.append(np.array([-1]))
                turns.append(np.array([end]))
            blocks.append(np.arange(first, last))
            turns.append(turn + starts[first:last] - starts[first])
            end = turn + int(ends[last - 1] - starts[first])
        return cls(np.concatenate(blocks), np.concatenate(turns), end)

    def given(self, turns: Int64Array) -> Int64Array:
        """How many records it has given before each turn."""
        held = np.diff(np.append(self.turns, self.end)) * (self.blocks >= 0)
        before = np.append(0, np.cumsum(held))
        at = np.searchsorted(self.turns, turns, side="right") - 1
        inside = np.minimum(turns, self.end) - self.turns[at]
        found: Int64Array = before[at] + np.where(self.blocks[at] >= 0, inside, 0)
        return found

    def gives(self, turns: Int64Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        at = np.searchsorted(self.turns, turns, side="right") - 1
        return (self.blocks[at] >= 0) & (turns < self.end)


def _lanes(spans: Spans, chosen: Sequence[int], count: int) -> list[_Lane]:
    """The lanes that have any records, of the ``chosen`` files."""
    starts = spans.shard_starts
    ends = np.cumsum(spans.records)
    begins = ends - spans.records
    sizes = np.append(0, ends)[starts]
    files: list[list[tuple[int, int, int]]] = []
    free: list[tuple[int, int]] = []
    """The turn in which a lane's file ends, and the lane."""
    for number, file in enumerate(chosen):
        if number < count:
            turn, lane = 0, number
            files.append([])
        else:
            ended, lane = heapq.heappop(free)
            turn = ended + 1
        files[lane].append((turn, int(starts[file]), int(starts[file + 1])))
        heapq.heappush(free, (turn + int(sizes[file + 1] - sizes[file]), lane))
    found = [_Lane.of(each, begins, ends) for each in files]
    return [lane for lane in found if lane.end]


def turn_spans(spans: Spans, files: Sequence[int], lanes: int, size: int) -> Spans:
    """The records of ``spans``, whole blocks, from so many of the ``files`` in turns; ``size`` in a
    group."""
    found = _lanes(spans, files, lanes)
    count = len(found)
    total = sum(int(lane.given(np.array([lane.end]))[0]) for lane in found)
    if not total:
        return Spans(spans.table, spans.spans[:0], np.zeros((0, 2), np.int64), spans.files)
    cuts = np.append(np.arange(0, total, size), total)
    turn, first = _turns_of(found, cuts)
    pieces, groups, places = [], [], []
    for number, lane in enumerate(found):
        # the lanes before the group's first one had their turn
        until = np.minimum(turn + (number < first), lane.end)
        at = _merged(lane.turns, until)
        at = at[at < lane.end]
        piece = np.searchsorted(lane.turns, at, side="right") - 1
        block, skip = lane.blocks[piece], at - lane.turns[piece]
        behind = np.append(at[1:], lane.end)
        none = block < 0
        pieces.append(
            np.stack(
                [
                    np.where(none, 0, block),
                    np.where(none, behind - at, skip),
                    np.where(none, 0, behind - at),
                ],
                axis=1,
            )
        )
        group = np.searchsorted(until, at, side="right") - 1
        groups.append(group)
        places.append((number - first[group]) % count)
    group, place = np.concatenate(groups), np.concatenate(places)
    order = np.lexsort((place, group))
    lane_of = group[order] * count + place[order]
    bounds = np.searchsorted(lane_of, np.arange((len(cuts) - 1) * count + 1))
    rows = np.arange(len(cuts) - 1)[:, None] * count + np.arange(count + 1)
    table = np.concatenate(pieces)[order].astype(np.int64)
    return Spans(spans.table, table, bounds[rows].astype(np.int64), spans.files)


def _turns_of(lanes: list[_Lane], numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The turn and the lane of each record of the whole."""
    changes = _merged(*(np.append(lane.turns, lane.end) for lane in lanes))
    given = np.sum([lane.given(changes) for lane in lanes], axis=0)
    at = np.searchsorted(given, numbers, side="right") - 1
    active = np.stack([lane.gives(changes) for lane in lanes], axis=1)
    at = np.minimum(at, len(changes) - 1)
    several = np.maximum(1, active.sum(axis=1))[at]
    left = numbers - given[at]
    turns = changes[at] + left // several
    # the lane is the active one with so many active before it
    ranks = np.cumsum(active, axis=1)[at]
    lane = np.argmax(ranks > (left % several)[:, None], axis=1)
    return turns.astype(np.int64), lane.astype(np.int64)


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


def _whole(table: Int64Array, files: int) -> Spans:
    blocks = np.arange(len(table), dtype=np.int64)
    spans = np.stack([blocks, np.zeros_like(blocks), np.full_like(blocks, _ALL)], axis=1)
    groups = np.arange(len(table) + 1, dtype=np.int64)
    return Spans(table, spans, groups, files)


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


# The request of a pipeline to the ops.


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a dataset, and the groups in which a pipeline asks for them.

    files: string [f]. URLs or paths.
    codecs: string [f]. "" (raw), "GZIP", "ZLIB" or "ZSTD"; with "@index" behind it if the blocks
        are those of an index of checkpoints.
    versions: string [f]. The etags of the files when their blocks were found; "" where unknown.
    table: int64 [blocks, 8]. File; stored bytes from, to; uncompressed bytes from, to; records; the
        sums of the records before the block and up to its end, or -1.
    spans: int64 [s, 3]. Block; records to skip; records to take.
    groups: int64 [g + 1]. Group i is ``spans[groups[i]:groups[i + 1]]``. Or int64 [g, lanes + 1]:
        lane k of group i is ``spans[groups[i, k]:groups[i, k + 1]]``, and lanes give a record each
        in turn. In a lane, a span of no records is so many turns as it skips records.
    mark: int64 [1]. Of the versions of the files; groups are wanted by the numbers of
        `stages.marked`. Or int64 [0]: by their own numbers.
    """

    files: tf.Tensor
    codecs: tf.Tensor
    versions: tf.Tensor
    table: tf.Tensor
    spans: tf.Tensor
    groups: tf.Tensor
    mark: tf.Tensor

    @property
    def tensors(self) -> tuple[tf.Tensor, ...]:
        """All of them, in this order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def inputs(self, wanted: tf.Tensor) -> dict[str, tf.Tensor]:
        names = [field.name for field in fields(self)]
        return {**dict(zip(names, self.tensors, strict=True)), "wanted": wanted}


# The numbers of groups that are wanted may have a mark behind them, in their last bits: that of the
# versions of the files. ``ext/tensorflow/ops/op_blocks.c`` takes them apart as `group_of` does.


MARKS = 1 << 32
"""So many marks there are; it leaves room for 2^31 groups."""

_PLACES = 1 << 12
"""The place's share of a mark. The rest is that of the files."""

REPLACED = (
    "the iterator's state was taken of other files than those that are there now: they, or "
    "their manifest, were replaced since; begin anew, without this state"
)


def mark_of(place: str, files: str) -> int:
    """A mark of where files were, and what was there; 0 if nothing is known of them."""
    if not files:
        return 0
    most = MARKS // _PLACES - 1
    return (1 + crc32c(files.encode()) % most) * _PLACES + crc32c(place.encode()) % _PLACES


def group_of(number: int, mark: Sequence[int]) -> int:
    """The group of a number that is wanted of `Blocks` with this ``mark``; below 0 for none.
    RuntimeError if the number has the mark of other files in the same place."""
    if number < 0 or not len(mark):
        return number
    group, saved = divmod(number, MARKS)
    now = int(mark[0])
    if saved and now and saved != now and saved % _PLACES == now % _PLACES:
        raise RuntimeError(REPLACED)
    return group
