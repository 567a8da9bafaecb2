"""`fetch_blocks`: the batches of any blocks of a dataset, in order, within a budget of bytes.

All reading of blocks goes through it. A sequential reader asks for all of them, a shuffled one for
a permutation, and a source for those that hold the wanted records. A shard that can't be cut counts
as one block.

The blocks are cut into spans. The process's threads read, decompress and scan them ahead of their
use (`read/spans.py`), and they come in order all the same. Streams go on here, in the caller's
thread, from what was scanned. If the iterator is dropped, the few spans under way end unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from tfio_store.dataset.model import TASK_BUDGET, Dataset
from tfio_store.read.decode import Decoding, Located, OnCorrupt, Skips
from tfio_store.read.order import Numbers
from tfio_store.read.plan import Units
from tfio_store.read.record_runs import (
    Frames,
    RecordRun,
    at_hand,
    decode_run,
    record_fetches,
)
from tfio_store.read.spans import BlockRun, DecodedBlock, Spans, StreamPart
from tfio_store.read.stream import StreamReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage.read_ahead import Fetch, Means, ReadAhead, Worked

__all__ = ["BlockBatch", "BlockRange", "decode", "fetch_blocks", "fetch_records"]


def fetch_blocks(
    units: Units,
    numbers: Numbers,
    how: Decoding,
    means: Means,
    *,
    position: int = 0,
    start: int = 0,
) -> Iterator[Located]:
    """Batches of the units of these numbers, from ``position`` of them on. Empty ones are left out.

    What is in flight, or fetched and not yet given, takes of the budget. ``start``: where in the
    first unit, if it is a stream of raw records, reading begins.
    """
    ranges = Spans(units, how, means).fetches(numbers, position=position, start=start)
    # of a long dataset each range may need a page and a table, which take requests themselves
    first = 1 if units.dataset.shards.long else None
    with closing(_ahead(ranges, means, first)) as ahead:
        yield from decode(units.dataset, tagged(ahead), how)


def fetch_records(
    units: Units,
    numbers: Numbers,
    frames: Frames,
    how: Decoding,
    means: Means,
) -> Iterator[Located]:
    """Batches of the units of these numbers, as `fetch_blocks` gives them, and behind them batches
    of the single records that ``frames`` name. Positions count the units and then the records;
    a batch of records begins at its position. What local files have in memory comes first, and all
    else is one round of requests."""
    behind, rest = len(numbers), list[slice]()
    for located in at_hand(units.dataset, frames, how, rest):
        yield replace(located, position=behind + located.position)
    if not behind and not rest:
        return  # one record at a time must cost no more than it is
    singles = (
        record_fetches(units.dataset, frames[rows], how, position=behind + rows.start)
        for rows in rest
    )
    spans = Spans(units, how, means).fetches(numbers)
    with closing(_ahead(chain(spans, chain.from_iterable(singles)), means)) as ahead:
        yield from decode(units.dataset, tagged(ahead), how)


def _ahead(ranges: Iterable[Fetch[Any]], means: Means, first: int | None = None) -> ReadAhead[Any]:
    return ReadAhead(
        ranges,
        budget=means.budget,
        may_be_short=True,
        first=first,
        threads=means.threads,
        meter=means.meter,
    )


def tagged(ahead: ReadAhead[Any]) -> Iterator[tuple[Any, Any]]:
    """The tags and answers of the ranges. None stays here while the next one is fetched."""
    for fetch, answer in ahead:
        given = fetch.tag, answer
        del fetch, answer
        yield given
        del given


def decode(
    dataset: Dataset, parts: Iterable[tuple[StreamPart | BlockRun | RecordRun, Any]], how: Decoding
) -> Iterator[Located]:
    """Located batches of the parts, in order, from their bytes or what was made of them. Empty ones
    are left out."""
    stream: StreamReader | None = None
    for part, answer in parts:
        if isinstance(part, BlockRun):
            made = answer.made
            del answer
            yield from _blocks_of(dataset, made, how)
        elif isinstance(part, RecordRun):
            yield decode_run(dataset, part, answer, how)
        else:
            if part.first or stream is None:
                stream = StreamReader(dataset.shard(part.shard), part, how)
            data, scanned = answer.made if isinstance(answer, Worked) else (answer, None)
            feeding = stream.feed(part, data, scanned)
            del answer, data, scanned  # or they would stay while the next range is fetched
            yield from feeding
            del feeding
            if part.last or stream.must_end:
                yield from stream.finish()


def _blocks_of(
    dataset: Dataset, made: list[DecodedBlock | Exception], how: Decoding
) -> Iterator[Located]:
    # reported here, so that the caller's function runs in the caller's thread
    made.reverse()
    while made:
        decoded = made.pop()
        if isinstance(decoded, Exception):
            raise decoded
        batch, shard = decoded.located.batch, decoded.block.shard
        if how.skips is not None:
            for region in decoded.skipped:
                how.skips(region)
            (table,) = dataset.shards.tables([shard])
            url = dataset.shard(shard).url
            how.skips.read(url, len(batch), parts=len(table), whole=table.whole)
        if len(batch):
            yield decoded.located


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
        self._units = Units.of(dataset, streams=False)
        self._verify = verify
        self._on_corrupt = on_corrupt
        self._means = Means(memory_budget)
        self._max_record_bytes = max_record_bytes

    def __len__(self) -> int:
        return len(self._units)

    def batches(self, start: int, stop: int) -> Iterator[BlockBatch]:
        """The records of blocks ``start:stop``, in order. The next blocks are fetched meanwhile.
        Most blocks are one batch, and those that are streams are many."""
        skips = None if self._on_corrupt == "raise" else Skips(self._on_corrupt)
        how = Decoding(self._verify, self._max_record_bytes, skips)
        for located in fetch_blocks(self._units, range(start, stop), how, self._means):
            block = start + located.position
            shard, _ = self._units[block]
            yield BlockBatch(block, self._units.dataset.shard(shard).url, located.batch)
        if skips is not None:
            skips.say()
