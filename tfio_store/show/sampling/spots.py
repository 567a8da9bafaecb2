"""Records in the middle of a raw file that has no index.

A reader that is dropped into a file finds the next frame whose two checksums hold, and goes on from
there. What it met before that frame is the rest of a record that began earlier: no damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import HEADER_BYTES, RecordBatch, find_record, scan
from tfio_store.records.recovery import SkippedRegion

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer as BytesLike

__all__ = ["MOST_SPOT_BYTES", "Spot", "read_spot"]

MOST_SPOT_BYTES = 32 << 20
"""So much is read at a spot at most, to find one whole record."""

_REASONS = {
    "length_crc": "the checksum of a record's length does not hold",
    "data_crc": "the checksum of a record's data does not hold",
    "too_large": "a record claims more bytes than max_record_bytes allows",
}


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
        at, found = find_record(view, start=at, max_record_bytes=max_record_bytes)
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
            begin, end, reason = gap
            damage.append(SkippedRegion(url, start + begin, end - begin, reason))
        elif start + len(view) == nbytes:
            end = int(batch.offsets[-1] + batch.lengths[-1]) + 4 if len(batch) else at
            if end < len(view):
                reason = "the data ends inside a record"
                damage.append(SkippedRegion(url, start + end, len(view) - end, reason))
    return batches, damage


def _runs(
    view: memoryview, at: int, limit: int
) -> Iterator[tuple[RecordBatch, tuple[int, int, str] | None]]:
    """Runs of sound records, and the damage behind each: its first byte, its end, and what it is.
    The run that the view ends has none."""
    while True:
        found = scan(view, start=at, max_record_bytes=limit)
        if found.fault is None:
            yield found.batch, None
            return
        at, sound = find_record(view, start=found.end + 1, max_record_bytes=limit)
        end = at if sound else len(view)
        yield found.batch, (found.end, end, _REASONS[found.fault])
        if not sound:
            return
