"""Records of raw shards that are read alone: their places, their ranges, and their decoding.

Records that lie close together come by one request, which costs more than the bytes between them.
All that is read of a list is at most 1.2 times what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.model import Dataset
from tfio_store.errors import ManifestError, Reason, RecordTooLargeError
from tfio_store.read.decode import Decoding, Located, other_records
from tfio_store.records.arrays import BoolArray, Int64Array
from tfio_store.records.damage import damaged, lacks
from tfio_store.records.framing import (
    FRAME_OVERHEAD,
    SUMMED_BYTES,
    RecordBatch,
    RecordDecoder,
    Scan,
    crc32c,
    scan,
)
from tfio_store.records.recovery import joined
from tfio_store.storage.local import LocalStore
from tfio_store.storage.read_ahead import Fetch

if TYPE_CHECKING:
    from tfio_store.dataset.block_tables import BlockTable

__all__ = [
    "UNKNOWN",
    "Frames",
    "RecordRun",
    "at_hand",
    "decode_run",
    "frames_of",
    "record_fetches",
]

MERGE_GAP = 64 << 10
"""Ranges closer than this come by one request, if the bytes between them are few beside theirs."""

MOST_WASTE = 5
"""One byte between the wanted ones is read for this many of those, at most."""

_AT_ONCE = 1 << 20
"""Bytes of local records that are read together: they fit a core's cache."""

UNKNOWN = -1
"""Stands for a frame's place that the index does not have."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Where frames lie in their shards: int64 arrays [n]. ``starts`` and ``stops`` are bytes of the
    stored object, and ``crcs`` the masked CRCs of the records, or `UNKNOWN`."""

    shards: Int64Array
    starts: Int64Array
    stops: Int64Array
    crcs: Int64Array

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, rows: npt.NDArray[Any] | slice) -> Frames:
        return Frames(self.shards[rows], self.starts[rows], self.stops[rows], self.crcs[rows])


def frames_of(table: BlockTable, numbers: Int64Array, blocks: Int64Array) -> Int64Array:
    """int64 [3, n]: the first byte, the end and the CRC of the frames of records ``numbers`` of a
    shard, which lie in ``blocks`` of it."""
    if table.starts is None:
        return np.full((3, len(numbers)), UNKNOWN)
    at = table.offsets[blocks]
    last = numbers + 1 == table.records[blocks + 1]
    behind = table.starts[np.where(last, numbers, numbers + 1)].astype(np.int64)
    stops = np.where(last, table.offsets[blocks + 1], at + behind)
    crcs = np.full(len(numbers), UNKNOWN) if table.crcs is None else table.crcs[numbers]
    return np.stack([at + table.starts[numbers], stops, crcs.astype(np.int64)])


def at_hand(
    dataset: Dataset, frames: Frames, how: Decoding, rest: list[slice]
) -> Iterator[Located]:
    """Batches of the records of local files that are in the page cache. They stand at their places
    in ``frames``. What is not there, or not as it should be, is left to ``rest``.

    A record takes one call to the system here. By a range of its own it takes ten times that.
    """
    begin = 0
    for end in _ends(frames):
        rows = slice(begin, end)
        batch = _batch_at_hand(dataset, frames[rows], how)
        if batch is not None:
            yield Located(batch, begin, 0)
        elif rest and rest[-1].stop == begin:
            rest[-1] = slice(rest[-1].start, end)
        else:
            rest.append(rows)
        begin = end


