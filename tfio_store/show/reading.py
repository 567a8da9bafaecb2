"""Reads what a plan of a sample names, also in raw files without an index, past all damage."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.inflate.index import read_seed
from tfio_store.dataset.model import Dataset
from tfio_store.errors import (
    DataLossError,
    ManifestError,
    Reason,
    RecordTooLargeError,
    ReplacedError,
)
from tfio_store.read.decode import Decoding, Skips, decode_block, part_of, recover_block
from tfio_store.read.spans import StreamPart
from tfio_store.read.stream import StreamReader
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import (
    FRAME_OVERHEAD,
    HEADER_BYTES,
    RecordBatch,
    find_record,
    scan,
)
from tfio_store.records.recovery import SkippedRegion
from tfio_store.show.strata import BlockPick, FilePick, Pick, SpotPick
from tfio_store.storage.read_ahead import Fetch, ReadAhead, split_range

if TYPE_CHECKING:
    from collections.abc import Callable


# Records in the middle of a raw file that has no index.
#
# A reader that is dropped into a file finds the next frame whose two checksums hold, and goes on
# from there. What it met before that frame is the rest of a record that began earlier: no damage.


MOST_SPOT_BYTES = 32 << 20
"""So much is read at a spot at most, to find one whole record."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The records that were found; where their frames begin in the file; damage between them."""

    batch: RecordBatch
    offsets: npt.NDArray[np.int64]
    damage: tuple[SkippedRegion, ...]


_NONE = Spot(RecordBatch(b"", [], []), np.zeros(0, np.int64), ())


def read_spot(
    data: BytesLike,
    start: int,
    *,
    url: str,
    nbytes: int,
    max_record_bytes: int,
    more: Callable[[int, int], BytesLike],
) -> Spot:
    """The records in ``data``, which are bytes of a file of ``nbytes`` from ``start`` on.

    If there is no whole record in it, ``more(start, stop)`` reads what follows, up to
    `MOST_SPOT_BYTES` in all. It may answer nothing: then there is none.
    """
    view, at = memoryview(data), 0
    while True:
        at, found, _ = find_record(view, start=at, max_record_bytes=max_record_bytes)
        if found:
            batches, damage = _walked(view, at, start, url, nbytes, max_record_bytes)
            return _spot(view, batches, start, damage)
        stop = start + len(view)
        wanted = min(nbytes, start + min(4 * len(view), MOST_SPOT_BYTES))
        following = more(stop, wanted) if wanted > stop else b""
        if not len(memoryview(following)):
            return _NONE
        view = memoryview(bytes(view) + bytes(following))


def _spot(
    view: memoryview, batches: list[RecordBatch], start: int, damage: list[SkippedRegion]
) -> Spot:
    offsets = np.concatenate([batch.offsets for batch in batches])
    lengths = np.concatenate([batch.lengths for batch in batches])
    return Spot(RecordBatch(view, offsets, lengths), start + offsets - HEADER_BYTES, tuple(damage))


def _walked(
    view: memoryview, at: int, start: int, url: str, nbytes: int, limit: int
) -> tuple[list[RecordBatch], list[SkippedRegion]]:
    """All whole records from a frame on. A frame that does not hold where one must begin is
    damage."""
    batches: list[RecordBatch] = []
    damage: list[SkippedRegion] = []
    for batch, gap in _runs(view, at, limit):
        batches.append(batch)
        if gap is not None:
            begin, end, kind = gap
            damage.append(SkippedRegion(url, start + begin, end - begin, kind.text, kind=kind))
        elif start + len(view) == nbytes:
            end = int(batch.offsets[-1] + batch.lengths[-1]) + 4 if len(batch) else at
            if end < len(view):
                kind = Reason.TRUNCATED
                region = SkippedRegion(url, start + end, len(view) - end, kind.text, kind=kind)
                damage.append(region)
    return batches, damage


def _runs(
    view: memoryview, at: int, limit: int
) -> Iterator[tuple[RecordBatch, tuple[int, int, Reason] | None]]:
    """Runs of sound records, and the damage behind each: its first byte, its end, and what it is.
    The run that the view ends has none."""
    patience = None
    while True:
        found = scan(view, start=at, max_record_bytes=limit)
        if found.fault is None:
            yield found.batch, None
            return
        at, sound, patience = find_record(
            view, start=found.end + 1, max_record_bytes=limit, patience=patience
        )
        end = at if sound else len(view)
        yield found.batch, (found.end, end, Reason(found.fault))
        if not sound:
            return


# Reads what a plan names: many requests at once, within a budget of memory, past all damage.
#
# What can't be read is reported, not raised: a damaged region, a shard that is missing, an index
# that does not fit its shard. Only a source of which nothing can be read is an error.


_BUDGET = 32 << 20
_EXTENSIONS = 512 << 20
"""Bytes that are read to find records at spots where the first bytes hold none."""

_ENOUGH_FAILURES = 8
"""If so many shards can't be read, and none can, the first error is raised."""

