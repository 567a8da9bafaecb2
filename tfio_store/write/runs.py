"""Cuts many records into runs for frame writers, small enough that blocks keep their size."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import RecordBatch

if TYPE_CHECKING:
    from tfio_store.records.framing import FrameWriter

__all__ = ["Run", "encoded", "framed", "runs", "sizes", "strided", "write_run"]

Run: TypeAlias = "list[Any] | RecordBatch"
"""Consecutive records."""

_RECORDS = 4096


def runs(records: Iterable[Any] | RecordBatch, nbytes: int) -> Iterator[Run]:
    """Cut ``records`` into runs of about ``nbytes`` at most. A larger record is a run of its
    own."""
    if isinstance(records, RecordBatch):
        yield from _cut_batch(records, nbytes)
        return
    if isinstance(records, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"records must be an iterable of records, not one {type(records).__name__}; "
            "pass a single record to write()"
        )
    remaining = iter(records)
    while run := list(islice(remaining, _RECORDS)):
        yield from _cut_list(run, nbytes)


def _cut_list(run: list[Any], nbytes: int) -> Iterator[list[Any]]:
    """Halve until small enough. Even sizes cost one look, uneven sizes a few."""
    if len(run) == 1 or _roughly(run) <= nbytes:
        yield run
        return
    middle = len(run) // 2
    yield from _cut_list(run[:middle], nbytes)
    yield from _cut_list(run[middle:], nbytes)


def _roughly(run: list[Any]) -> int:
    """Bytes of a run if its records are bytes; enough to keep blocks near their size."""
    try:
        return sum(map(len, run))
    except TypeError:  # framing will say what is wrong with them
        return 0


def _cut_batch(batch: RecordBatch, nbytes: int) -> Iterator[RecordBatch]:
    if len(batch) == 0:
        return
    number = np.cumsum(batch.lengths) // max(nbytes, 1)
    cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(batch)]
    for start, stop in pairwise(cuts):
        yield batch[start:stop]


def strided(run: Run, first: int, step: int) -> Run:
    """Every ``step``-th record of a run, from record ``first`` on."""
    if isinstance(run, RecordBatch):
        return run.take(np.arange(first, len(run), step))
    return run[first::step]


def sizes(run: Run) -> npt.NDArray[np.int64]:
    """Bytes of each record, without framing."""
    if isinstance(run, RecordBatch):
        return run.lengths
    if set(map(type, run)) <= {bytes, bytearray}:
        return np.fromiter(map(len, run), np.int64, len(run))
    return np.fromiter((memoryview(record).nbytes for record in run), np.int64, len(run))


def write_run(frames: FrameWriter, run: Run) -> int:
    """Frame a run; returns the framed bytes now waiting."""
    if isinstance(run, RecordBatch):
        return frames.write_batch(run)
    try:
        return frames.write_many(run)
    except TypeError:
        if not any(isinstance(record, Mapping) for record in run):
            raise
    return frames.write_many(
        [encoded(record) if isinstance(record, Mapping) else record for record in run]
    )


def framed(
    frames: FrameWriter, records: Iterable[Any] | RecordBatch, nbytes: int
) -> Iterator[None]:
    """Frame all ``records``. Stops whenever about ``nbytes`` may wait, for the caller to take."""
    if type(records) is list:
        records = yield from _framed_bytes(frames, records, nbytes)
    for run in runs(records, nbytes):
        yield
        write_run(frames, run)
    yield


def _framed_bytes(
    frames: FrameWriter, records: list[Any], nbytes: int
) -> Generator[None, None, list[Any]]:
    """Frame a list straight from its records' memory. Returns what begins with something else than
    bytes."""
    start = 0
    while start < len(records):
        yield
        try:
            start = frames.write_some(records, start, nbytes)
        except TypeError:
            return records[start:]  # mappings, or what framing refuses again by name
    return []


def encoded(record: Mapping[str, Any]) -> bytes:
    """A mapping as a `tf.train.Example`, or a `SequenceExample`."""
    from tfio_store.example import encode_example, encode_sequence_example
    from tfio_store.example.record_fit import SequenceRecord

    if isinstance(record, SequenceRecord):
        return encode_sequence_example(record.context, record.feature_lists)
    return encode_example(record)