def _ends(frames: Frames) -> list[int]:
    """Where to cut the frames, so that each part is of one shard and fits a core's cache."""
    if not len(frames):
        return []
    before = np.cumsum(frames.stops - frames.starts)
    parts = np.stack([frames.shards, before // _AT_ONCE])
    cuts = np.flatnonzero((np.diff(parts) != 0).any(axis=0)) + 1
    return [*cuts.tolist(), len(frames)]


def _batch_at_hand(dataset: Dataset, frames: Frames, how: Decoding) -> RecordBatch | None:
    store, path = dataset.open(int(frames.shards[0]))
    lengths = frames.stops - frames.starts - FRAME_OVERHEAD
    if not isinstance(store, LocalStore) or (lengths > how.max_record_bytes).any():
        return None
    version = dataset.shard(int(frames.shards[0])).version
    first = np.append(True, frames.starts[1:] != frames.stops[:-1])
    stops = frames.stops[np.append(first[1:], True)]
    pieces = list(zip(frames.starts[first].tolist(), stops.tolist(), strict=True))
    data = store.read_at_hand(path, pieces, etag=version)
    if data is None:
        return None
    found = scan(data, verify=how.verify, max_record_bytes=how.max_record_bytes)
    if found.fault is not None or not np.array_equal(found.batch.lengths, lengths):
        return None
    known = frames.crcs[0] != UNKNOWN
    if known and found.summed != crc32c(frames.crcs.astype("<u4").tobytes()):
        return None
    return found.batch


@dataclass(frozen=True, slots=True)
class RecordRun:
    """The purpose of one range: records of one shard. ``pieces`` are the first byte, the end and
    the number of those that lie behind one another; what is between pieces was not asked for.
    ``position`` is where the first record stands in the reader's order; the others follow.
    ``summed`` is the sum of all of them alone, or `UNKNOWN`."""

    position: int
    shard: int
    pieces: tuple[tuple[int, int, int], ...]
    summed: int


def record_fetches(
    dataset: Dataset, frames: Frames, how: Decoding, *, position: int
) -> Iterator[Fetch[RecordRun]]:
    """The ranges of the records that ``frames`` name, in the order of their shards and bytes.

    RecordTooLargeError before anything is read of a record that is too large.
    """
    _check_lengths(dataset, frames, how.max_record_bytes)
    merged = _merged(frames).tolist()
    shards, starts, stops = (a.tolist() for a in (frames.shards, frames.starts, frames.stops))
    words = frames.crcs.astype("<u4").tobytes()
    first = 0
    opened = -1
    while first < len(shards):
        shard = shards[first]
        if shard != opened:  # which takes as long as to read a small record
            store, path = dataset.open(shard)
            version, opened = dataset.shard(shard).version, shard
        most = starts[first] + store.range_bytes
        end = first + 1
        while end < len(shards) and merged[end - 1] and stops[end] <= most:
            end += 1
        pieces = _pieces(starts[first:end], stops[first:end])
        # of all records of a shard the CRCs are known, or of none
        known = frames.crcs[first] != UNKNOWN
        summed = crc32c(words[SUMMED_BYTES * first : SUMMED_BYTES * end]) if known else UNKNOWN
        run = RecordRun(position + first, shard, pieces, summed)
        nbytes = stops[end - 1] - starts[first]
        yield Fetch(store, path, starts[first], stops[end - 1], run, nbytes, version)
        first = end


def _check_lengths(dataset: Dataset, frames: Frames, limit: int) -> None:
    lengths = frames.stops - frames.starts - FRAME_OVERHEAD
    for row in np.flatnonzero(lengths > limit)[:1]:
        raise RecordTooLargeError(
            path=dataset.shard(int(frames.shards[row])).url,
            offset=int(frames.starts[row]),
            length=int(lengths[row]),
            limit=limit,
        )


def _merged(frames: Frames) -> BoolArray:
    """bool [n - 1]: whether one request reads a frame and the next. The narrowest gaps go first,
    until they add up to the most that may be read in vain."""
    gaps = frames.starts[1:] - frames.stops[:-1]
    near = np.flatnonzero((frames.shards[1:] == frames.shards[:-1]) & (gaps <= MERGE_GAP))
    near = near[np.argsort(gaps[near], kind="stable")]
    room = int((frames.stops - frames.starts).sum()) // MOST_WASTE
    merged = np.zeros(len(gaps), np.bool_)
    merged[near[np.cumsum(gaps[near]) <= room]] = True
    return merged


def _pieces(starts: list[int], stops: list[int]) -> tuple[tuple[int, int, int], ...]:
    pieces = [(starts[0], stops[0], 1)]
    for start, stop in zip(starts[1:], stops[1:], strict=True):
        first, end, count = pieces[-1]
        if start == end:
            pieces[-1] = (first, stop, count + 1)
        else:
            pieces.append((start, stop, 1))
    return tuple(pieces)


def decode_run(dataset: Dataset, run: RecordRun, data: BytesLike, how: Decoding) -> Located:
    """The wanted records of a range from its bytes.

    DataLossError with the shard's URL and the offset of the damage; ReplacedError or ManifestError
    if other records are there than the index says.
    """
    url, view, base = dataset.shard(run.shard).url, memoryview(data), run.pieces[0][0]
    found, summed = list[RecordBatch](), 0
    for piece in run.pieces:
        scanned = _scan_piece(url, view, base, piece, how, summed)
        found.append(scanned.batch)
        summed = scanned.summed
    if run.summed not in (UNKNOWN, summed):
        raise other_records(url, base)
    return Located(joined(data, found), run.position, 0)


def _scan_piece(
    url: str, view: memoryview, base: int, piece: tuple[int, int, int], how: Decoding, summed: int
) -> Scan:
    start, stop, count = piece
    limit = how.max_record_bytes
    if base + len(view) < stop:
        missing = stop - max(start, base + len(view))
        raise damaged(Reason.SHORT_FILE, lacks("record", missing), path=url, offset=start)
    found = scan(
        view[: stop - base],
        start=start - base,
        verify=how.verify,
        max_records=count,
        max_record_bytes=limit,
        summed=summed,
    )
    if found.fault is None and len(found.batch) == count and found.end == stop - base:
        return found
    if found.fault is not None:
        decoder = RecordDecoder(
            verify=how.verify, max_record_bytes=limit, path=url, offset=base + found.end
        )
        decoder.feed(view[found.end : stop - base])
        decoder.finish()  # raises what the fault is called
    raise ManifestError(
        f"{url}: bytes {start} to {stop} do not hold the {count} records that the index says; "
        "rebuild the index with tfio_store.build_index"
    )
