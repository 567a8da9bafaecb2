"""Iterators over a way, each to the end of the epoch in which it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tfio_store.records.framing import RecordBatch

__all__ = ["Records", "RestFirst", "Way"]


class Way(Protocol):
    """What is iterated: a way through a source, or through a mixture."""

    passes: int

    def next_batch(self) -> RecordBatch | None: ...
    def next_records(self) -> RecordBatch | list[bytes] | None: ...


class _ToTheEnd:
    """Goes to the end of the epoch. No generator, which an error would end early."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._pass = way.passes

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended, whoever has read the last of it."""
        return self._pass != self._way.passes


class _Batches(_ToTheEnd, Iterator[RecordBatch]):
    """The batches."""

    def __next__(self) -> RecordBatch:
        batch = None if self.ended else self._way.next_batch()
        if batch is None:
            raise StopIteration
        return batch


class Records(_ToTheEnd, Iterator["RecordBatch | list[bytes]"]):
    """What is given out record by record."""

    def __next__(self) -> RecordBatch | list[bytes]:
        found = None if self.ended else self._way.next_records()
        if found is None:
            raise StopIteration
        return found


class RestFirst(Iterator[RecordBatch]):
    """The batches, but first of all what a record iterator has left of its own, which ``take_rest``
    gives."""

    def __init__(self, way: Way, take_rest: Callable[[], RecordBatch | None]) -> None:
        self._take_rest = take_rest
        self._batches = _Batches(way)

    def __next__(self) -> RecordBatch:
        rest = None if self._batches.ended else self._take_rest()
        return next(self._batches) if rest is None else rest
