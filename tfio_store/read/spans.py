"""Cuts units into spans: ranges to fetch, and the work that one thread does on each.

A *span* is a part of a stream, or a run of blocks of a shard that lie close together. What can be
told of its bytes alone is done to all of them at once, in a thread, without the GIL for most of the
time: they are read, decompressed and scanned. What depends on what came before is left to the
thread that takes the spans in their order (`read/fetch.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Block, Dataset
from tfio_store.errors import DataLossError
from tfio_store.read.decode import Decoding, Located, decode_block, part_of, recover_block
from tfio_store.read.order import Numbers
from tfio_store.read.plan import Units
from tfio_store.read.record_runs import MERGE_GAP, MOST_WASTE
from tfio_store.records.framing import (
    HEADER_BYTES,
    FileScan,
    RecordBatch,
    Scan,
    find_record,
    scan,
)
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage import Store
from tfio_store.storage.cores import cores
from tfio_store.storage.local import LocalStore, etag_of
from tfio_store.storage.read_ahead import Fetch, Means, Meter, Read, Worked, split_range

__all__ = ["BlockRun", "DecodedBlock", "Spans", "StreamPart"]

_GROWTH = 4
"""So many times as long as the first local span, for which somebody waits, the others may become: a
thread then seldom asks for the GIL."""

_MOST_RAW = 16 << 20
"""Bytes that come of one request for compressed blocks: one thread decompresses them."""

_PER_THREAD = 4
"""So many spans or more for each thread, if they are not too small for that."""

_BUDGETS = 8
"""So many spans or more fit into the budget."""

_SEARCHED = 256 << 10
"""Bytes of a part of a stream in which its first frame is looked for."""

_UNITS_AHEAD = 16

_STRETCH = 4
"""A request for whole blocks may be longer than usual by one of so many parts of it."""


# A thread's work on a span.


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The purpose of one range: a part of a stream, bytes ``start:stop`` of its shard. ``first``
    and ``last`` mark the stream's ends. ``position`` is where it stands in the reader's order.
    Records that begin before byte ``wanted`` are read to be checked, and dropped. If the part is
    whole blocks, ``records`` is how many these hold, and ``summed`` the sum of those before; else
    the scan sums its own records alone."""

    position: int
    shard: int
    start: int
    stop: int
    first: bool = True
    last: bool = True
    wanted: int = 0
    records: int | None = None
    summed: int = 0

    def task(self, how: Decoding, fetch: Fetch[Any]) -> FileScan:
        """What C can do of the work."""
        return _file_scan(fetch, how, self.records, self.summed, find=self._find)

    def work(
        self,
        how: Decoding,
        fetch: Fetch[Any],
        read: Read,
        at_hand: bool,
        task: FileScan | None = None,
    ) -> Worked | None:
        """Scan the records, as far as they are found. What is unusual is left to the stream."""
        took, held = Meter(), (self.records, self.summed)
        found = _scan(fetch, read, at_hand, how, *held, took, find=self._find, task=task)
        return None if found is None else Worked(len(memoryview(found[0])), found, took)

    @property
    def _find(self) -> bool:
        """Whether the first frame may lie anywhere."""
        return self.records is None and self.start > 0


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """The records of a block, and the damage that was passed over."""

    located: Located
    block: Block
    skipped: list[SkippedRegion]


