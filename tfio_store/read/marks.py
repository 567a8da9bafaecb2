"""`Mark`: where a traversal stood behind a batch, for callers who read ahead of what they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import Self

from tfio_store.read.cursor import Position, ReaderOrder
from tfio_store.read.decode import Located, LocatedList
from tfio_store.read.state import state_of
from tfio_store.records.framing import RecordBatch

__all__ = ["AnyMark", "Mark"]

_NOTHING = RecordBatch.from_records([])


class AnyMark(Protocol):
    """A place behind a batch that a reader or a mixture gave."""

    def state(self, unread: int) -> dict[str, Any]:
        """The state before so many of the last records of the batch."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A reader's place. It stays what it is when the traversal goes on, into the next epoch too."""

    position: Position
    """Behind the batch."""
    last: Located | LocatedList | None
    """Where the batch lies; without its memory, unless that tells where each record begins."""
    count: int
    """The records of the batch."""
    reader_order: ReaderOrder

    @classmethod
    def of(
        cls, position: Position, last: Located | LocatedList | None, reader_order: ReaderOrder
    ) -> Self:
        """Mark a position, behind the batch that was given last."""
        if last is None:
            return cls(position, None, 0, reader_order)
        count = len(last.batch)
        if isinstance(last, Located) and last.base is None:
            last = Located(_NOTHING, last.position, last.records)
        return cls(position, last, count, reader_order)

    def before(self, unread: int) -> Position:
        """Where it is, before so many of the last records."""
        if self.last is None:
            return self.position
        return self.position.at(self.last, self.count - unread)

    def state(self, unread: int) -> dict[str, Any]:
        """See `AnyMark`."""
        return state_of(self.before(unread), self.reader_order)
