"""The place where a reader stands, and the way back to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from tfio_store.read.located import NO_OFFSET, Located, Standing
from tfio_store.read.rest import Rest

__all__ = ["Position"]


@dataclass(frozen=True, slots=True)
class Position:
    """``records`` behind the start of the unit (or shuffled window) at ``position`` of an epoch's
    order.

    ``offset`` is the next frame's byte in a stream of raw records: going there needs no reading
    of what lies before. Elsewhere it is `NO_OFFSET`, a number all the same, so that all states have
    one shape.
    """

    epoch: int = 0
    position: int = 0
    records: int = 0
    offset: int = NO_OFFSET
    rest: Rest | None = None
    """If other readers began this epoch, what they left of it: the order is that of this rest."""

    def at(self, located: Standing, index: int) -> Position:
        """The position of record ``index`` of a batch of the same epoch."""
        return Position(  # replace() takes several times as long
            self.epoch,
            located.position,
            located.records + index,
            located.offset(index),
            self.rest,
        )

    def resume(self, batches: Iterator[Located]) -> Iterator[Located]:
        """Drop what comes before this position. ``batches`` starts with its unit, or at
        ``offset``. ValueError if there is no such position."""
        ahead = self.records
        with closing(batches):  # type: ignore[type-var]
            if self.offset != NO_OFFSET:
                batches, ahead = self._counted_on(batches), 0
            for located in batches:
                if located.position > self.position and ahead:
                    break
                if ahead:
                    cut = ahead - located.records
                    if cut >= len(located.batch):
                        ahead = 0 if cut == len(located.batch) else ahead
                        continue
                    located = replace(located, batch=located.batch[cut:], records=ahead)
                    ahead = 0
                yield located
            if ahead:
                raise ValueError(
                    f"state= stands behind record {self.records} of a file or block that has fewer"
                )

    def _counted_on(self, batches: Iterator[Located]) -> Iterator[Located]:
        """What comes from ``offset`` on, with the records before it counted."""
        for located in batches:
            if located.position == self.position:
                located = replace(located, records=located.records + self.records)
            yield located