_Tag: TypeAlias = "tuple[Pick, StreamPart | None]"


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that were read together. ``numbers`` count the records of the shard, or are -1.
    ``offsets`` are those of frames in the uncompressed stream. ``begin`` and ``end`` are the stored
    bytes that they come from. ``share``: how much of the pick has been read with them, 0 to 1;
    ``last`` is true for its end."""

    shard: int
    batch: RecordBatch
    numbers: Int64Array
    offsets: Int64Array
    begin: int
    end: int
    share: float
    last: bool


class Reading:
    """Reads picks. ``damage`` and ``unreadable`` grow meanwhile."""

    def __init__(
        self, dataset: Dataset, *, max_record_bytes: int, unreadable: dict[int, OSError]
    ) -> None:
        self._dataset = dataset
        self._limit = max_record_bytes
        self.damage: list[tuple[int, SkippedRegion]] = []
        """Shards and regions."""
        self.unreadable = unreadable
        self.wrong_index: dict[int, str] = {}
        """Shards that an index does not fit, and how."""
        self.empty_spots = 0
        """Spots at which no record was found."""
        self.whole: dict[int, int] = {}
        """Files that were read whole without damage, and their records."""
        self._seen: dict[int, int] = {}
        """The end of the last record, in files that are read in spots."""
        self._answered = False
        self._extensions = _EXTENSIONS
        self._stream: _Stream | None = None

    def pieces(self, picks: Iterable[Pick]) -> Iterator[Piece]:
        """The records of the picks, in order."""
        for (pick, part), data in self._fetched(picks):
            if isinstance(pick, BlockPick):
                yield self._block(pick, data)
            elif isinstance(pick, SpotPick):
                yield self._spot(pick, data)
            else:
                assert part is not None
                if part.first or self._stream is None:
                    self._stream = _Stream(self, pick)
                yield from self._stream.feed(part, data)
        if not self._answered and self.unreadable:
            raise next(iter(self.unreadable.values()))

    # Requests

    def _fetched(self, picks: Iterable[Pick]) -> Iterator[tuple[_Tag, BytesLike]]:
        """The bytes of the picks, in order. Those of a shard that can't be read are left out, and
        the others are asked for again."""
        waiting: deque[Fetch[_Tag]] = deque()
        rest: Iterator[Fetch[_Tag]] = (f for pick in picks for f in self._fetches(pick))
        while True:
            asked = self._noted(chain(list(waiting), rest), waiting)
            waiting.clear()
            try:
                with closing(ReadAhead(asked, budget=_BUDGET, may_be_short=True)) as ahead:
                    for fetch, data in ahead:
                        waiting.popleft()
                        self._answered = True
                        yield fetch.tag, data
                return
            except OSError as error:
                if not waiting:
                    raise
                self._failed(waiting.popleft().tag[0].shard, error)

    def _noted(
        self, fetches: Iterable[Fetch[_Tag]], waiting: deque[Fetch[_Tag]]
    ) -> Iterator[Fetch[_Tag]]:
        for fetch in fetches:
            if fetch.tag[0].shard not in self.unreadable:
                waiting.append(fetch)
                yield fetch

    def _failed(self, shard: int, error: OSError) -> None:
        self.unreadable[shard] = error
        if len(self.unreadable) >= _ENOUGH_FAILURES and not self._answered:
            raise next(iter(self.unreadable.values()))

    def _fetches(self, pick: Pick) -> Iterator[Fetch[_Tag]]:
        try:
            store, path = self._dataset.open(pick.shard)
            shard = self._dataset.shard(pick.shard)
        except OSError as error:
            return self._failed(pick.shard, error)
        if isinstance(pick, FilePick):
            cuts = list(split_range(0, pick.stop, min(store.range_bytes, 4 << 20)))
            for begin, end in cuts or [(0, 0)]:
                part = StreamPart(0, pick.shard, begin, end, begin == 0, end == pick.stop)
                if begin < end:
                    version = shard.version
                    yield Fetch(store, path, begin, end, (pick, part), end - begin, version)
            return None
        start, stop = pick.start, pick.stop if isinstance(pick, SpotPick) else pick.block.stop
        cost = stop - start
        if isinstance(pick, BlockPick):
            cost = max(cost, pick.block.raw_stop - pick.block.raw_start)
        yield Fetch(store, path, start, stop, (pick, None), cost, shard.version)
        return None

    # Decoding

    def _block(self, pick: BlockPick, data: BytesLike) -> Piece:
        block, shard = pick.block, self._dataset.shard(pick.shard)
        first = pick.first
        how, seed = Decoding(True, self._limit), read_seed(self._dataset, block)
        try:
            batch = decode_block(shard, block, data, how, seed)
            offsets = block.raw_start + batch.offsets - HEADER_BYTES
            numbers = first + np.arange(len(batch), dtype=np.int64)
        except (DataLossError, ManifestError, RecordTooLargeError, ReplacedError) as error:
            unbound = replace(block, sums=None)  # of another file too, what there is
            batch, regions = recover_block(shard.url, shard.compression, unbound, data, how, seed)
            self.damage += [(pick.shard, region) for region in regions]
            offsets = _between(block.raw_start, batch.lengths, regions)
            if not regions:
                self.wrong_index[pick.shard] = str(error)
            sure = offsets < min((r.offset for r in regions), default=block.raw_start)
            numbers = np.where(sure, first + np.arange(len(batch)), -1)
            kept = part_of(batch, block)
            if len(kept) != len(batch):  # a part of a block, which damage makes hard to count
                rows = slice(block.before, block.before + len(kept))
                batch, offsets, numbers = kept, offsets[rows], np.full(len(kept), -1, np.int64)
        return Piece(pick.shard, batch, numbers, offsets, block.start, block.stop, 1, True)

    def _spot(self, pick: SpotPick, data: BytesLike) -> Piece:
        shard = self._dataset.shard(pick.shard)
        spot = read_spot(
            data,
            pick.start,
            url=shard.url,
            nbytes=shard.nbytes,
            max_record_bytes=self._limit,
            more=lambda start, stop: self._more(pick.shard, start, stop),
        )
        self.empty_spots += not len(spot.batch)
        seen = self._seen.get(pick.shard, 0)  # a spot that was read on may reach into the next one
        new = np.flatnonzero(spot.offsets >= seen)
        regions = [region for region in spot.damage if region.offset >= seen]
        self.damage += [(pick.shard, region) for region in regions]
        batch, offsets = spot.batch.take(new), spot.offsets[new]
        if len(batch):
            self._seen[pick.shard] = int(offsets[-1] + batch.lengths[-1]) + FRAME_OVERHEAD
        numbers = np.full(len(batch), -1, np.int64)
        return Piece(pick.shard, batch, numbers, offsets, pick.start, pick.stop, 1, True)

    def _more(self, shard: int, start: int, stop: int) -> BytesLike:
        stop = min(stop, start + self._extensions)
        if stop <= start:
            return b""
        self._extensions -= stop - start
        store, path = self._dataset.open(shard)
        try:
            version = self._dataset.shard(shard).version
            return store.read(path, start, stop, etag=version).result()
        except OSError as error:
            self._failed(shard, error)
            return b""


def _between(start: int, lengths: Int64Array, regions: list[SkippedRegion]) -> Int64Array:
    """Where frames of these lengths begin that fill a stream from ``start`` on, but for the
    regions. Of a gap of unknown length nothing came out."""
    gaps = deque(sorted((r.offset, r.length or 0) for r in regions))
    offsets = np.zeros(len(lengths), np.int64)
    at = start
    for i, length in enumerate(lengths.tolist()):
        while gaps and gaps[0][0] <= at:
            at = max(at, sum(gaps.popleft()))
        offsets[i] = at
        at += length + FRAME_OVERHEAD
    return offsets


class _Stream:
    """One file from its beginning, as far as it is wanted."""

    def __init__(self, reading: Reading, pick: FilePick) -> None:
        self._reading = reading
        self._pick = pick
        self._shard = reading._dataset.shard(pick.shard)
        self._regions: list[SkippedRegion] = []
        self._used = 0
        """The regions whose bytes have been counted."""
        how = Decoding(True, reading._limit, Skips(self._regions.append))
        part = StreamPart(0, pick.shard, 0, pick.stop, True, True)
        shard = replace(self._shard, compression=pick.codec)
        self._reader = StreamReader(shard, part, how)
        self._at = 0
        """Where the next frame begins."""
        self._records = 0
        self._over = False

    def feed(self, part: StreamPart, data: BytesLike) -> Iterator[Piece]:
        if self._over:
            return
        room = self._pick.room
        for located in self._reader.feed(part, data):
            yield self._piece(located.batch, part)
            if room is not None and self._at > room:
                self._over = True
                break
        if not (part.last or self._over):
            return
        if not self._over and part.stop >= self._shard.nbytes:
            batches = [located.batch for located in self._reader.finish()]
            for batch in batches:
                yield self._piece(batch, part)
            if not self._regions:
                self._reading.whole[self._pick.shard] = self._records
        self._tell()
        empty = RecordBatch(b"", [], [])
        yield replace(self._piece(empty, part), last=True)

    def _piece(self, batch: RecordBatch, part: StreamPart) -> Piece:
        regions = self._regions[self._used :]
        offsets = _between(self._at, batch.lengths, regions)
        if len(batch):
            self._at = int(offsets[-1] + batch.lengths[-1]) + FRAME_OVERHEAD
            self._used = len(self._regions)
        numbers = self._records + np.arange(len(batch), dtype=np.int64)
        if self._regions:
            numbers[:] = -1
        self._records += len(batch)
        share = part.stop / max(1, self._pick.stop)
        return Piece(self._pick.shard, batch, numbers, offsets, part.start, part.stop, share, False)

    def _tell(self) -> None:
        self._reading.damage += [(self._pick.shard, region) for region in self._regions]
