"""`fetch_blocks`: the batches of any blocks of a dataset, in order, within a budget of bytes.

All reading of blocks goes through it. A sequential reader asks for all of them, a shuffled one for
a permutation, and a source for those that hold the wanted records. A shard that can't be cut counts
as one block.

Streams are decoded in order, in the caller's thread. Compressed blocks are independent. The
process's threads decompress them ahead of their use, and they come in order all the same. If the
iterator is dropped, the few blocks under way end unseen.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tfio_store.dataset.model import MEMORY_BUDGET, TASK_BUDGET, Block, Dataset
from tfio_store.errors import DataLossError
from tfio_store.read.decode import (
    Decoding,
    Located,
    OnCorrupt,
    Skips,
    decode_block,
    part_of,
    recover_block,
)
from tfio_store.read.order import Numbers
from tfio_store.read.plan import BlockRun, SeedRun, StreamPart, Units, fetches
from tfio_store.read.record_runs import (
    Frames,
    RecordRun,
    at_hand,
    decode_run,
    record_fetches,
)
from tfio_store.read.stream import StreamReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage import threads
from tfio_store.storage.read_ahead import Fetch, ReadAhead

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


__all__ = ["BlockBatch", "BlockRange", "decode", "fetch_blocks", "fetch_records"]


def fetch_blocks(
    units: Units, numbers: Numbers, how: Decoding, *, budget: int, position: int = 0, start: int = 0
) -> Iterator[Located]:
    """Batches of the units of these numbers, from ``position`` of them on. Empty ones are left out.

    ``budget``: bytes that may be in flight, or fetched and not yet decoded. ``start``: where in
    the first unit, if it is a stream of raw records, reading begins.
    """
    ranges = fetches(units, numbers, position=position, start=start)
    # of a long dataset each range may need a page and a table, which take requests themselves
    paged = units.dataset.paged
    first = None if paged is None or paged.small else 1
    with closing(ReadAhead(ranges, budget=budget, may_be_short=True, first=first)) as ahead:
        yield from decode(units.dataset, tagged(ahead), how, budget=budget)


def fetch_records(
    units: Units, numbers: Numbers, frames: Frames, how: Decoding, *, budget: int
) -> Iterator[Located]:
    """Batches of the units of these numbers, as `fetch_blocks` gives them, and behind them batches
    of the single records that ``frames`` name. Positions count the units and then the records;
    a batch of records begins at its position. What local files have in memory comes first, and all
    else is one round of requests."""
    behind, rest = len(numbers), list[slice]()
    for located in at_hand(units.dataset, frames, how, rest):
        yield replace(located, position=behind + located.position)
    singles = (
        record_fetches(units.dataset, frames[rows], how, position=behind + rows.start)
        for rows in rest
    )
    ranges = chain[Fetch[Any]](fetches(units, numbers), chain.from_iterable(singles))
    with closing(ReadAhead(ranges, budget=budget, may_be_short=True)) as ahead:
        yield from decode(units.dataset, tagged(ahead), how, budget=budget)


def tagged(ahead: ReadAhead[Any]) -> Iterator[tuple[Any, BytesLike]]:
    """The tags and bytes of the ranges, of which none stays here while the next one is fetched."""
    for fetch, data in ahead:
        given = fetch.tag, data
        del fetch, data
        yield given
        del given


def decode(
    dataset: Dataset,
    parts: Iterable[tuple[StreamPart | BlockRun | SeedRun | RecordRun, BytesLike]],
    how: Decoding,
    *,
    budget: int = MEMORY_BUDGET,
) -> Iterator[Located]:
    """Located batches of the parts, in order. Empty ones are left out. ``budget``: bytes of blocks
    that may be decompressed ahead; a larger block goes alone."""
    stream: StreamReader | None = None
    blocks = _BlockDecoders(dataset, how, budget)
    for part, data in parts:
        if isinstance(part, BlockRun):
            feeding = blocks.feed(part, data)
            del data  # or it would stay while the next range is fetched
            yield from feeding
            del feeding
            continue
        if isinstance(part, SeedRun):
            blocks.take_seeds(part, data)
            continue
        yield from blocks.drain()
        if isinstance(part, RecordRun):
            yield decode_run(dataset, part, data, how)
            continue
        if part.first or stream is None:
            stream = StreamReader(dataset.shard(part.shard), part, how)
        yield from stream.feed(part, data)
        if part.last or stream.must_end:
            yield from stream.finish()
    yield from blocks.drain()


@dataclass(frozen=True, slots=True)
class _Decoded:
    located: Located
    block: Block
    skipped: list[SkippedRegion]


@cache
def _cores() -> int:
    # asked once: asking takes a good part of the time of reading a tiny file
    return os.cpu_count() or 1


class _BlockDecoders:
    """Blocks in, located batches out, in order."""

    def __init__(self, dataset: Dataset, how: Decoding, budget: int) -> None:
        self._dataset = dataset
        self._how = how
        self._budget = budget
        self._held = 0
        self._workers = _cores()
        self._ahead = 0
        """Blocks under way while one is handed out: none at first, for who waits for the first."""
        self._waiting: deque[tuple[Future[_Decoded], int]] = deque()
        """Each with the bytes that it holds."""
        self._seeds, self._seeds_at = memoryview(b""), 0
        """Those of the next run of blocks, and where in their index they begin."""

    def take_seeds(self, run: SeedRun, data: BytesLike) -> None:
        """Keep the seeds of the blocks that come next."""
        self._seeds, self._seeds_at = memoryview(data), run.start

    def feed(self, run: BlockRun, data: BytesLike) -> Iterator[Located]:
        view, start = memoryview(data), run.blocks[0].start
        for position, block in enumerate(run.blocks, run.position):
            stored = view[block.start - start : block.stop - start]
            if self._dataset.shard(block.shard).compression is None:
                yield from self.drain()
                yield from self._out(self._decode(position, block, stored))
                continue
            nbytes = block.stop - block.start + block.raw_stop - block.raw_start
            while self._waiting and self._held + nbytes > self._budget:
                yield from self._first_out()
            pool = threads.pool("decode", self._workers)
            decoding = pool.submit(self._decode, position, block, stored, self._seed_of(block))
            self._waiting.append((decoding, nbytes))
            self._held += nbytes
            del stored, decoding
            while len(self._waiting) > self._ahead or self._held > self._budget:
                yield from self._first_out()
            self._ahead = min(self._ahead + 1, 2 * self._workers)

    def _first_out(self) -> Iterator[Located]:
        decoding, nbytes = self._waiting.popleft()
        decoded = decoding.result()
        del decoding  # which holds the block
        self._held -= nbytes
        yield from self._out(decoded)

    def _seed_of(self, block: Block) -> memoryview:
        if block.restart is None:
            return memoryview(b"")
        start = block.restart.start - self._seeds_at
        return self._seeds[max(start, 0) : max(block.restart.stop - self._seeds_at, 0)]

    def drain(self) -> Iterator[Located]:
        while self._waiting:
            yield from self._first_out()

    def _out(self, decoded: _Decoded) -> Iterator[Located]:
        # reported here, so that the caller's function runs in the caller's thread
        batch, skips, shard = decoded.located.batch, self._how.skips, decoded.block.shard
        if skips is not None:
            for region in decoded.skipped:
                skips(region)
            (table,) = self._dataset.tables([shard])
            url = self._dataset.shard(shard).url
            skips.read(url, len(batch), parts=len(table), whole=table.whole)
        if len(batch):
            yield decoded.located

    def _decode(
        self, position: int, block: Block, data: memoryview, seed: BytesLike = b""
    ) -> _Decoded:
        how, shard = self._how, self._dataset.shard(block.shard)
        skipped: list[SkippedRegion] = []
        try:
            batch = decode_block(shard, block, data, how, seed)
        except DataLossError:
            if how.skips is None:
                raise
            batch, skipped = recover_block(shard.url, shard.compression, block, data, how, seed)
            batch = part_of(batch, block)
        return _Decoded(Located(batch, position, 0), block, skipped)


# Some blocks of a dataset, one by one: for engines that split a task while it runs.


class BlockBatch(NamedTuple):
    """A batch of records, and where they are from."""

    block: int
    """The number of its block."""
    url: str
    """Its file, without secrets."""
    records: RecordBatch


class BlockRange:
    """The blocks of a dataset by number, from 0 on. A shard that cannot be cut is one block."""

    def __init__(
        self,
        dataset: Dataset,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = TASK_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        self._units = Units(dataset, streams=False)
        self._verify = verify
        self._on_corrupt = on_corrupt
        self._budget = memory_budget
        self._max_record_bytes = max_record_bytes

    def __len__(self) -> int:
        return len(self._units)

    def batches(self, start: int, stop: int) -> Iterator[BlockBatch]:
        """The records of blocks ``start:stop``, in order. The next blocks are fetched meanwhile.
        Most blocks are one batch, and those that are streams are many."""
        skips = None if self._on_corrupt == "raise" else Skips(self._on_corrupt)
        how = Decoding(self._verify, self._max_record_bytes, skips)
        for located in fetch_blocks(self._units, range(start, stop), how, budget=self._budget):
            block = start + located.position
            shard, _ = self._units[block]
            yield BlockBatch(block, self._units.dataset.shard(shard).url, located.batch)
        if skips is not None:
            skips.say()
