"""Batches of records decoded by threads, in order and a few ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from tfio_store.records.framing import RecordBatch
from tfio_store.storage import threads
from tfio_store.tools.source_errors import of_source

__all__ = ["decoded"]

_MOST_BYTES = 64 << 20
"""Of records that are decoded ahead of what is asked for."""

_MOST_ROOM = 1 << 30
"""Bytes that nulls and defaults may take in what is made of these records."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A result to be, and the size of its records."""

    made: Future[T]
    records: int
    nbytes: int


def decoded(
    batches: Iterable[RecordBatch],
    decode: Callable[[RecordBatch], T],
    source: object = None,
    *,
    room: int = 0,
) -> Generator[T, None, None]:
    """What ``decode`` makes of each batch, in order. An error of reading or decoding comes in its
    place, behind all that was right; one of a record names the ``source``.

    A record without any values may take ``room`` bytes when it is decoded. Few bytes of records
    then make large results, and fewer batches are decoded ahead, down to one at a time.
    """
    workers = os.cpu_count() or 1
    waiting: deque[_Waiting[T]] = deque()
    try:
        for made in _submitted(batches, decode, source, workers):
            waiting.append(made)
            while len(waiting) > workers or _too_large(waiting, room):
                yield waiting.popleft().made.result()
        while waiting:
            yield waiting.popleft().made.result()
    finally:
        for left in waiting:
            left.made.cancel()


def _too_large(waiting: Iterable[_Waiting[T]], room: int) -> bool:
    nbytes = sum(each.nbytes for each in waiting)
    return nbytes > _MOST_BYTES or room * sum(each.records for each in waiting) > _MOST_ROOM


def _submitted(
    batches: Iterable[RecordBatch],
    decode: Callable[[RecordBatch], T],
    source: object,
    workers: int,
) -> Iterator[_Waiting[T]]:
    pool = threads.pool("decode", workers)
    first = 0
    try:
        for batch in batches:
            made = pool.submit(_decode, decode, batch, source, first)
            yield _Waiting(made, len(batch), batch.nbytes)
            first += len(batch)
    except Exception as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        yield _Waiting(failed, 0, 0)


def _decode(
    decode: Callable[[RecordBatch], T], batch: RecordBatch, source: object, first: int
) -> T:
    with of_source(source, first):
        return decode(batch)
