"""Iterators over a traversal, each to the end of the epoch in which it was made."""

from __future__ import annotations

from collections.abc import Iterator

from tfio_store.read.traversal import Traversal
from tfio_store.records.framing import RecordBatch

__all__ = ["Batches", "Records"]


class _ToTheEnd:
    """Goes to the end of the epoch. No generator, which an error would end early."""

    def __init__(self, way: Traversal) -> None:
        self._way = way
        self._pass = way.passes

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended, whoever has read the last of it."""
        return self._pass != self._way.passes


class Batches(_ToTheEnd, Iterator[RecordBatch]):
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
