"""Batches of records decoded by threads, in order and a few ahead."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from tfio_store.records.framing import RecordBatch
from tfio_store.storage import threads
from tfio_store.tools.source_errors import of_source

__all__ = ["decoded"]

_MOST_BYTES = 64 << 20
"""Of records that are decoded ahead of what is asked for."""

T = TypeVar("T")


def decoded(
    batches: Iterable[RecordBatch], decode: Callable[[RecordBatch], T], source: object = None
) -> Generator[T, None, None]:
    """What ``decode`` makes of each batch, in order. An error of reading or decoding comes in its
    place, behind all that was right; one of a record names the ``source``."""
    workers = os.cpu_count() or 1
    waiting: deque[tuple[Future[T], int]] = deque()
    try:
        for made, nbytes in _submitted(batches, decode, source, workers):
            waiting.append((made, nbytes))
            while len(waiting) > workers or sum(size for _, size in waiting) > _MOST_BYTES:
                yield waiting.popleft()[0].result()
        while waiting:
            yield waiting.popleft()[0].result()
    finally:
        for made, _ in waiting:
            made.cancel()


def _submitted(
    batches: Iterable[RecordBatch],
    decode: Callable[[RecordBatch], T],
    source: object,
    workers: int,
) -> Iterator[tuple[Future[T], int]]:
    """The results to be, each with the size of its records."""
    pool = threads.pool("decode", workers)
    first = 0
    try:
        for batch in batches:
            yield pool.submit(_decode, decode, batch, source, first), batch.nbytes
            first += len(batch)
    except Exception as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        yield failed, 0


def _decode(
    decode: Callable[[RecordBatch], T], batch: RecordBatch, source: object, first: int
) -> T:
    with of_source(source, first):
        return decode(batch)