@dataclass(frozen=True, slots=True)
class BlockRun:
    """The purpose of one range: whole blocks of a shard that lie close together. ``position`` is
    where the first stands in the reader's order; the others follow. ``seeds`` gives those of blocks
    that are inflated from checkpoints on, one behind the other."""

    position: int
    blocks: tuple[Block, ...]
    seeds: Callable[[], BytesLike] | None = None

    def task(self, dataset: Dataset, how: Decoding, fetch: Fetch[Any]) -> FileScan | None:
        """What C can do of the work, if anything."""
        sums = self._sums(dataset)
        return None if sums is None else _file_scan(fetch, how, self._held, sums[0])

    def work(
        self,
        dataset: Dataset,
        how: Decoding,
        fetch: Fetch[Any],
        read: Read,
        at_hand: bool,
        task: FileScan | None = None,
    ) -> Worked | None:
        """Decode the blocks: a list of `DecodedBlock`. An error ends it, in place of its block."""
        sums, took = self._sums(dataset), Meter()
        if sums is not None:
            found = _scan(fetch, read, at_hand, how, self._held, sums[0], took, task=task)
            data, scanned = found or (None, None)
            cut = None if scanned is None else self._cut(scanned, sums[1])
        else:
            data, cut = _timed(read, took), None
        if data is None:
            return None
        made = cut or self._decoded(dataset, how, data, took)
        return Worked(len(memoryview(data)), made, took)

    @property
    def _held(self) -> int:
        return sum(block.before + block.records + block.behind for block in self.blocks)

    def _sums(self, dataset: Dataset) -> tuple[int, int] | None:
        """The sums before and behind the run, if it can be scanned as one: it is raw, and has no
        gaps."""
        first, last = self.blocks[0], self.blocks[-1]
        if first.sums is None or last.sums is None:
            return None
        if dataset.shard(first.shard).compression is not None:
            return None
        nbytes = sum(block.stop - block.start for block in self.blocks)
        return (first.sums[0], last.sums[1]) if nbytes == last.stop - first.start else None

    def _cut(self, found: Scan, summed: int) -> list[DecodedBlock] | None:
        """The blocks of a run that was scanned as one, if it is cut as it should be."""
        if found.summed != summed:
            return None
        made, at, first = [], 0, self.blocks[0].start
        buffer, offsets, lengths = found.batch.buffer, found.batch.offsets, found.batch.lengths
        for position, block in enumerate(self.blocks, self.position):
            rows = slice(at, at := at + block.before + block.records + block.behind)
            begin = block.start - first
            if rows.start < at and int(offsets[rows.start]) - HEADER_BYTES != begin:
                return None
            batch = found.batch
            if len(self.blocks) > 1:
                # its buffer is the block alone: who joins batches joins their buffers
                alone = buffer[begin : block.stop - first]
                batch = RecordBatch(alone, offsets[rows] - begin, lengths[rows])
            made.append(DecodedBlock(Located(part_of(batch, block), position, 0), block, []))
        return made

    def _decoded(
        self, dataset: Dataset, how: Decoding, data: BytesLike, took: Meter
    ) -> list[DecodedBlock | Exception]:
        """The blocks, one by one."""
        view, seeds = memoryview(data), memoryview(b"" if self.seeds is None else self.seeds())
        made: list[DecodedBlock | Exception] = []
        for position, block in enumerate(self.blocks, self.position):
            stored = view[block.start - self.blocks[0].start : block.stop - self.blocks[0].start]
            try:
                seed = self._seed_of(block, seeds)
                made.append(_decode(dataset, position, block, stored, how, seed, took))
            except Exception as error:
                made.append(error)
                break
        return made

    def _seed_of(self, block: Block, seeds: memoryview) -> memoryview:
        first = self.blocks[0].restart
        if block.restart is None or first is None:
            return seeds[:0]
        start, stop = block.restart.start - first.start, block.restart.stop - first.start
        return seeds[max(start, 0) : max(stop, 0)]


def _file_scan(
    fetch: Fetch[Any], how: Decoding, records: int | None, summed: int, **options: bool
) -> FileScan:
    return FileScan(
        fetch.path,
        fetch.start,
        fetch.stop,
        records=records,
        verify=how.verify,
        max_record_bytes=how.max_record_bytes,
        summed=summed,
        **options,
    )


def _scan(
    fetch: Fetch[Any],
    read: Read,
    at_hand: bool,
    how: Decoding,
    records: int | None,
    summed: int,
    took: Meter,
    *,
    find: bool = False,
    task: FileScan | None = None,
) -> tuple[BytesLike, Scan | None] | None:
    """The bytes of a range, and the `Scan` of all of its records: None for other than ``records``,
    and if they are not known, for none. ``find``: the first frame may lie anywhere."""
    if isinstance(fetch.store, LocalStore):
        file = task or _file_scan(fetch, how, records, summed, find=find, cached=at_hand)
        found = file.result()
        if found is None and at_hand:
            return None
        if found is not None:
            scanned, mark, (read_s, scan_s) = found
            took.read += read_s
            took.scan += scan_s
            fetch.version.hold(etag_of(*mark), fetch.path)
            if scanned.fault is None and _is_all(scanned, records):
                return scanned.batch.buffer, scanned
    data = _timed(read, took)
    if data is None:
        return None
    started = perf_counter()
    begin, limit = 0, how.max_record_bytes
    if find:
        head = memoryview(data)[:_SEARCHED]
        begin, good, _ = find_record(head, max_record_bytes=limit)
        if not good and len(head) - begin < HEADER_BYTES:
            return data, None
    scanned = scan(data, start=begin, verify=how.verify, max_record_bytes=limit, summed=summed)
    took.scan += perf_counter() - started
    return data, scanned if _is_all(scanned, records) else None


