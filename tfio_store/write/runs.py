"""Cuts many records into runs for frame writers, small enough that blocks keep their size."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import RecordBatch

if TYPE_CHECKING:
    from tfio_store.records.framing import FrameWriter

__all__ = [
    "Run", "encoded", "framed", "record_nbytes", "runs", "sizes", "strided", "write_run",
]  # fmt: skip

Run: TypeAlias = "list[Any] | RecordBatch"
"""Consecutive records."""

_RECORDS = 4096


def runs(records: Iterable[Any] | RecordBatch, nbytes: int, *, number: int = 0) -> Iterator[Run]:
    """Cut ``records`` into runs of about ``nbytes`` at most. A larger record is a run of its
    own. No more of an iterator's records are held at once. ``number``: that of the first record,
    for errors."""
    if isinstance(records, RecordBatch):
        return _cut_batch(records, nbytes)
    if isinstance(records, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(
            f"records must be an iterable of records, not one {type(records).__name__}; "
            "put a single record in a list"
        )
    if isinstance(records, (list, tuple)):
        return _cut(records, nbytes, number)
    return _take(records, nbytes, number)


def _take(records: Iterable[Any], nbytes: int, first: int) -> Iterator[list[Any]]:
    run: list[Any] = []
    held = 0
    for record in records:
        run.append(record)
        held += (
            len(record) if type(record) is bytes else record_nbytes(record, first + len(run) - 1)
        )
        if held >= nbytes or len(run) == _RECORDS:
            yield run
            first, held, run = first + len(run), 0, []
    if run:
        yield run


def _cut(records: list[Any] | tuple[Any, ...], nbytes: int, number: int) -> Iterator[list[Any]]:
    """The records are there anyway: look at many at once."""
    for first in range(0, len(records), _RECORDS):
        run = list(records[first : first + _RECORDS])
        if set(map(type, run)) <= {bytes, bytearray}:
            yield from _halved(run, nbytes)
        else:
            sizes = [record_nbytes(record, i) for i, record in enumerate(run, number + first)]
            yield from _by_size(run, sizes, nbytes)


def _halved(run: list[Any], nbytes: int) -> Iterator[list[Any]]:
    """Halve until small enough. Even sizes cost one look, uneven sizes a few."""
    if len(run) == 1 or sum(map(len, run)) <= nbytes:
        yield run
        return
    middle = len(run) // 2
    yield from _halved(run[:middle], nbytes)
    yield from _halved(run[middle:], nbytes)


def _by_size(run: list[Any], sizes: list[int], nbytes: int) -> Iterator[list[Any]]:
    start = held = 0
    for number, size in enumerate(sizes):
        held += size
        if held >= nbytes:
            yield run[start : number + 1]
            start, held = number + 1, 0
    if start < len(run):
        yield run[start:]


def record_nbytes(record: Any, number: int | None = None) -> int:
    """The bytes of a record; of a mapping, about how many it will have. TypeError if it is none."""
    if type(record) is bytes:
        return len(record)
    if type(record) is dict or isinstance(record, Mapping):
        return _values_nbytes(record.values())
    try:
        return memoryview(record).nbytes
    except TypeError:
        raise _not_a_record(record, number) from None


def _not_a_record(record: Any, number: int | None = None) -> TypeError:
    """The error for something that is neither bytes nor a mapping."""
    which = "record" if number is None else f"records[{number}]"
    remedy = "; encode text, such as by .encode()" if isinstance(record, str) else ""
    return TypeError(
        f"{which} must be bytes-like, or a mapping of features such as a dict, not "
        f"{type(record).__name__}{remedy}"
    )


def _values_nbytes(values: Iterable[Any]) -> int:
    nbytes = 0
    for value in values:
        kind = type(value)
        if kind is int or kind is float:
            nbytes += 8
        elif kind is bytes or kind is str:
            nbytes += len(value)
        elif kind is list or kind is tuple:
            nbytes += _values_nbytes(value)
        else:
            nbytes += getattr(value, "nbytes", 8)  # arrays have it
    return nbytes


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
    number = 0
    if type(records) is list:
        number = yield from _framed_bytes(frames, records, nbytes)
        records = records[number:]
    for run in runs(records, nbytes, number=number):
        yield
        write_run(frames, run)
    yield


def _framed_bytes(
    frames: FrameWriter, records: list[Any], nbytes: int
) -> Generator[None, None, int]:
    """Frame a list straight from its records' memory. Returns the number of the record that is
    something else than bytes, and from which on nothing is framed."""
    start = 0
    while start < len(records):
        yield
        try:
            start = frames.write_some(records, start, nbytes)
        except TypeError:
            break  # mappings, or what `runs` refuses by name
    return start


def encoded(record: Mapping[str, Any]) -> bytes:
    """A mapping as a `tf.train.Example`, or a `SequenceExample`."""
    from tfio_store.example import encode_example, encode_sequence_example
    from tfio_store.example.record_fit import SequenceRecord

    if isinstance(record, SequenceRecord):
        return encode_sequence_example(record.context, record.feature_lists)
    return encode_example(record)