def _timed(read: Read, took: Meter) -> BytesLike | None:
    begun = perf_counter()
    data = read()
    took.read += perf_counter() - begun
    return data


def _is_all(found: Scan, records: int | None) -> bool:
    if records is None:
        return len(found.batch) > 0
    return found.end == len(found.batch.buffer) and len(found.batch) == records


def _decode(
    dataset: Dataset,
    position: int,
    block: Block,
    data: memoryview,
    how: Decoding,
    seed: BytesLike,
    took: Meter,
) -> DecodedBlock:
    shard = dataset.shard(block.shard)
    skipped: list[SkippedRegion] = []
    try:
        batch = decode_block(shard, block, data, how, seed, took)
    except DataLossError:
        if how.skips is None:
            raise
        batch, skipped = recover_block(shard.url, shard.compression, block, data, how, seed)
        batch = part_of(batch, block)
    return DecodedBlock(Located(batch, position, 0), block, skipped)


# From units to spans.


Part: TypeAlias = StreamPart | BlockRun


class Spans:
    """Cuts units into spans for readers of these means."""

    def __init__(self, units: Units, how: Decoding, means: Means) -> None:
        self._units, self._dataset, self._how = units, units.dataset, how
        self._shares = _PER_THREAD * (means.threads or cores())
        self._most = means.budget // _BUDGETS
        self._growth = 1
        self._room = 0
        """Bytes of the run of blocks that is gathered."""

    def fetches(
        self, order: Numbers, *, position: int = 0, start: int = 0
    ) -> Iterator[Fetch[Part]]:
        """The ranges of the units from ``position`` of the order on. ``start``: where in the first
        one, if it is a stream of raw records, reading begins."""
        units, run, wanted = self._units, list[Block](), 0
        for at in range(position, len(order)):
            number = int(order[at])
            if run and not units.is_of(number, run[0].shard):  # the next is asked nothing yet
                yield self._run(at - len(run), run)
                run, wanted = [], 0
            if (at - position) % _UNITS_AHEAD == 1:  # who wants one pays for no others
                units.begin(order[at : at + 2 * _UNITS_AHEAD])
            shard, block = units[number]
            if run and (block is None or not self._continues(run, wanted, block)):
                yield self._run(at - len(run), run)
                run, wanted = [], 0
            if block is None:
                yield from self._stream(at, shard, start, len(order) - at - 1)
            else:
                if not run:
                    left = (len(order) - at) * (block.raw_stop - block.raw_start)
                    self._room = self._next_size(self._dataset.open(shard)[0], left)
                run.append(block)
                wanted += block.stop - block.start
            start = 0
        if run:
            yield self._run(len(order) - len(run), run)

    def _next_size(self, store: Store, left: int) -> int:
        """How many bytes the next span may have, if so many are left. Local ones grow."""
        if not isinstance(store, LocalStore):
            return store.range_bytes
        size = min(self._growth * store.range_bytes, self._most, left // self._shares)
        self._growth = min(2 * self._growth, _GROWTH)
        return max(size, store.range_bytes)

    def _stream(self, position: int, index: int, start: int, behind: int) -> Iterator[Fetch[Part]]:
        """The ranges of a shard, which as many others follow as ``behind``."""
        store, path = self._dataset.open(index)
        shard = self._dataset.shard(index)
        stop = max(start, shard.nbytes)
        wanted, table = start, shard.blocks
        summed = shard.compression is None and table is not None and table.sums is not None
        table = table if summed else None
        if table is not None:  # its blocks are checked from their first record on
            start = int(table.offsets[table.offsets.searchsorted(start, side="right") - 1])
        scanned = shard.compression in (None, "auto")
        for begin, end in self._ranges(start, stop, behind * shard.nbytes, table, store):
            missing = shard.version.end is not None and begin >= shard.version.end
            ask, end = (begin, stop) if missing else (end, end)  # nothing is asked of missing bytes
            ends = begin == start, end == stop
            part = StreamPart(position, index, begin, end, *ends, wanted, *_held(table, begin, end))
            work = partial(part.work, self._how) if scanned else None
            task = partial(part.task, self._how) if scanned else None
            yield Fetch(store, path, begin, ask, part, ask - begin, shard.version, work, task)
            if missing:
                return

    def _ranges(
        self, start: int, stop: int, behind: int, table: BlockTable | None, store: Store
    ) -> Iterator[tuple[int, int]]:
        """Consecutive ranges of a stream, which end where blocks do if there is a table.
        ``behind``: about how many bytes others have that follow."""
        left = stop - start + behind
        while start < stop:
            nbytes = self._next_size(store, left)
            end = min(start + nbytes, stop)
            if table is not None:
                most = nbytes + nbytes // _STRETCH
                end = int(table.offsets[table.offsets.searchsorted(start + most, side="right") - 1])
            if end > start:
                yield start, end
            else:  # a block longer than a span
                assert table is not None
                end = int(table.offsets[table.offsets.searchsorted(start, side="right")])
                alone = max(2 * nbytes, self._most if isinstance(store, LocalStore) else 0)
                # in two pieces the first one waits for the second one, and cools down
                yield from split_range(start, end, nbytes if end - start > alone else end - start)
            start = end

    def _continues(self, run: list[Block], wanted: int, block: Block) -> bool:
        """Whether a span may have a block together with those before it, which have ``wanted``
        bytes."""
        last = run[-1]
        gap = block.start - last.stop
        if block.restart is not None and last.restart is not None and last.start <= block.start:
            gap = max(gap, 0)  # they overlap by a few bytes
            if gap and block.restart.start != last.restart.stop:
                return False  # or seeds would be fetched in vain
        if block.shard != run[0].shard or not 0 <= gap <= MERGE_GAP:
            return False
        wanted += block.stop - block.start
        if gap and (block.stop - run[0].start - wanted) * MOST_WASTE > wanted:
            return False
        store, _ = self._dataset.open(block.shard)
        most_raw = self._room if isinstance(store, LocalStore) else _MOST_RAW
        raw = block.raw_stop - run[0].raw_start
        return block.stop - run[0].start <= self._room and raw <= most_raw

    def _run(self, position: int, run: list[Block]) -> Fetch[Part]:
        start, stop, shard = run[0].start, run[-1].stop, run[0].shard
        store, path = self._dataset.open(shard)
        part = BlockRun(position, tuple(run), self._seeds(run))
        raw = sum(block.raw_stop - block.raw_start for block in run)
        if self._dataset.shard(shard).compression is None:
            raw = 0  # the records are the very bytes that were fetched
        work = partial(part.work, self._dataset, self._how)
        task = partial(part.task, self._dataset, self._how)
        version = self._dataset.shard(shard).version
        return Fetch(store, path, start, stop, part, stop - start + raw, version, work, task)

    def _seeds(self, run: list[Block]) -> Callable[[], BytesLike] | None:
        """Begin to fetch the seeds of a run."""
        first, last = run[0].restart, run[-1].restart
        if first is None or last is None or first.start >= last.stop:
            return None
        store, path = self._dataset.storage.open(first.address)
        nbytes = last.stop - first.start
        return Fetch(store, path, first.start, last.stop, None, nbytes, first.version).ask()


def _held(table: BlockTable | None, start: int, stop: int) -> tuple[int | None, int]:
    """How many records lie in these bytes of a shard, and the sum of those before, if the bytes are
    whole blocks."""
    if table is None or table.sums is None:
        return None, 0
    ends = table.offsets.data  # `searchsorted` would let go of the GIL
    first, last = bisect_left(ends, start), bisect_left(ends, stop)
    if ends[first] != start or ends[last] != stop:
        return None, 0
    return int(table.records[last] - table.records[first]), int(table.sums[first])
